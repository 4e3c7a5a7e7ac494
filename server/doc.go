// Package server speaks CppCloud's protocol on TCP: it keeps the sessions,
// answers from the config store's snapshot and pushes what the store publishes.
//
// Open dispatch.go first, then one family: identify.go, config.go,
// subscribe.go, notify.go, query.go. Below them lie session.go (input, order of
// replies), output.go (everything a peer has not read yet), hub.go (who is told
// of a change) and loop.go (the one mailbox by which anything reaches a loop
// from outside). gnet.go alone knows the event-loop library; a session sees a
// transport of a few methods, so handlers are tested without sockets.
//
// Everything of a session belongs to its loop. A loop never blocks: what waits
// for a disk or takes long happens elsewhere and comes back as mail.
package server
