// Package gateway is confcenter's HTTP side: Plum's REST API and its stream, our
// own REST under /v1, metrics and health, and the console.
//
// Open route.go first: every path is a row of one table that says which methods it
// takes, how long a body may be and who answers. Then one family: plum.go,
// config.go, store.go. middleware.go is what every request passes, errors.go how a
// handler's error becomes a reply, hub.go how a change in the store reaches the
// streams. The gateway has no state of its own: it reads and writes through the
// stores that the TCP server uses, and is told of changes by their feeds.
package gateway
