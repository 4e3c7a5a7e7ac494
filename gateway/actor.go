package gateway

import (
	"context"
	"net"
	"net/http"

	"confcenter/access"
)

type actorKey struct{}

// withActor adds the actor that all requests of a connection share.
func withActor(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, actorKey{}, &access.Actor{Origin: access.OverHTTP, Address: c.RemoteAddr().String()})
}

// actorOf returns the actor of a request: only an address, because what a request
// says about its program proves nothing.
func actorOf(r *http.Request) *access.Actor {
	actor, _ := r.Context().Value(actorKey{}).(*access.Actor)
	return actor
}
