package http

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/access/control"
	"confcenter/access/guard"
	"confcenter/access/guard/guardtest"
	"confcenter/codes"
	"confcenter/confstore"
	"confcenter/internal/clock/clocktest"
	"confcenter/internal/health"
	"confcenter/kv"
	"confcenter/kvstore/memory"
	"confcenter/server/http/status"
)

// startBeside is start with a TCP side.
func startBeside(t *testing.T, tcp TCPServer, change func(*Config, *Stores)) *kit {
	t.Helper()
	var config Config
	var stores Stores
	k := start(t, func(cfg *Config, s *Stores) {
		if change != nil {
			change(cfg, s)
		}
		config, stores = *cfg, *s
	})
	require.NoError(t, k.Shutdown(context.Background()))
	var err error
	k.Gateway, err = New(config, stores, tcp)
	require.NoError(t, err)
	require.NoError(t, k.Start())
	k.url = "http://" + k.Addr().String()
	return k
}

func (k *kit) put(ns, key, value string) {
	k.t.Helper()
	_, err := k.commit(kv.PutTxn(ns, key, kv.StringValue(value)))
	require.NoError(k.t, err)
}

func TestStatusTellsWhatGoesOn(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	fake := clocktest.NewFake(now)
	k := startBeside(t, newFakeTCP(now), func(cfg *Config, _ *Stores) { cfg.Clock = fake })
	k.put("n", "a", "value")
	fake.Advance(90 * time.Second)
	answer := k.get("/v1/status")
	require.Equal(t, http.StatusOK, answer.status)
	require.Equal(t, "application/json", answer.header.Get("Content-Type"))
	var got map[string]any
	require.NoError(t, json.Unmarshal([]byte(answer.body), &got))
	for name, want := range map[string]any{
		"version": "test", "started_ms": 1.7e12, "uptime_ms": 90_000.0, "connections": 3.0, "clients": 2.0, "watches": 2.0,
		"requests_total": 9.0, "replies_total": 8.0, "pushes_total": 7.0,
		"slow": []any{map[string]any{"when_ms": 1.7e12 + 1000, "kind": "tcp", "name": "KVPUT", "duration_ms": 2000.0}},
	} {
		require.Equal(t, want, got[name], name)
	}
	require.Equal(t, float64(1<<30), got["memory_budget_bytes"])
	require.Contains(t, got["pools"], map[string]any{"name": "documents", "bytes": 0.0, "limit_bytes": float64((1 << 30) / 1000 * 60), "refused_total": 0.0})
	store := got["store"].(map[string]any)
	require.Equal(t, []any{1.0, 1.0, 1.0}, []any{store["keys"], store["revision"], store["namespaces"]})
	config := got["config"].(map[string]any)
	require.Equal(t, []any{0.0, 0.0, []any{}}, []any{config["files"], config["broken"], config["problems"]})
	latency := got["latency"].([]any)
	require.Len(t, latency, 2)
	write := latency[0].(map[string]any)
	require.Equal(t, []any{"write", 4.0, 3.0, 2.0, 4.0}, []any{write["kind"], write["count"], write["mean_ms"], write["p50_ms"], write["p99_ms"]})
	require.Equal(t, "http", latency[1].(map[string]any)["kind"])
}

func TestClientsAreTold(t *testing.T) {
	k := startBeside(t, newFakeTCP(time.UnixMilli(5000)), nil)
	require.JSONEq(t, `{"clients":[
		{"id":2001,"name":"web","tag":"blue","address":"127.0.0.1:4","since_ms":5000,"main":"web.json",
		 "subscriptions":[{"file":"a.json","path":"/k","told":7},{"file":"b.json","told":0}],"more":3,"watches":2,"watching":[],"locks":[],"leases":[]},
		{"id":2002,"name":"<script>","tag":"","address":"","since_ms":-62135596800000,"main":"","subscriptions":[],"more":0,"watches":0,"watching":[],"locks":[],"leases":[]}],
		"streams":[],"more_streams":0}`,
		k.get("/v1/clients").body)
	require.NotContains(t, k.get("/v1/clients").body, "<script>", "not even by a browser that guesses")

	require.JSONEq(t, `{"clients":[],"streams":[],"more_streams":0}`, start(t, nil).get("/v1/clients").body, "without a TCP side")
}

// sick is a state store that takes no writes.
type sick struct {
	kv.Store
	trouble *health.Trouble
}

func (s *sick) Trouble() *health.Trouble { return s.trouble }

