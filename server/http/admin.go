package http

import (
	"net/http"
	"slices"

	jsoniter "github.com/json-iterator/go"

	"confcenter/access"
	"confcenter/internal/metric"
	"confcenter/protocol"
	"confcenter/server/http/status"
)

// adminRoutes are for operators: health, metrics, and the current figures that the
// console shows.
func (g *Gateway) adminRoutes() []route {
	const get = http.MethodGet
	return []route{
		{method: get, pattern: "/livez", name: "livez", right: access.Anyone, quiet: true, handle: g.probe("livez", g.status.Live())},
		{method: get, pattern: "/readyz", name: "readyz", right: access.Anyone, quiet: true, handle: g.probe("readyz", g.status.Ready())},
		{method: get, pattern: "/metrics", name: "metrics", right: access.StatusRead, quiet: true, handle: g.metrics()},
		{method: get, pattern: "/v1/status", name: "status", right: access.StatusRead, quiet: true, handle: func(w *reply, _ *http.Request) error { return w.sendStruct(g.status.Body(w.May())) }},
		{method: get, pattern: "/v1/status/samples", name: "status.samples", right: access.StatusRead, quiet: true, handle: func(w *reply, _ *http.Request) error { return w.sendStruct(g.status.Samples()) }},
		{method: get, pattern: "/debug/pprof/{name}", name: "profile", right: access.StatusProfile, stream: true, handle: g.profile},
		{method: get, pattern: "/v1/backup", name: "backup", right: access.BackupRead, stream: true, handle: g.backup},
		of(protocol.GetCli, route{method: get, pattern: "/v1/clients", name: "clients", quiet: true, handle: g.clients}),
	}
}

// sources are what the gateway's status is made of.
func (g *Gateway) sources() status.Sources {
	s := status.Sources{
		Version: g.cfg.Version, Open: g.cfg.Open, Clock: g.clock, Memory: g.cfg.Memory,
		TCP: g.tcp, Config: g.stores.Config, State: g.stores.State, StateStats: g.stores.StateStats, Storage: g.stores.Storage, Models: g.stores.Models,
		Restart: g.cfg.Restart, Certificates: g.cfg.Certificates, Secrets: g.cfg.Secrets, More: g.readings,
	}
	if c := g.edge.Control; c != nil {
		s.Access = c.Trouble
	}
	return s
}

// readings are the numbers that only the gateway gets at.
func (g *Gateway) readings() metric.Readings {
	var stats struct {
		Connections int64  `metric:"http_connections" help:"HTTP connections that are open."`
		Streams     int    `metric:"http_streams" help:"Streams of events that are open."`
		Behind      uint64 `metric:"http_streams_behind_total" help:"How often a stream of keys or documents fell behind and had to read back."`
		Waiting     int    `metric:"http_streams_waiting" help:"Streams that wait until their peer reads."`
		Unread      uint64 `metric:"http_streams_unread_total" help:"Streams that ended because their peer did not read."`
		Cut         uint64 `metric:"http_streams_cut_total" help:"Those of them that ended before their time, to make room in the pool of streams."`
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
	list := slices.Concat(metric.Of(&stats), g.cfg.Connections.Readings(), g.edge.Quotas.Readings(), g.edge.Control.Readings())
	if g.stores.Audit != nil {
		list = append(list, g.auditReadings()...)
	}
	if g.stores.Lander != nil {
		list = append(list, g.stores.Lander()...)
	}
	return list
}

// probe answers a probe. What the checks say is only for those who may see the server's figures.
func (g *Gateway) probe(name string, checks []status.Check) handler {
	return func(w *reply, r *http.Request) error {
		text, ok := status.Answer(name, checks, r.URL.Query(), w.Rights.Right(access.StatusRead, false) == nil)
		h := w.Header()
		h["Content-Type"], h["Cache-Control"] = contentPlain, noStore
		if !ok {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, err := w.Write([]byte(text))
		return gone(err)
	}
}

func (g *Gateway) metrics() handler {
	all := g.status.Prometheus()
	return func(w *reply, r *http.Request) error {
		w.Header()["Cache-Control"] = noStore
		all.ServeHTTP(w, r)
		return nil
	}
}

// sendStruct answers with v as JSON that caches must not store. HTML characters are
// escaped.
func (w *reply) sendStruct(v any) error {
	body, err := jsoniter.ConfigCompatibleWithStandardLibrary.Marshal(v)
	if err != nil {
		return err
	}
	return w.sendFresh(body)
}
