package http

import (
	"confcenter/internal/roster"
	"confcenter/server/http/status"
)

// TCPServer is what the gateway shows of the TCP server. All methods may be called from
// any goroutine.
type TCPServer interface {
	status.TCP
	// Clients are a page of the identified connections with ids above after, ordered by id,
	// at most so many. Next is where the next page begins, 0 if there is none. It may take
	// some milliseconds: the event loops are asked one after the other.
	Clients(after int32, most int) (list []roster.Client, next int32)
}
