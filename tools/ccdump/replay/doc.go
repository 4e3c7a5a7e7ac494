// Package replay sends the requests of a capture to a server and compares its
// answers with those in the capture.
//
// [Replayer] is a stream.Sink: while a capture is read, each request is sent when it
// is met, and each reply is waited for where it is met. So a request that followed
// an answer in the capture follows it again, on any connection and at any speed.
//
// Two servers never answer alike to the byte. Only meaningful members are compared
// (compare.go), and numbers that a server chooses are translated in the requests
// (names.go). docs/debugging.md lists both.
package replay
