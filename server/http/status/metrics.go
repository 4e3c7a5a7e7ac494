package status

import (
	"context"
	"net/http"
	"regexp"
	"runtime"
	"slices"
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

// Prometheus answers Prometheus. Every part keeps its own numbers; they are read on
// request.
func (s *Server) Prometheus() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		collector{s},
		collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(collectors.GoRuntimeMetricsRule{Matcher: liveHeap})),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes, CoalesceGather: true})
}

// prefix is the prefix of all our metrics.
const prefix = "confcenter_"

// tcpDurations is the name of the server's histograms.
const tcpDurations = "server_request_duration_seconds"

// Readings returns all our numbers. The values of their labels are names from the
// source: routes, commands, limits and kinds of requests.
func (s *Server) Readings() metric.Readings {
	trouble := int64(0)
	if s.Secrets != nil && s.Secrets() != nil {
		trouble = 1
	}
	list := slices.Concat(s.More(), s.traffic.readings(), s.Memory.Readings(), s.troubleReadings(), metric.Readings{
		{Name: "build_info", Help: "Always 1.", Labels: []metric.Label{{Name: "version", Value: s.Version}, {Name: "goversion", Value: runtime.Version()}}, N: 1},
		{Name: "secrets_trouble", Help: "1 while values cannot be sealed, or not all be revealed: /readyz?verbose says why.", N: trouble},
	})
	if s.TCP != nil {
		list = append(list, s.TCP.Stats()...)
	}
	if s.Config != nil {
		stats := s.Config.Stats()
		list = append(list, metric.Of(&stats)...)
	}
	if s.StateStats != nil {
		stats := s.StateStats()
		list = append(list, metric.Of(&stats)...)
	}
	if s.Storage != nil {
		list = append(list, s.landingReadings()...)
	}
	for i := range s.Models {
		list = append(list, modelReadings(&s.Models[i])...)
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
type collector struct{ server *Server }

// Describe implements prometheus.Collector. It describes nothing, because the
// metrics depend on the stores.
func (c collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	for _, r := range c.server.Readings() {
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
