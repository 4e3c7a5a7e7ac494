// Package sse writes streams of server-sent events to many peers at once, whatever the events
// are about.
//
// A stream belongs to the goroutine of its request, and works in turns (turn.go), so that no one
// else waits for streams. While its peer does not read it has no turn and holds little, which is
// counted; the stream that has waited longest ends when that is too much (stalls.go). What
// is the same for several streams is encoded once (frames.go).
package sse
