// Package tcp is the TCP side of a server: it speaks CppCloud's protocol. It answers reads
// of configurations from a snapshot and reads of the state store from memory, hands writes
// to the stores, and pushes what they publish: changed files to subscribers, changed keys
// to watches, granted locks to waiters.
//
// This package is the public interface. It connects the rooms beside it:
//
//	netio ──► loop ◄── gate ◄── config, state, watch, clients ◄── tcp
//
// The rooms:
//
//   - netio: the sockets, behind a transport of a few methods
//   - loop: a connection's input, its state, the order of its replies, its output; the
//     mailbox through which everything reaches a loop; knows frames but no commands
//   - gate: sessions, the table of commands, and the one gate that every frame passes
//   - config, state, watch, clients: the handlers, one room per family of commands, with
//     its pushes; no family knows another
//
// Open gate/gate.go and gate/dispatch.go first, then one family: its function Add has its
// rows of the table. Handlers are tested without sockets, on gate/gatetest.
//
// Invariants, here and in the rooms:
//
//   - A loop never waits. It decodes requests and answers from memory; work that waits for
//     a disk, or takes more than about a millisecond, leaves the loop and comes back as
//     mail. A session belongs to its loop, and everything that others send to a loop goes
//     through its one mailbox, in order.
//   - The event loop library ends at netio, behind a small transport, of which there is a second
//     on package net. The tests of this package run on both, and over TLS.
//   - A connection's input is in one state. Every frame, alone or in a run, passes the one
//     gate just before it is acted on: header, state, room for output, order of writes,
//     WHOAMI, right.
//   - Nothing is sent to a closed session: its descriptor may already be another
//     connection's.
//   - Replies leave in the order of requests. A request sees every earlier write of its
//     connection. A subscriber's push precedes the reply to the write, because a store
//     publishes before it completes the writer, and only posts.
//   - Everything that a peer can make grow has a limit with a name, a default and a counter.
//     Lengths are checked on the header, before anything is allocated. A peer that does not
//     read is first limited, then closed, and slows no one else down. One that sends more
//     than is handled is not read for a while.
package tcp