func TestProbes(t *testing.T) {
	tcp, state := newFakeTCP(time.Now()), &sick{}
	k := startBeside(t, tcp, func(_ *Config, s *Stores) {
		state.Store = s.State
		s.State = state
	})
	require.Equal(t, "ok\n", k.get("/livez").body)
	require.Equal(t, "ok\n", k.get("/readyz").body)
	require.Equal(t, "[+]server ok\nlivez check passed\n", k.get("/livez?verbose").body)
	require.Equal(t, "[+]server ok\n[+]accepting ok\n[+]config ok\n[+]state ok\nreadyz check passed\n", k.get("/readyz?verbose").body)
	require.Equal(t, http.StatusOK, k.do(http.MethodHead, "/readyz", "").status)

	tcp.set(nil, codes.Errorf(codes.Closed, "the server is stopping"))
	require.Equal(t, http.StatusOK, k.get("/livez").status, "a restart would not help")
	answer := k.get("/readyz")
	require.Equal(t, http.StatusServiceUnavailable, answer.status)
	require.Contains(t, answer.body, "[-]accepting failed: the server is stopping\n[+]config ok\n")
	require.True(t, strings.HasSuffix(answer.body, "readyz check failed\n"))
	answer = k.get("/readyz?exclude=accepting&exclude=no-such&verbose")
	require.Equal(t, http.StatusOK, answer.status)
	require.Contains(t, answer.body, "[+]accepting excluded: ok\n")
	require.Contains(t, answer.body, "warn: there is no check no-such to exclude\n")

	tcp.set(errStill, nil)
	require.Equal(t, "[-]server failed: event loop 1 has not moved for 6s\nlivez check failed\n", k.get("/livez").body)
	require.Equal(t, http.StatusServiceUnavailable, k.get("/livez").status)

	tcp.set(nil, nil)
	state.trouble = &health.Trouble{Kind: health.Quota, Dir: "/data/state", Since: time.Now().Add(-time.Hour), Err: codes.Errorf(codes.Quota, "the store is full")}
	require.Regexp(t, `\[-\]state failed: the store is full \(quota in /data/state, for 1h0m[0-9]+s\)\n`, k.get("/readyz").body)
	require.Equal(t, http.StatusOK, k.get("/livez").status, "it reads, and a restart does not help")
	require.Equal(t, http.StatusOK, k.get("/readyz?exclude=state").status)
}

func TestTroubleIsTold(t *testing.T) {
	state, fake := &sick{}, clocktest.NewFake(time.UnixMilli(1_000_000))
	k := start(t, func(cfg *Config, s *Stores) {
		cfg.Clock, state.Store = fake, s.State
		s.State = state
	})
	type trouble struct {
		Store   string
		Kind    health.Kind
		Dir     string
		Text    string
		Since   int64 `json:"since_ms"`
		Restart bool
	}
	var status struct{ Troubles []trouble }
	told := func() (writable, stalled, config string) {
		require.NoError(t, json.Unmarshal([]byte(k.get("/v1/status").body), &status))
		metrics := scrape(t, k)
		takes, hangs := metrics[prefix+"store_writable"].values, metrics[prefix+"store_disk_stalled_seconds"].values
		return takes[`store_writable{store="state"}`], hangs[`store_disk_stalled_seconds{store="state"}`], takes[`store_writable{store="config"}`]
	}
	writable, stalled, config := told()
	require.Equal(t, []string{"1", "0", "1"}, []string{writable, stalled, config})
	require.Empty(t, status.Troubles)
	require.NotNil(t, status.Troubles)

	state.trouble = &health.Trouble{Kind: health.Hanging, Dir: "/data/state", Since: fake.Now(), Err: codes.Errorf(codes.Storage, "the disk does not answer"), Restart: true}
	fake.Advance(12 * time.Second)
	writable, stalled, config = told()
	require.Equal(t, []string{"0", "12", "1"}, []string{writable, stalled, config})
	require.Equal(t, []trouble{{Store: "state", Kind: health.Hanging, Dir: "/data/state", Text: "the disk does not answer", Since: 1_000_000, Restart: true}}, status.Troubles)
}

