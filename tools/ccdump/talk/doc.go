// Package talk understands conversations: which reply belongs to which request and
// how long it took, who speaks, which file or key it is about, and what is odd.
//
// [Follower] is the sink of a stream.Assembler. It turns every frame into a [Line],
// which [Filter] selects and [Text] and [JSON] print, and adds everything up in a
// [Summary]. protocol's own Printer prints bodies, so a line ends as in the golden files
// of the conversation tests.
//
// Memory is bounded: pending requests, names and counted subjects have limits, and
// everything beyond a limit is counted together.
package talk
