// Package protocol is the wire: CppCloud's 10-byte header and JSON bodies, plus
// the optional members confcenter adds to them.
//
// Start with command.go, the one table of everything that can be said. A frame
// is taken apart by ParseHeader, a body by Request, and each family of messages
// has a file of its own (identify.go, config.go, subscribe.go, notify.go,
// query.go) that holds both directions of both sides: what a client appends and
// a server parses stands beside what the server appends and the client parses.
// Printer turns frames into lines for people and tests.
//
// The package does no I/O, starts no goroutine and keeps no state between
// calls. Append functions never fail and never keep their arguments; what a
// Parse function returns aliases the body it was given.
//
// PROTOCOL.md is the same in prose; a test holds it to the table.
package protocol
