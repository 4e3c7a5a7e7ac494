// Package capture finds TCP segments: in pcap and pcapng files, on standard input,
// or live on an interface.
//
// A [Source] yields records, one captured packet each: [Open] makes one of a file
// or pipe, [Listen] of an interface. [Segment.Decode] then takes a record apart; if
// it is not TCP over IP, a [Reason] says why it is of no use. [Writer] writes records
// to a file again.
//
// Files are not trusted: lengths are checked against limits before anything is
// allocated. A source ends at the first unreadable place, with an error that says
// where and why; everything before that place has been handed out.
package capture
