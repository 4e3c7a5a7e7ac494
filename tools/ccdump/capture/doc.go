// Package capture finds TCP segments: in pcap and pcapng files, on standard input,
// or live on an interface.
//
// A [Source] yields records, one captured packet each: [Open] makes one of a file
// or pipe, [Listen] of an interface. [Segment.Decode] then takes a record apart, and
// says in a [Reason] why it is of no use if it is not TCP over IP. [Writer] writes
// records to a file again.
//
// Files are not trusted: lengths are held against limits before anything is
// allocated, and what cannot be read ends the source with an error that says where
// and why. Everything before that place has been handed out.
package capture
