// Package server speaks CppCloud's protocol on TCP. It keeps the sessions,
// answers reads of configurations from a snapshot and reads of the state store
// from memory, hands writes to the stores, and pushes what they publish: changed
// files to subscribers, changed keys to watches, locks to those in line.
//
// Open dispatch.go first, then one family: identify.go, config.go,
// subscribe.go, notify.go and query.go for configurations and clients, the kv
// files for the state store. Below them lie session.go (input, order of
// replies), output.go (everything a peer has not read yet), hub.go (who is told
// of a change) and loop.go (the one mailbox by which anything reaches a loop
// from outside). gnet.go alone knows the event-loop library; a session sees a
// transport of a few methods, so handlers are tested without sockets.
//
// Everything of a session belongs to its loop. A loop never blocks: what waits
// for a disk or takes long happens elsewhere and comes back as mail.
package server
