// Package replay sends the requests of a capture to a server and compares its
// answers with those in the capture.
//
// [Replayer] is a stream.Sink: while it reads a capture it sends each request where it
// occurs and waits for each reply where that occurs. So a request that followed an
// answer in the capture follows it again, on any connection and at any speed.
//
// Two servers never give byte-identical answers. Only meaningful members are compared
// (compare.go), and numbers that a server chooses are translated in the requests
// (names.go). docs/debugging.md lists both.
package replay
