package gateway

import (
	"net/http"
	"runtime"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"confcenter/confstore"
	"confcenter/kvstore"
)

// maxScrapes is how many may be answered at a time.
const maxScrapes = 8

// metrics answers Prometheus. The numbers are those that the parts keep for
// themselves; they are read when somebody asks.
func (g *Gateway) metrics() func(w http.ResponseWriter, r *http.Request) error {
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		newCollector(g),
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	handler := promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes, CoalesceGather: true})
	return func(w http.ResponseWriter, r *http.Request) error {
		w.Header()["Cache-Control"] = noStore
		handler.ServeHTTP(w, r)
		return nil
	}
}

// reading is a metric that is one number of some statistics.
type reading[S any] struct {
	name string // without the prefix; _total makes it a counter
	help string
	of   func(*S) float64
}

// number lets readings be written without conversions.
func number[S any, N int | int32 | int64 | uint64 | float64](of func(*S) N) func(*S) float64 {
	return func(s *S) float64 { return float64(of(s)) }
}

// httpStats are the gateway's own.
type httpStats struct {
	connections int
	refused     uint64
	streams     int64
	behind      uint64
}

var httpReadings = []reading[httpStats]{
	{"http_connections", "HTTP connections that are open.", number(func(s *httpStats) int { return s.connections })},
	{"http_connections_refused_total", "HTTP connections closed because there were too many.", number(func(s *httpStats) uint64 { return s.refused })},
	{"http_streams", "Streams of events that are open.", number(func(s *httpStats) int64 { return s.streams })},
	{"http_streams_behind_total", "How often a stream of the state store fell behind and had to read back.", number(func(s *httpStats) uint64 { return s.behind })},
}

var fleetReadings = []reading[FleetStats]{
	{"server_connections", "TCP connections that are open.", number(func(s *FleetStats) int { return s.Connections })},
	{"server_clients", "TCP connections that have identified themselves.", number(func(s *FleetStats) int { return s.Clients })},
	{"server_watches", "Watches on the state store.", number(func(s *FleetStats) int64 { return s.Watches })},
	{"server_memory_bytes", "Input and output held for TCP peers.", number(func(s *FleetStats) int64 { return s.MemoryBytes })},
	{"server_connections_opened_total", "TCP connections accepted.", number(func(s *FleetStats) uint64 { return s.Opened })},
	{"server_connections_closed_total", "TCP connections ended.", number(func(s *FleetStats) uint64 { return s.Closed })},
	{"server_replies_total", "Replies sent to TCP peers.", number(func(s *FleetStats) uint64 { return s.Replies })},
	{"server_pushes_total", "Notices of changed configurations.", number(func(s *FleetStats) uint64 { return s.Pushes })},
	{"server_pushes_coalesced_total", "Notices that took the place of one the peer had not read.", number(func(s *FleetStats) uint64 { return s.Coalesced })},
	{"server_watch_frames_total", "Frames of events sent to watches.", number(func(s *FleetStats) uint64 { return s.WatchFrames })},
	{"server_watches_behind_total", "How often a watch fell behind because its peer did not read.", number(func(s *FleetStats) uint64 { return s.WatchesBehind })},
	{"server_watch_resyncs_total", "How often a watch had to begin again with the whole state.", number(func(s *FleetStats) uint64 { return s.WatchResyncs })},
	{"server_keepalives_total", "Silent peers asked for a sign of life.", number(func(s *FleetStats) uint64 { return s.KeepAlives })},
	{"server_sessions_parked_total", "How often a connection had to wait for its writes, the store or its peer.", number(func(s *FleetStats) uint64 { return s.Parked })},
	{"server_state_writes_total", "Writes that the state store took from TCP peers.", number(func(s *FleetStats) uint64 { return s.StateWrites })},
	{"server_state_refused_total", "Requests about the state store answered with an error.", number(func(s *FleetStats) uint64 { return s.StateRefused })},
}

