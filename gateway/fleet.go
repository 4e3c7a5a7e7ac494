package gateway

import (
	"confcenter/internal/metric"
	"confcenter/internal/roster"
)

// Fleet is what the gateway shows of the server that programs are connected to.
// All methods may be called from any goroutine.
type Fleet interface {
	// Clients are the identified connections, ordered by id. It may take some
	// milliseconds: the event loops are asked one after the other.
	Clients() []roster.Client
	// Stats are its numbers, under the names they have in /metrics. It is cheap.
	Stats() metric.Readings
	// Live says why the server has to be started anew: it has ended by itself, or
	// one of its event loops stands still. nil: all is well. It is cheap.
	Live() error
	// Ready says why no new requests are taken although the server lives: it is
	// stopping. It is cheap.
	Ready() error
	// Slow are the requests that took longest to be answered lately, newest first,
	// at most maxSlow.
	Slow() []metric.Slow
}
