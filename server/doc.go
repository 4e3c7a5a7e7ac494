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
// What must stay true, here and in the rooms:
//
//   - A loop never waits. It decodes, and answers from memory; what waits for a disk, or
//     takes more than about a millisecond, leaves the loop and comes back as mail.
//     Everything of a session belongs to its loop, and everything that others tell a loop
//     goes through its one mailbox, in order.
//   - The event loop library ends at netio, behind a small transport.
//   - A connection's input is in one state. Every frame, alone or in a run, passes the one
//     gate just before it is acted on: header, state, room for output, order of writes,
//     WHOAMI, right.
//   - A closed session is dead. Nothing is sent to it: its descriptor may be a stranger's.
//   - Replies leave in the order of requests. A request sees every earlier write of its
//     connection. A subscriber's push precedes the reply to the write, because a store
//     publishes before it completes the writer, and only posts.
//   - Whatever a peer can make grow has a limit with a name, a default and a counter. Lengths
//     are judged on the header, before anything is allocated. A peer that does not read is
//     limited, then closed, and nobody else is slower for it.
package server
