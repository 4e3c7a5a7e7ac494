// Package stream makes conversations of TCP segments: it puts the bytes of both
// directions of a connection into order again and cuts them into frames.
//
// Start with [Assembler]: segments go in by Segment, or bytes that are in order
// already by Data; frames come out through a [Sink]. tcp.go is the order of bytes,
// framer.go where frames begin.
//
// A capture has holes: it begins in the middle, packets are lost, cut off or twice
// there. Nothing is passed over in silence. What could not be decoded reaches the
// sink as a [Skip] with its place and reason, and the next frame is looked for.
//
// All memory is bounded, whatever is captured: by Config.Memory for bytes that wait
// for others, by Config.Conns for connections. An Assembler has one user at a time.
package stream
