// Package protocol is the wire: CppCloud's 10-byte header and JSON bodies, plus
// the optional members confcenter adds to them, plus the commands of the state
// store, whose bodies may end in octets.
//
// Start with command.go, the table of all commands. ParseHeader parses a frame's header
// and Request its body. Each family of messages has its own file (identify.go,
// config.go, subscribe.go, notify.go, query.go) with both sides: what a client appends
// and a server parses is next to what the server appends and the client parses.
// A message that needs no more is a struct whose tags say its members, read and written by message.go.
// Printer formats frames as lines for people and tests.
//
// The state store's files begin with kv. Its messages carry kv's own types, which
// kv/kvjson reads and writes: reads are in kvget.go, kvlist.go, kvhistory.go and
// kvstat.go, writes in kvwrite.go (server), kvsend.go (client) and kvresult.go
// (both), the rest in kvlease.go, kvlock.go and kvwatch.go.
//
// The package does no I/O, starts no goroutine and keeps no state between
// calls. Append functions never fail and never keep their arguments; what a
// Parse function returns aliases the body it was given, unless its comment or,
// for all kv types, this one says that it does not.
//
// PROTOCOL.md is the same in prose; a test compares it with the table.
package protocol
