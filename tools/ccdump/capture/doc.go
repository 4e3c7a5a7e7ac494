// Package capture finds TCP segments: in pcap and pcapng files, on standard input,
// or live on an interface.
//
// A [Source] yields records, one captured packet each: [Open] reads a file or pipe,
// [Listen] an interface. [Segment.Decode] then decodes a record; if it is not TCP over
// IP, a [Reason] says why it is useless. [Writer] writes records to a file.
//
// Files are not trusted: lengths are checked against limits before anything is
// allocated. A source ends at the first unreadable place, with an error that says
// where and why; it has yielded everything before that place.
package capture
