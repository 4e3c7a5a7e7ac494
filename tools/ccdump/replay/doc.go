// Package replay says to a server what the clients of a capture have said, and
// compares what it answers.
//
// [Replayer] is a stream.Sink: while a capture is read, requests are sent when they
// come by and replies are waited for where they come by. So what was said after an
// answer is said after that answer again, on whatever connection, however fast the
// rest goes.
//
// Two servers never answer alike to the byte. Compared is what means something
// (compare.go); numbers that a server chooses itself are translated in what is sent
// (names.go). docs/debugging.md lists both.
package replay