var configReadings = []reading[confstore.Stats]{
	{"config_files", "Configuration files, broken ones included.", number(func(s *confstore.Stats) int { return s.Files })},
	{"config_broken_files", "Configuration files that cannot be served as they are now.", number(func(s *confstore.Stats) int { return s.Broken })},
	{"config_deleted_files", "Names of which only the tombstone is left.", number(func(s *confstore.Stats) int { return s.Deleted })},
	{"config_bytes", "Contents of the files that are served.", number(func(s *confstore.Stats) int64 { return s.Bytes })},
	{"config_sequence", "Number of the newest change; it goes on rising across restarts.", number(func(s *confstore.Stats) uint64 { return s.Seq })},
	{"config_problems", "What somebody should look at, broken files included.", number(func(s *confstore.Stats) int { return s.Problems })},
	{"config_pending_writes", "Writes that wait.", number(func(s *confstore.Stats) int { return s.Pending })},
	{"config_pending_bytes", "Contents of the writes that wait.", number(func(s *confstore.Stats) int64 { return s.PendingBytes })},
}

var storeReadings = []reading[kvstore.Stats]{
	{"store_revision", "Newest revision of the state store.", number(func(s *kvstore.Stats) int64 { return int64(s.Revision) })},
	{"store_log_floor_revision", "Changes after it can be read back.", number(func(s *kvstore.Stats) int64 { return int64(s.LogFloor) })},
	{"store_history_floor_revision", "Versions that ended before it may be gone.", number(func(s *kvstore.Stats) int64 { return int64(s.HistoryFloor) })},
	{"store_namespaces", "Namespaces that have keys.", number(func(s *kvstore.Stats) int64 { return s.Namespaces })},
	{"store_keys", "Keys of the state store.", number(func(s *kvstore.Stats) int64 { return s.Keys })},
	{"store_bytes", "Keys and values of the state store.", number(func(s *kvstore.Stats) int64 { return s.Bytes })},
	{"store_leases", "Leases that have not ended.", number(func(s *kvstore.Stats) int64 { return s.Leases })},
	{"store_tokens", "Request tokens that are remembered.", number(func(s *kvstore.Stats) int64 { return s.Tokens })},
	{"store_disk_bytes", "Space on disk that the state store takes.", number(func(s *kvstore.Stats) int64 { return s.DiskBytes })},
	{"store_disk_free_bytes", "Free space of its file system; below 0 if not known.", number(func(s *kvstore.Stats) int64 { return s.FreeBytes })},
	{"store_queued_transactions", "Transactions that wait to be made durable.", number(func(s *kvstore.Stats) int64 { return s.Queue })},
	{"store_views", "Views that are open.", number(func(s *kvstore.Stats) int64 { return s.Views })},
	{"store_commits_total", "Transactions that changed something.", number(func(s *kvstore.Stats) uint64 { return s.Commits })},
	{"store_groups_total", "Durable writes that the transactions shared.", number(func(s *kvstore.Stats) uint64 { return s.Groups })},
	{"store_failed_transactions_total", "Transactions refused after they were queued.", number(func(s *kvstore.Stats) uint64 { return s.Failed })},
	{"store_busy_transactions_total", "Transactions not taken because the queue was full.", number(func(s *kvstore.Stats) uint64 { return s.Busy })},
	{"store_refused_writes_total", "Writes refused for want of space.", number(func(s *kvstore.Stats) uint64 { return s.Refused })},
	{"store_replayed_transactions_total", "Transactions answered from their request token.", number(func(s *kvstore.Stats) uint64 { return s.Replayed })},
	{"store_expired_keys_total", "Keys ended by their time or their lease.", number(func(s *kvstore.Stats) uint64 { return s.Expired })},
	{"store_views_cut_total", "Views ended because they were open for too long.", number(func(s *kvstore.Stats) uint64 { return s.ViewsCut })},
}

// prefix begins all our names.
const prefix = "confcenter_"

// The metrics with labels. The labels' values are names from the source: of routes,
// commands, limits and kinds of requests.
var (
	buildInfo     = prometheus.NewDesc(prefix+"build_info", "Always 1.", []string{"version", "goversion"}, nil)
	httpRequests  = prometheus.NewDesc(prefix+"http_requests_total", "HTTP requests answered.", []string{"route", "status"}, nil)
	httpDurations = prometheus.NewDesc(prefix+"http_request_duration_seconds", "Time from the header of an HTTP request to the end of the reply; streams are not counted.", []string{"route"}, nil)
	tcpRequests   = prometheus.NewDesc(prefix+"server_requests_total", "Requests of TCP peers.", []string{"command"}, nil)
	tcpRefused    = prometheus.NewDesc(prefix+"server_limits_met_total", "How often TCP peers met a limit.", []string{"limit"}, nil)
	tcpDurations  = prometheus.NewDesc(prefix+"server_request_duration_seconds",
		"Time from taking a TCP request up to its reply's way out: answered from memory (of which some are timed), by a worker, or written.", []string{"kind"}, nil)
)

