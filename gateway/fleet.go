package gateway

import (
	"confcenter/internal/metric"
	"confcenter/internal/roster"
)

// Fleet is what the gateway shows of the TCP server. All methods may be called from
// any goroutine.
type Fleet interface {
	// Clients are the identified connections, ordered by id. It may take some
	// milliseconds: the event loops are asked one after the other.
	Clients() []roster.Client
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
