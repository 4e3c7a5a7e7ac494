package http

import (
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"confcenter/internal/metric"
	"confcenter/internal/ring"
)

// traffic counts the answered requests.
type traffic struct {
	// set at open
	routes map[string]*routeTraffic // by the route's name
	limit  time.Duration            // requests that take longer are slow
	log    zerolog.Logger
	now    func() time.Time
	slow   ring.Ring[metric.Slow]

	panics atomic.Uint64 // of handlers
	rests  atomic.Uint64 // of connections whose peers send more than they may
	rest   atomic.Int64  // how many connections rest
}

// routeTraffic counts the requests of one route.
type routeTraffic struct {
	classes [6]atomic.Uint64 // by the first digit of the status
	latency metric.Histogram // without streams
}

// maxSlow is how many slow requests are remembered.
const maxSlow = 50

// slowBurst is how many lines per second slow requests may cause in the log.
const slowBurst = 20

// newTraffic makes counters for each route of the table and for requests without a
// route.
func newTraffic(g *Gateway) *traffic {
	t := &traffic{
		routes: map[string]*routeTraffic{unrouted.name: {}, unknownRoute: {}},
		limit:  g.cfg.SlowRequest,
		log:    g.log.Sample(&zerolog.BurstSampler{Burst: slowBurst, Period: time.Second}),
		now:    g.clock.Now,
		slow:   ring.Ring[metric.Slow]{Size: maxSlow},
	}
	for i := range g.table {
		if name := g.table[i].name; t.routes[name] == nil {
			t.routes[name] = &routeTraffic{}
		}
		for _, use := range g.table[i].uses {
			t.routes[use.name] = &routeTraffic{}
		}
	}
	return t
}

// unknownRoute is the route of paths that are not in the table.
const unknownRoute = "unknown"

// served counts an answered request.
func (t *traffic) served(w *reply, method string, duration time.Duration) {
	route := t.routes[w.route.name]
	if route == nil {
		return
	}
	if class := w.status / 100; class > 0 && class < len(route.classes) {
		route.classes[class].Add(1)
	}
	if w.route.stream {
		return // its duration is up to the client
	}
	route.latency.Add(duration, 1)
	if duration >= t.limit {
		t.log.Warn().Str("method", method).Str("route", w.route.name).Int("status", w.status).Dur("duration", duration).Msg("slow request")
		t.slow.Add(metric.Slow{When: t.now(), Name: w.route.name, Duration: duration})
	}
}

// lately returns the slow requests, newest first.
func (t *traffic) lately() []metric.Slow { return t.slow.Newest(maxSlow) }

// requests returns how many requests were answered, and how long those that are not
// streams took.
func (t *traffic) requests() (total int64, times metric.Times) {
	for _, route := range t.routes {
		for i := range route.classes {
			total += int64(route.classes[i].Load())
		}
		times.Add(&route.latency)
	}
	return total, times
}
