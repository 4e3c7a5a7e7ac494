package gateway

import (
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"confcenter/codes"
	"confcenter/confstore"
)

// adminRoutes are for those who run the server: health, metrics, and what the
// console shows of the present.
func (g *Gateway) adminRoutes() []route {
	const get = http.MethodGet
	return []route{
		{method: get, pattern: "/livez", name: "livez", quiet: true, handle: g.health("livez", g.liveChecks())},
		{method: get, pattern: "/readyz", name: "readyz", quiet: true, handle: g.health("readyz", g.readyChecks())},
		{method: get, pattern: "/metrics", name: "metrics", quiet: true, handle: g.metrics()},
		{method: get, pattern: "/v1/status", name: "status", quiet: true, handle: g.status},
		{method: get, pattern: "/v1/status/samples", name: "status.samples", quiet: true, handle: g.statusSamples},
		{method: get, pattern: "/v1/clients", name: "clients", quiet: true, handle: g.clients},
	}
}

// configWritable says why configurations cannot be written: what cannot be
// remembered is not taken.
func (g *Gateway) configWritable() error {
	for _, p := range g.stores.Config.Problems() {
		if p.Kind == confstore.OfJournal {
			return codes.Errorf(codes.Storage, "%s: %s", p.Name, p.Text)
		}
	}
	return nil
}

// The bodies of /v1/status and /v1/clients. Times are in ms, points in time since
// 1970.
type (
	statusBody struct {
		Version     string        `json:"version"`
		Started     int64         `json:"started_ms"`
		Uptime      int64         `json:"uptime_ms"`
		Connections int           `json:"connections"`
		Clients     int           `json:"clients"`
		Watches     int64         `json:"watches"`
		Memory      int64         `json:"memory_bytes"`
		Requests    uint64        `json:"requests_total"`
		Replies     uint64        `json:"replies_total"`
		Pushes      uint64        `json:"pushes_total"` // of configurations and of the state store
		HTTP        httpBody      `json:"http"`
		Store       *storeBody    `json:"store,omitempty"`
		Config      *configBody   `json:"config,omitempty"`
		Latency     []latencyBody `json:"latency"`
		Slow        []slowBody    `json:"slow"`
	}
	httpBody struct {
		Connections int    `json:"connections"`
		Streams     int64  `json:"streams"`
		Requests    uint64 `json:"requests_total"`
	}
	storeBody struct {
		Namespaces int64  `json:"namespaces"`
		Keys       int64  `json:"keys"`
		Bytes      int64  `json:"bytes"`
		Leases     int64  `json:"leases"`
		Revision   int64  `json:"revision"`
		DiskBytes  int64  `json:"disk_bytes"`
		FreeBytes  int64  `json:"free_bytes"`
		Queue      int64  `json:"queue"`
		Commits    uint64 `json:"commits_total"`
	}
	configBody struct {
		Files    int           `json:"files"`
		Broken   int           `json:"broken"`
		Deleted  int           `json:"deleted"`
		Bytes    int64         `json:"bytes"`
		Seq      uint64        `json:"seq"`
		Problems []problemBody `json:"problems"`
	}
	problemBody struct {
		Kind  confstore.Kind `json:"kind"`
		Name  string         `json:"name"`
		Text  string         `json:"text"`
		Since int64          `json:"since_ms"`
	}
	latencyBody struct {
		Kind    string       `json:"kind"` // memory, worker, write or http
		Count   uint64       `json:"count"`
		Mean    float64      `json:"mean_ms"`
		P50     float64      `json:"p50_ms"`
		P99     float64      `json:"p99_ms"`
		Buckets []bucketBody `json:"buckets"`
	}
	bucketBody struct {
		UpTo  float64 `json:"le_ms"`
		Count uint64  `json:"count"` // above the bucket before
	}
	slowBody struct {
		When     int64   `json:"when_ms"`
		Kind     string  `json:"kind"` // http or tcp
		Name     string  `json:"name"` // of the route or the command
		Duration float64 `json:"duration_ms"`
	}
)

func (g *Gateway) status(w http.ResponseWriter, _ *http.Request) error {
	now := g.clock.Now()
	body := statusBody{
		Version: g.cfg.Version, Started: g.started.UnixMilli(), Uptime: now.Sub(g.started).Milliseconds(),
		Store: g.storeStatus(), Config: g.configStatus(), Slow: []slowBody{},
	}
	requests, latency := g.traffic.requests()
	body.HTTP = httpBody{Streams: g.traffic.streams.Load(), Requests: requests}
	if g.listener != nil {
		body.HTTP.Connections = g.listener.count()
	}
	slow := slowBodies(nil, "http", g.traffic.lately())
	if g.fleet != nil {
		s := g.fleet.Stats()
		body.Connections, body.Clients, body.Watches, body.Memory = s.Connections, s.Clients, s.Watches, s.MemoryBytes
		body.Requests, body.Replies, body.Pushes = s.Requests, s.Replies, s.Pushes+s.WatchFrames
		for i := range s.Latency {
			body.Latency = append(body.Latency, latencyOf(&s.Latency[i]))
		}
		slow = slowBodies(slow, "tcp", g.fleet.Slow())
	}
	body.Latency = append(body.Latency, latencyOf(&latency))
	slices.SortStableFunc(slow, func(a, b slowBody) int { return int(b.When - a.When) })
	body.Slow = append(body.Slow, slow[:min(len(slow), maxSlow)]...)
	return sendStruct(w, &body)
}

func (g *Gateway) storeStatus() *storeBody {
	if g.stores.StateStats == nil {
		return nil
	}
	s := g.stores.StateStats()
	return &storeBody{
		Namespaces: s.Namespaces, Keys: s.Keys, Bytes: s.Bytes, Leases: s.Leases, Revision: int64(s.Revision),
		DiskBytes: s.DiskBytes, FreeBytes: s.FreeBytes, Queue: s.Queue, Commits: s.Commits,
	}
}

func (g *Gateway) configStatus() *configBody {
	if g.stores.Config == nil {
		return nil
	}
	s := g.stores.Config.Stats()
	body := &configBody{Files: s.Files, Broken: s.Broken, Deleted: s.Deleted, Bytes: s.Bytes, Seq: s.Seq, Problems: []problemBody{}}
	for _, p := range g.stores.Config.Problems() {
		body.Problems = append(body.Problems, problemBody{Kind: p.Kind, Name: p.Name, Text: p.Text, Since: p.Since.UnixMilli()})
	}
	return body
}

func latencyOf(l *Latency) latencyBody {
	body := latencyBody{Kind: l.Kind, Count: l.Count, Mean: inMS(l.mean()), P50: inMS(l.quantile(0.5)), P99: inMS(l.quantile(0.99)), Buckets: []bucketBody{}}
	for _, b := range l.Buckets {
		body.Buckets = append(body.Buckets, bucketBody{UpTo: inMS(b.UpTo), Count: b.Count})
	}
	return body
}

func slowBodies(list []slowBody, kind string, slow []Slow) []slowBody {
	for _, s := range slow {
		list = append(list, slowBody{When: s.When.UnixMilli(), Kind: kind, Name: s.Name, Duration: inMS(s.Duration)})
	}
	return list
}

func inMS(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// sendStruct answers with v as JSON, which no cache may keep.
func sendStruct(w http.ResponseWriter, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	w.Header()["Cache-Control"] = noStore
	return sendJSON(w, http.StatusOK, append(body, '\n'))
}