func TestABrokenFileLeavesTheServerReady(t *testing.T) {
	conf := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(conf, "broken.json"), []byte(`{`), 0o644))
	config, err := confstore.Open(confstore.Config{Dir: conf, DataDir: t.TempDir(), State: memory.ForTest(t), SetTimeout: time.Minute})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, config.Close()) })
	k := start(t, func(_ *Config, s *Stores) { s.Config = config })
	require.Equal(t, http.StatusOK, k.get("/readyz").status)
	var got status.Body
	require.NoError(t, json.Unmarshal([]byte(k.get("/v1/status").body), &got))
	require.EqualValues(t, 1, got.Config.Broken)
	require.Equal(t, "broken.json", got.Config.Problems[0].Name)
}

func TestSlowRequestsAreKeptAndLoggedWithoutWhatTheyAskedFor(t *testing.T) {
	text, log := logged()
	fake := clocktest.NewFake(time.UnixMilli(1000))
	takes := time.Second
	slow := route{method: "GET", pattern: "/slow", name: "slow.one", handle: func(w *reply, _ *http.Request) error {
		fake.Advance(takes)
		return nil
	}}
	stream := slow
	stream.pattern, stream.name, stream.stream = "/stream", "a.stream", true
	g, err := New(Config{Log: log, Clock: fake}, Stores{}, nil)
	require.NoError(t, err)
	g.table = []route{slow, stream}
	h := g.middleware(newMux(g, g.table))

	ask(h, "GET", "/slow?ns=secret&key=secret", "")
	ask(h, "GET", "/stream", "")
	takes = 499 * time.Millisecond
	ask(h, "GET", "/slow", "")
	told := func() string {
		slow, err := json.Marshal(g.status.Body(nil).Slow)
		require.NoError(t, err)
		return string(slow)
	}
	require.JSONEq(t, `[{"when_ms":2000,"kind":"http","name":"slow.one","duration_ms":1000}]`, told())
	require.Equal(t, 1, strings.Count(text.String(), "slow request"))
	require.Contains(t, text.String(), `"route":"slow.one"`)
	require.NotContains(t, text.String(), "secret")

	const maxSlow = 50
	for i := range 2 * maxSlow {
		takes = time.Second + time.Duration(i)*time.Millisecond
		ask(h, "GET", "/slow", "")
	}
	body := g.status.Body(nil)
	require.Len(t, body.Slow, maxSlow)
	require.InDelta(t, takes.Seconds(), body.Slow[0].Duration/1000, 1e-9)
	require.EqualValues(t, 2*maxSlow+3, body.HTTP.Requests)
	require.EqualValues(t, 2*maxSlow+2, body.Latency[0].Count, "without the stream")
}

// What the checks say is of directories, disks and keys.
func TestProbesTellTheChecksOnlyToThoseWhoMaySeeFigures(t *testing.T) {
	const mark = "M4RKEDdir"
	k, with := rightsKit(t)
	for _, rules := range [][]string{{}, {"* config", "* kv", "read clients"}, {"read status"}} {
		with(rules...)
		told := slices.Contains(rules, "read status")
		require.Equal(t, http.StatusOK, k.get("/readyz").status)
		require.Equal(t, told, strings.Contains(k.get("/readyz?verbose").body, "[+]state ok"), rules)
		require.Equal(t, told, strings.Contains(k.get("/readyz?verbose&exclude="+mark).body, mark), rules)
	}
	state := &sick{}
	var rights atomic.Pointer[guard.Caller]
	k = start(t, func(cfg *Config, s *Stores) {
		state.Store, s.State = s.State, state
		cfg.edge().LetIn = func(p *control.Proof) (*guard.Caller, error) {
			if c := rights.Load(); c != nil {
				return c, nil
			}
			return nil, codes.Errorf(codes.NotIdentified, "who are you")
		}
	})
	state.trouble = &health.Trouble{Kind: health.Failed, Dir: "/data/" + mark, Since: time.Now(), Err: codes.Errorf(codes.Internal, mark)}
	may := guardtest.Caller(t, "read status")
	for _, who := range []*guard.Caller{nil, new(guard.Caller), guardtest.Caller(t, "* config", "* kv"), may} {
		rights.Store(who)
		for _, path := range []string{"/readyz", "/readyz?verbose", "/readyz?verbose&exclude=config"} {
			got := k.get(path)
			require.Equal(t, http.StatusServiceUnavailable, got.status, path)
			if who == may {
				require.Contains(t, got.body, mark, path)
			} else {
				require.Equal(t, "readyz check failed\n", got.body, path)
			}
		}
		require.Equal(t, http.StatusOK, k.get("/readyz?exclude=state").status, "probes may leave a store out")
	}
}
