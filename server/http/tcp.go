package http

import (
	"confcenter/internal/metric"
	"confcenter/internal/roster"
)

// TCPServer is what the gateway shows of the TCP server. All methods may be called from
// any goroutine.
type TCPServer interface {
	// Clients are a page of the identified connections with ids above after, ordered by id,
	// at most so many. Next is where the next page begins, 0 if there is none. It may take
	// some milliseconds: the event loops are asked one after the other.
	Clients(after int32, most int) (list []roster.Client, next int32)
	// Stats are its numbers, under the names they have in /metrics. It is cheap.
	Stats() metric.Readings
	// Live returns why the server must be restarted, if it must: one of its event
	// loops is stuck. It is cheap.
	Live() error
	// Ready returns why a live server accepts no new requests, if so: it is stopping.
	// It is cheap.
	Ready() error
	// Slow returns the latest slow requests, newest first, at most maxSlow.
	Slow() []metric.Slow
}
