// Package capture finds TCP segments: in pcap and pcapng files, on standard input,
// or live on an interface.
//
// A [Source] yields records, one captured packet each: [Open] reads a file or pipe,
// [Listen] an interface. A [Decoder] then finds the segment in a record; if it is not TCP
// over IP, the error says why it is useless. [Writer] writes records to a file.
//
// Files are not trusted: no length in one has memory allocated that the file does not
// fill. A source ends at the first unreadable place, with an error that says
// where and why; it has yielded everything before that place.
package capture
