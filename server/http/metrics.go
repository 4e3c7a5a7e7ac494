package http

import (
	"context"
	"net/http"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"confcenter/internal/metric"
	"confcenter/op"
)

// maxScrapes is how many scrapes may run at a time.
const maxScrapes = 8

// liveHeap is what the last collection found in use, which is what the pools of memory should add up to.
var liveHeap = regexp.MustCompile(`^/gc/heap/live:bytes$`)

// metrics answers Prometheus. Every part keeps its own numbers; they are read on
// request.
func (g *Gateway) metrics() handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		collector{g},
		collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(collectors.GoRuntimeMetricsRule{Matcher: liveHeap})),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	handler := promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes, CoalesceGather: true})
	return func(w *reply, r *http.Request) error {
		w.Header()["Cache-Control"] = noStore
		handler.ServeHTTP(w, r)
		return nil
	}
}

// prefix is the prefix of all our metrics.
const prefix = "confcenter_"

// tcpDurations is the name of the server's histograms.
const tcpDurations = "server_request_duration_seconds"

// readings returns all our numbers. The values of their labels are names from the
// source: routes, commands, limits and kinds of requests.
func (g *Gateway) readings() metric.Readings {
	list := append(g.httpReadings(), g.troubleReadings()...)
	trouble := int64(0)
	if g.cfg.Secrets != nil && g.cfg.Secrets() != nil {
		trouble = 1
	}
	list = append(list, metric.Reading{Name: "secrets_trouble", Help: "1 while values cannot be sealed, or not all be revealed: /readyz?verbose says why.", N: trouble})
	if g.tcp != nil {
		list = append(list, g.tcp.Stats()...)
	}
	if g.stores.Config != nil {
		stats := g.stores.Config.Stats()
		list = append(list, metric.Of(&stats)...)
	}
	if g.stores.StateStats != nil {
		stats := g.stores.StateStats()
		list = append(list, metric.Of(&stats)...)
	}
	if g.stores.Storage != nil {
		list = append(list, g.landingReadings()...)
	}
	for i := range g.stores.Models {
		list = append(list, modelReadings(&g.stores.Models[i])...)
	}
	if g.stores.Audit != nil {
		list = append(list, g.auditReadings()...)
	}
	if g.stores.Lander != nil {
		list = append(list, g.stores.Lander()...)
	}
	return list
}

func (g *Gateway) httpReadings() metric.Readings {
	var stats struct {
		Connections int64  `metric:"http_connections" help:"HTTP connections that are open."`
		Streams     int    `metric:"http_streams" help:"Streams of events that are open."`
		Behind      uint64 `metric:"http_streams_behind_total" help:"How often a stream of keys or documents fell behind and had to read back."`
		Waiting     int    `metric:"http_streams_waiting" help:"Streams that wait until their peer reads."`
		Unread      uint64 `metric:"http_streams_unread_total" help:"Streams that ended because their peer did not read."`
		Cut         uint64 `metric:"http_streams_cut_total" help:"Those of them that ended before their time, to make room in the pool of streams."`
		Rested      uint64 `metric:"http_connections_rested_total" help:"How often a connection was not read for a while because its peer sends more than it may."`
		Resting     int64  `metric:"http_connections_resting" help:"Connections that are not read for a while because their peers send more than they may."`
		Panics      uint64 `metric:"http_panics_total" help:"Panics of handlers; each ended its request only."`
	}
	stats.Streams = g.streams.count()
	for _, h := range []*hub{g.hub, g.changes} {
		if h != nil {
			stats.Behind += h.Behind()
		}
	}
	stats.Unread = g.sse.Unread.Load()
	stats.Waiting, stats.Cut = g.sse.Counts()
	stats.Connections = g.connections.n.Load()
	stats.Panics = g.traffic.panics.Load()
	stats.Rested, stats.Resting = g.traffic.rests.Load(), g.traffic.rest.Load()
	list := append(slices.Concat(metric.Of(&stats), g.cfg.Connections.Readings(), g.edge.Quotas.Readings(), g.edge.Control.Readings(), g.cfg.Memory.Readings()), metric.Reading{
		Name: "build_info", Help: "Always 1.", Labels: []metric.Label{{Name: "version", Value: g.cfg.Version}, {Name: "goversion", Value: runtime.Version()}}, N: 1,
	})
	for name, route := range g.traffic.routes {
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

// modelReadings are the numbers of a model.
func modelReadings(m *op.Model) (list metric.Readings) {
	model := metric.Label{Name: "model", Value: m.Name}
	if m.Count != nil {
		list = append(list, metric.Reading{Name: "model_writes_total", Help: "Changes that the model made, for TCP and HTTP.", Labels: []metric.Label{model}, N: int64(m.Count.Writes.Load())})
		for code, n := range m.Count.Refused() {
			list = append(list, metric.Reading{Name: "model_refused_total", Help: "Requests that the model refused, by their code: limits among them.", Labels: []metric.Label{model, {Name: "code", Value: code.Name()}}, N: int64(n)})
		}
	}
	user, ok := m.Asked.(op.User)
	if !ok {
		return list
	}
	all, err := user.Used(context.Background()) // from memory
	if err != nil {
		return list
	}
	for _, one := range all {
		labels := []metric.Label{model, {Name: "limit", Value: one.What}}
		list = append(list, metric.Reading{Name: "model_limit_use", Help: "How much there is of what the model has a limit of.", Labels: labels, N: one.N},
			metric.Reading{Name: "model_limit_most", Help: "How much of it there may be.", Labels: labels, N: one.Limit})
	}
	return list
}

// collector reads everything on request.
type collector struct{ gateway *Gateway }

// Describe implements prometheus.Collector. It describes nothing, because the
// metrics depend on the stores.
func (c collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	for _, r := range c.gateway.readings() {
		ch <- prometheusMetric(&r)
	}
}

// prometheusMetric converts r for Prometheus: times in seconds, buckets cumulative.
func prometheusMetric(r *metric.Reading) prometheus.Metric {
	var names, values []string
	for _, l := range r.Labels {
		names, values = append(names, l.Name), append(values, l.Value)
	}
	desc := prometheus.NewDesc(prefix+r.Name, r.Help, names, nil)
	if r.Times == nil {
		kind := prometheus.GaugeValue
		if strings.HasSuffix(r.Name, "_total") {
			kind = prometheus.CounterValue
		}
		return prometheus.MustNewConstMetric(desc, kind, float64(r.N), values...)
	}
	buckets := make(map[float64]uint64, len(r.Times.Buckets))
	var below uint64
	for _, b := range r.Times.Buckets {
		below += b.Count
		buckets[b.UpTo.Seconds()] = below
	}
	return prometheus.MustNewConstHistogram(desc, r.Times.Count, r.Times.Sum.Seconds(), buckets, values...)
}
