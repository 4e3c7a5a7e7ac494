// Package status is what a server says of itself over HTTP: to probes whether it is well, to Prometheus
// its numbers, and to people the figures that the console shows.
//
// Every part of the server keeps its own numbers. They are read when someone asks, and that must be
// cheap and wait for nothing: probes come when a server is in trouble.
package status

import (
	"time"

	"confcenter/confstore"
	"confcenter/internal/clock"
	"confcenter/internal/memory"
	"confcenter/internal/metric"
	"confcenter/internal/ring"
	"confcenter/kv"
	"confcenter/op"
	"confcenter/player"
	"confcenter/player/field"
)

// TCP is what a TCP server says of itself. All methods may be called from any goroutine, and are cheap.
type TCP interface {
	// Stats are its numbers, under the names they have in /metrics.
	Stats() metric.Readings
	// Live returns why the server must be restarted, if it must: one of its event
	// loops is stuck.
	Live() error
	// Ready returns why a live server accepts no new requests, if so: it is stopping.
	Ready() error
	// Slow returns the latest slow requests, newest first.
	Slow() []metric.Slow
}

// Sources are what a Server asks. Clock, Memory and More have to be given; what else is nil, the server has not.
type Sources struct {
	Version    string
	Open       []string // addresses that anyone can reach from outside this machine, to do everything
	Clock      clock.Clock
	Memory     *memory.Budget
	TCP        TCP
	Config     *confstore.Store
	State      kv.Store
	StateStats func() kv.Stats
	Storage    interface {
		Stats() player.Stats
		Status() []field.TableStatus
	}
	Models []op.Model
	// What may be wrong beside the stores; nil: nothing can be. A restart helps with the first, and only
	// that fails a probe.
	Restart, Certificates, Secrets, Access func() error
	// More are the numbers of whatever else there is.
	More func() metric.Readings
}

// Server is what a server says of itself. Make one with New.
type Server struct {
	Sources
	traffic *Traffic
	started time.Time
	samples ring.Ring[moment]
}

// New makes a Server that starts now.
func New(from Sources, traffic *Traffic) *Server {
	return &Server{Sources: from, traffic: traffic, started: from.Clock.Now(), samples: ring.Ring[moment]{Size: maxSamples}}
}
