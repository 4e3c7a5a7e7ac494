// Package server speaks CppCloud's protocol on TCP. It answers reads of configurations
// from a snapshot and reads of the state store from memory, hands writes to the
// stores, and pushes what they publish: changed files to subscribers, changed keys to
// watches, locks to those in line.
//
// This package has the outer face, and puts the rooms below it together:
//
//	netio ──► loop ◄── gate ◄── config, state, watch, clients ◄── server
//
// In them are:
//
//   - netio: the sockets, behind a transport of a few methods
//   - loop: a connection's input, its state, the order of its replies, its output; the
//     mailbox by which anything reaches a loop; knows frames, and no command
//   - gate: sessions, the table of commands, and the one gate that every frame passes
//   - config, state, watch, clients: the handlers, a room for each family of commands,
//     with what it pushes; no family knows another
//
// Open gate/gate.go and gate/dispatch.go first, then one family: the function Add has
// its rows of the table. Handlers are tested without sockets, on gate/gatetest.
//
// Everything of a session belongs to its loop. A loop never blocks: what waits for a
// disk or takes long happens elsewhere and comes back as mail.
package server