// collector reads everything when it is asked.
type collector struct {
	gateway *Gateway
	http    []metric[httpStats]
	fleet   []metric[FleetStats]
	config  []metric[confstore.Stats]
	store   []metric[kvstore.Stats]
}

// metric is a reading with its description.
type metric[S any] struct {
	reading[S]
	desc *prometheus.Desc
}

func newCollector(g *Gateway) *collector {
	return &collector{gateway: g, http: described(httpReadings), fleet: described(fleetReadings), config: described(configReadings), store: described(storeReadings)}
}

func described[S any](readings []reading[S]) []metric[S] {
	list := make([]metric[S], len(readings))
	for i, r := range readings {
		list[i] = metric[S]{r, prometheus.NewDesc(prefix+r.name, r.help, nil, nil)}
	}
	return list
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{buildInfo, httpRequests, httpDurations, tcpRequests, tcpRefused, tcpDurations} {
		ch <- d
	}
	describe(ch, c.http)
	describe(ch, c.fleet)
	describe(ch, c.config)
	describe(ch, c.store)
}

func describe[S any](ch chan<- *prometheus.Desc, metrics []metric[S]) {
	for _, m := range metrics {
		ch <- m.desc
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	g := c.gateway
	ch <- prometheus.MustNewConstMetric(buildInfo, prometheus.GaugeValue, 1, g.cfg.Version, runtime.Version())
	c.collectHTTP(ch)
	if g.fleet != nil {
		stats := g.fleet.Stats()
		collect(ch, c.fleet, &stats)
		for _, n := range stats.Commands {
			ch <- prometheus.MustNewConstMetric(tcpRequests, prometheus.CounterValue, float64(n.N), n.Name)
		}
		for _, n := range stats.LimitsMet {
			ch <- prometheus.MustNewConstMetric(tcpRefused, prometheus.CounterValue, float64(n.N), n.Name)
		}
		for i := range stats.Latency {
			ch <- stats.Latency[i].metric(tcpDurations, stats.Latency[i].Kind)
		}
	}
	if g.stores.Config != nil {
		stats := g.stores.Config.Stats()
		collect(ch, c.config, &stats)
	}
	if g.stores.StateStats != nil {
		stats := g.stores.StateStats()
		collect(ch, c.store, &stats)
	}
}

func (c *collector) collectHTTP(ch chan<- prometheus.Metric) {
	g := c.gateway
	stats := httpStats{streams: g.traffic.streams.Load()}
	if g.hub != nil {
		stats.behind = g.hub.behind.Load()
	}
	if g.listener != nil {
		stats.connections, stats.refused = g.listener.count(), g.listener.refused.Load()
	}
	collect(ch, c.http, &stats)
	for name, route := range g.traffic.routes {
		for class := range route.classes {
			// That there are none is worth telling only of what should be the rule.
			if n := route.classes[class].Load(); n > 0 || class == http.StatusOK/100 {
				ch <- prometheus.MustNewConstMetric(httpRequests, prometheus.CounterValue, float64(n), name, strconv.Itoa(class)+"xx")
			}
		}
		var latency Latency
		if route.latency.addTo(&latency); latency.Count > 0 {
			ch <- latency.metric(httpDurations, name)
		}
	}
}

func collect[S any](ch chan<- prometheus.Metric, metrics []metric[S], stats *S) {
	for _, m := range metrics {
		ch <- prometheus.MustNewConstMetric(m.desc, kindOf(m.name), m.of(stats))
	}
}

func kindOf(name string) prometheus.ValueType {
	const counter = "_total"
	if len(name) > len(counter) && name[len(name)-len(counter):] == counter {
		return prometheus.CounterValue
	}
	return prometheus.GaugeValue
}

// metric is the histogram as Prometheus wants it: in seconds, each bucket with those
// before it.
func (l *Latency) metric(desc *prometheus.Desc, label string) prometheus.Metric {
	buckets := make(map[float64]uint64, len(l.Buckets))
	var below uint64
	for _, b := range l.Buckets {
		below += b.Count
		buckets[b.UpTo.Seconds()] = below
	}
	return prometheus.MustNewConstHistogram(desc, l.Count, l.Sum.Seconds(), buckets, label)
}
