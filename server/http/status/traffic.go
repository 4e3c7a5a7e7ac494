package status

import (
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"confcenter/internal/clock"
	"confcenter/internal/metric"
	"confcenter/internal/ring"
)

// Traffic counts the answered requests. Make one with NewTraffic.
type Traffic struct {
	Panics  atomic.Uint64 `metric:"http_panics_total" help:"Panics of handlers; each ended its request only."`
	Rested  atomic.Uint64 `metric:"http_connections_rested_total" help:"How often a connection was not read for a while because its peer sends more than it may."`
	Resting atomic.Int64  `metric:"http_connections_resting" help:"Connections that are not read for a while because their peers send more than they may."`

	// set at open
	routes map[string]*routeTraffic // by the route's name
	limit  time.Duration            // requests that take longer are slow
	log    zerolog.Logger
	clock  clock.Clock
	slow   ring.Ring[metric.Slow]
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

// NewTraffic makes counters, of no route yet. Requests that take as long as limit are slow.
func NewTraffic(limit time.Duration, c clock.Clock, log zerolog.Logger) *Traffic {
	return &Traffic{
		routes: map[string]*routeTraffic{},
		limit:  limit,
		log:    log.Sample(&zerolog.BurstSampler{Burst: slowBurst, Period: time.Second}),
		clock:  c,
		slow:   ring.Ring[metric.Slow]{Size: maxSlow},
	}
}

// Route has the requests of a route be counted. It is for the time before the first request.
func (t *Traffic) Route(name string) {
	if t.routes[name] == nil {
		t.routes[name] = &routeTraffic{}
	}
}

// Served counts an answered request. How long one took that is a stream was up
// to its client.
func (t *Traffic) Served(method, route string, stream bool, status int, took time.Duration) {
	counts := t.routes[route]
	if counts == nil {
		return
	}
	if class := status / 100; class > 0 && class < len(counts.classes) {
		counts.classes[class].Add(1)
	}
	if stream {
		return
	}
	counts.latency.Add(took, 1)
	if took >= t.limit {
		t.log.Warn().Str("method", method).Str("route", route).Int("status", status).Dur("duration", took).Msg("slow request")
		t.slow.Add(metric.Slow{When: t.clock.Now(), Name: route, Duration: took})
	}
}

// requests returns how many requests were answered, and how long those that are not
// streams took.
func (t *Traffic) requests() (total int64, times metric.Times) {
	for _, route := range t.routes {
		for i := range route.classes {
			total += int64(route.classes[i].Load())
		}
		times.Add(&route.latency)
	}
	return total, times
}

func (t *Traffic) readings() metric.Readings {
	list := metric.Of(t)
	for name, route := range t.routes {
		label := metric.Label{Name: "route", Value: name}
		for class := range route.classes {
			// A count of 0 is worth reporting only for the normal case.
			if n := route.classes[class].Load(); n > 0 || class == http.StatusOK/100 {
				list = append(list, metric.Reading{
					Name: "http_requests_total", Help: "HTTP requests answered.", N: int64(n),
					Labels: []metric.Label{label, {Name: "status", Value: strconv.Itoa(class) + "xx"}},
				})
			}
		}
		times := &metric.Times{}
		if times.Add(&route.latency); times.Count > 0 {
			list = append(list, metric.Reading{
				Name:   "http_request_duration_seconds",
				Help:   "Time from the header of an HTTP request to the end of the reply; streams are not counted.",
				Labels: []metric.Label{label}, Times: times,
			})
		}
	}
	return list
}
