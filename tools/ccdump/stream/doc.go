// Package stream turns TCP segments into conversations: it restores the order of the
// bytes in both directions of a connection and cuts them into frames.
//
// Start with [Assembler]: segments go in, and frames come out through a [Sink]. tcp.go
// puts bytes in order, framer.go finds where frames begin.
//
// Package reassembly of gopacket does not do for tcp.go. It orders each direction by
// itself, so that replies overtake their requests where a packet is missing or late. It
// gives up waiting by time or for want of room, in all connections at once, whatever was
// acknowledged. It takes a connection that begins again between the same ports for the old
// one. And it says nothing of bytes lost at the end, or cut off by the snap length.
//
// A capture has holes: it begins in the middle, and packets are lost, cut off or
// repeated. Nothing is dropped silently. Bytes that cannot be decoded reach the sink as
// a [Skip] with their place and the reason; then the search for the next frame begins.
// Of a connection that is TLS only the beginning does.
//
// All memory is bounded, whatever is captured: by Config.Memory for bytes that wait
// for others, by Config.Conns for connections. An Assembler is not for concurrent use.
package stream
