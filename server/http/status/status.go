package status

import (
	"slices"
	"time"

	"confcenter/internal/metric"
	"confcenter/op"
)

// Times are in ms, points in time since 1970.
type (
	// Body is the answer of /v1/status.
	//
	// wide: figures.
	Body struct {
		Version     string        `json:"version"`
		Started     int64         `json:"started_ms"`
		Uptime      int64         `json:"uptime_ms"`
		Connections int64         `json:"connections" metric:"server_connections"`
		Clients     int64         `json:"clients" metric:"server_clients"`
		Watches     int64         `json:"watches" metric:"server_watches"`
		Memory      int64         `json:"memory_bytes" metric:"server_memory_bytes"`
		Requests    int64         `json:"requests_total" metric:"server_requests_total"`
		Replies     int64         `json:"replies_total" metric:"server_replies_total"`
		Pushes      int64         `json:"pushes_total"` // of configurations and of the state store
		Budget      int64         `json:"memory_budget_bytes" metric:"memory_budget_bytes"`
		Pools       []poolBody    `json:"pools"` // of the budget
		HTTP        httpBody      `json:"http"`
		Troubles    []troubleBody `json:"troubles"`
		Open        []string      `json:"open"` // addresses that anyone can reach, without access control
		Store       *storeBody    `json:"store,omitempty"`
		Config      *configBody   `json:"config,omitempty"`
		Landing     *Landing      `json:"landing,omitempty"` // of player storage
		Latency     []latencyBody `json:"latency"`
		Slow        []slowBody    `json:"slow"`
	}
	poolBody struct {
		Name    string `json:"name"`
		Bytes   int64  `json:"bytes"`
		Limit   int64  `json:"limit_bytes"`
		Refused uint64 `json:"refused_total"`
	}
	httpBody struct {
		Connections int64 `json:"connections" metric:"http_connections"`
		Streams     int64 `json:"streams" metric:"http_streams"`
		Requests    int64 `json:"requests_total" metric:"http_requests_total"`
	}
	storeBody struct {
		Namespaces int64 `json:"namespaces" metric:"store_namespaces"`
		Keys       int64 `json:"keys" metric:"store_keys"`
		Bytes      int64 `json:"bytes" metric:"store_bytes"`
		Leases     int64 `json:"leases" metric:"store_leases"`
		Revision   int64 `json:"revision" metric:"store_revision"`
		DiskBytes  int64 `json:"disk_bytes" metric:"store_disk_bytes"`
		FreeBytes  int64 `json:"free_bytes" metric:"store_disk_free_bytes"`
		Queue      int64 `json:"queue" metric:"store_queued_transactions"`
		Commits    int64 `json:"commits_total" metric:"store_commits_total"`
	}
	configBody struct {
		Files    int64         `json:"files" metric:"config_files"`
		Broken   int64         `json:"broken" metric:"config_broken_files"`
		Deleted  int64         `json:"deleted" metric:"config_deleted_files"`
		Bytes    int64         `json:"bytes" metric:"config_bytes"`
		Seq      int64         `json:"seq" metric:"config_sequence"`
		Problems []problemBody `json:"problems"`
	}
	problemBody struct {
		Kind  string `json:"kind"`
		Name  string `json:"name"`
		Text  string `json:"text"`
		Since int64  `json:"since_ms"`
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
		Count uint64  `json:"count"` // above the previous bucket
	}
	slowBody struct {
		When     int64   `json:"when_ms"`
		Kind     string  `json:"kind"` // http or tcp
		Name     string  `json:"name"` // of the route or the command
		Duration float64 `json:"duration_ms"`
	}
)

// Body is the answer of /v1/status for someone who may read some documents: figures are for more
// people than names are.
func (s *Server) Body(may op.May) *Body {
	numbers := s.Readings()
	body := &Body{Version: s.Version, Started: s.started.UnixMilli(), Uptime: s.Clock.Now().Sub(s.started).Milliseconds(), Troubles: s.troubles(), Open: append([]string{}, s.Open...), Slow: []slowBody{}}
	numbers.Fill(body)
	numbers.Fill(&body.HTTP)
	for name, pool := range s.Memory.Pools() {
		body.Pools = append(body.Pools, poolBody{name, pool.Held(), pool.Limit(), pool.Refused()})
	}
	if s.StateStats != nil {
		body.Store = &storeBody{}
		numbers.Fill(body.Store)
	}
	if s.Config != nil {
		body.Config = &configBody{Problems: s.problems(may)}
		numbers.Fill(body.Config)
	}
	if s.Storage != nil {
		body.Landing = s.Landing()
	}
	slow := slowBodies(nil, "http", s.traffic.slow.Newest(maxSlow))
	if s.TCP != nil {
		body.Pushes = pushes(numbers)
		for _, r := range numbers {
			if r.Name == tcpDurations {
				body.Latency = append(body.Latency, latencyOf(r.Labels[0].Value, r.Times))
			}
		}
		slow = slowBodies(slow, "tcp", s.TCP.Slow())
	}
	_, times := s.traffic.requests()
	body.Latency = append(body.Latency, latencyOf("http", &times))
	slices.SortStableFunc(slow, func(a, b slowBody) int { return int(b.When - a.When) })
	body.Slow = append(body.Slow, slow[:min(len(slow), maxSlow)]...)
	return body
}

// pushes adds up those of both stores.
func pushes(tcp metric.Readings) int64 {
	return tcp.Get("server_pushes_total") + tcp.Get("server_watch_frames_total")
}

func (s *Server) problems(may op.May) []problemBody {
	list := []problemBody{}
	for _, p := range s.Config.Problems() {
		if !may.Names(p.Name) {
			continue
		}
		list = append(list, problemBody{Kind: p.Kind, Name: p.Name, Text: p.Text, Since: p.Since.UnixMilli()})
	}
	return list
}

func latencyOf(kind string, t *metric.Times) latencyBody {
	body := latencyBody{Kind: kind, Count: t.Count, Mean: inMS(t.Mean()), P50: inMS(t.Quantile(0.5)), P99: inMS(t.Quantile(0.99)), Buckets: []bucketBody{}}
	for _, b := range t.Buckets {
		body.Buckets = append(body.Buckets, bucketBody{UpTo: inMS(b.UpTo), Count: b.Count})
	}
	return body
}

func slowBodies(list []slowBody, kind string, slow []metric.Slow) []slowBody {
	for _, s := range slow {
		list = append(list, slowBody{When: s.When.UnixMilli(), Kind: kind, Name: s.Name, Duration: inMS(s.Duration)})
	}
	return list
}

func inMS(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
