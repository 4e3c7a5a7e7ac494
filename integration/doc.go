// Package integration tests the server from outside, over TCP, byte by byte.
//
// A file is named after the family it covers, as in protocol and server:
// identify, config, set, subscribe, push, notify, query, keepalive. framing and
// hostile are about bytes that are not good requests, order about what comes
// before what, files and inherit about edits on the disk and how far they reach.
// sdk_cpp, sdk_python and console behave like CppCloud's three clients, down to
// what would kill them. example and kill run the real binary.
//
// Each known fact about CppCloud's behaviour is a test or subtest whose name states
// it, so that `go test -v` reads like the specification. A test starts a server of
// its own on a free port, runs in parallel with the others, and waits for frames,
// never for time.
package integration
