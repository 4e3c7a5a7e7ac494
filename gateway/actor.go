package gateway

import (
	"context"
	"net"
	"net/http"

	"confcenter/access"
)

type actorKey struct{}

// withActor makes the actor that the requests of a connection share.
func withActor(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, actorKey{}, &access.Actor{Origin: access.OverHTTP, Address: c.RemoteAddr().String()})
}

// actorOf is who asks: an address, since what a request says of its program proves
// nothing.
func actorOf(r *http.Request) *access.Actor {
	actor, _ := r.Context().Value(actorKey{}).(*access.Actor)
	return actor
}
