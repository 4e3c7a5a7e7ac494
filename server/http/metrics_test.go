package http

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/access/audit"
	"confcenter/confstore"
	"confcenter/internal/metric"
	"confcenter/kv"
	"confcenter/server/tcp"
)

var updateMetrics = flag.Bool("update-metrics", false, "write testdata/metrics.txt anew")

// metricsFile lists our metrics with their types and labels. Dashboards and alerts
// hang on them: a change is one that users have to be told of.
const metricsFile = "testdata/metrics.txt"

// prefix is the one of all our metrics.
const prefix = "confcenter_"

var sample = regexp.MustCompile(`^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$`)

// family is a metric as it was told.
type family struct {
	typ    string
	labels []string
	values map[string]string // by what stands between the braces
}

func scrape(t *testing.T, k *kit) map[string]*family {
	t.Helper()
	answer := k.get("/metrics")
	require.Equal(t, http.StatusOK, answer.status)
	require.True(t, strings.HasPrefix(answer.header.Get("Content-Type"), "text/plain; version=0.0.4"))
	families := map[string]*family{}
	var last *family
	for line := range strings.Lines(answer.body) {
		line = strings.TrimSuffix(line, "\n")
		if fields := strings.Fields(line); fields[0] == "#" {
			if fields[1] == "TYPE" {
				last = &family{typ: fields[3], values: map[string]string{}}
				families[fields[2]] = last
			}
			continue
		}
		parts := sample.FindStringSubmatch(line)
		require.NotNil(t, parts, line)
		last.values[strings.TrimPrefix(parts[1], "confcenter_")+"{"+parts[2]+"}"] = parts[3]
		for _, pair := range strings.Split(parts[2], ",") {
			if name, _, is := strings.Cut(pair, "="); is && name != "le" && !slices.Contains(last.labels, name) {
				last.labels = append(last.labels, name)
			}
		}
	}
	return families
}

func TestMetricsAreTheList(t *testing.T) {
	beside := newFakeTCP(time.Now())
	beside.stats = tcp.New(tcp.Config{}, tcp.Stores{}).Stats()
	k := startBeside(t, beside, func(_ *Config, stores *Stores) {
		stores.Audit = audit.Open(stores.State.(kv.Archive), audit.Config{Sinks: []audit.Sink{audit.NewFile("none")}})
	})
	k.get("/livez")
	families := scrape(t, k)
	var lines []string
	for name, f := range families {
		if strings.HasPrefix(name, prefix) {
			slices.Sort(f.labels)
			lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s %s %s", name, f.typ, strings.Join(f.labels, ","))))
		}
	}
	slices.Sort(lines)
	got := strings.Join(lines, "\n") + "\n"
	if *updateMetrics {
		require.NoError(t, os.WriteFile(metricsFile, []byte(got), 0o644))
	}
	want, err := os.ReadFile(metricsFile)
	require.NoError(t, err)
	require.Equal(t, string(want), got, "if the change is meant: go test ./server/http -run MetricsAreTheList -update-metrics")
	for _, name := range []string{"go_goroutines", "go_gc_duration_seconds", "go_gc_heap_live_bytes", "process_open_fds", "process_resident_memory_bytes"} {
		require.Contains(t, families, name)
	}
}

// No one would miss a number that is added and not told.
func TestNoNumberOfTheStoresIsLeftOut(t *testing.T) {
	require.Len(t, metric.Of(&kv.Stats{}), reflect.TypeFor[kv.Stats]().NumField())
	require.Len(t, metric.Of(&confstore.Stats{}), reflect.TypeFor[confstore.Stats]().NumField())
}

func TestMetricNamesKeepTheConventions(t *testing.T) {
	text, err := os.ReadFile(metricsFile)
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		name, typ := fields[0], fields[1]
		require.Regexp(t, `^confcenter_(access|audit|build|connections|memory|model|http|server|config|store|storage|landing|quota|secrets)_[a-z_]+$`, name)
		require.Equal(t, typ == "counter", strings.HasSuffix(name, "_total"), name)
		require.Equal(t, typ == "histogram", strings.HasSuffix(name, "_duration_seconds"), name)
		if len(fields) > 2 {
			for _, label := range strings.Split(fields[2], ",") {
				require.Contains(t, []string{"route", "status", "command", "limit", "kind", "sink", "pool", "store", "table", "model", "code", "version", "goversion"}, label, "few values, none of them a peer's")
			}
		}
	}
}

func TestMetricsCountRequests(t *testing.T) {
	k := startBeside(t, newFakeTCP(time.Now()), nil)
	k.put("n", "a", "1")
	k.get("/livez")
	k.get("/livez")
	k.get("/no-such/path-1")
	k.get("/no-such/path-2")
	k.do(http.MethodDelete, "/livez", "")
	k.get("/livez", "Host: evil.example")
	families := scrape(t, k)
	values := func(family string) map[string]string { return families[prefix+family].values }
	http := values("http_requests_total")
	require.Equal(t, "2", http[`http_requests_total{route="livez",status="2xx"}`])
	require.Equal(t, "1", http[`http_requests_total{route="livez",status="4xx"}`])
	require.Equal(t, "2", http[`http_requests_total{route="unknown",status="4xx"}`], "paths that peers make up are one")
	require.Equal(t, "1", http[`http_requests_total{route="refused",status="4xx"}`])
	require.Equal(t, "0", http[`http_requests_total{route="readyz",status="2xx"}`], "it is there before anybody has asked")
	require.Equal(t, "3", values("http_request_duration_seconds")[`http_request_duration_seconds_count{route="livez"}`])
	require.Equal(t, "6", values("server_requests_total")[`server_requests_total{command="KVGET"}`])
	require.Equal(t, "1", values("store_keys")[`store_keys{}`])
	latency := values("server_request_duration_seconds")
	require.Equal(t, []string{"0", "2", "3", "4", "0.012"}, []string{
		latency[`server_request_duration_seconds_bucket{kind="write",le="0.001"}`],
		latency[`server_request_duration_seconds_bucket{kind="write",le="0.002"}`],
		latency[`server_request_duration_seconds_bucket{kind="write",le="0.004"}`],
		latency[`server_request_duration_seconds_bucket{kind="write",le="+Inf"}`],
		latency[`server_request_duration_seconds_sum{kind="write"}`],
	})
}
