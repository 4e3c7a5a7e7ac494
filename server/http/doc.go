// Package http is confcenter's HTTP side: Plum's REST API and its stream, our
// own REST under /v1, metrics and health, and the console.
//
// Open route.go first: every path is a row of one table that gives its methods,
// body limit and handler. Then one family: plum.go, config.go, store.go.
// middleware.go has what every request passes through, errors.go turns a handler's
// error into a reply, and hub.go brings changes of the store to the streams. What needs
// neither routes nor replies is in the packages below this one. The gateway has no state of
// its own: it reads and writes through the same stores as the TCP server, and follows their
// feeds.
//
// What must stay true:
//
//   - What every request passes is in middleware.go and nowhere else. A request that another
//     site's page may have caused reaches no handler.
//   - Plum's part answers as Plum does, down to the order in which it looks at a path. Where
//     it differs, docs/http.md says so.
//   - No work for a stream is done on a writer's time: a store's goroutine only leaves what
//     is new. Streams wait for disks outside of their turns (package sse).
//   - One follower of the store serves all streams. What waits for a stream is shared and
//     bounded. A stream that falls behind reads the log, and only it misses the values that
//     were written over. A stream in Plum's form tells a key's last value last. A stream of
//     documents misses nothing.
//   - Values, keys and names of files are in no line of the log.
package http
