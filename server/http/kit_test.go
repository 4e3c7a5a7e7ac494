package http

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"confcenter/access/control"
	"confcenter/access/guard"
	"confcenter/confstore"
	"confcenter/internal/clock/clocktest"
	"confcenter/internal/memory"
	"confcenter/kv"
	"confcenter/kvstore"
	"confcenter/kvstore/disk"
	"confcenter/player/landing"
	"confcenter/server/edge"
	"confcenter/server/host"
	"confcenter/server/http/sse"
)

// The event loop library starts goroutines of its own when it is linked.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m, goleak.IgnoreCurrent()) }

// patience is how long a test waits for what must happen.
const patience = time.Minute

// kit is a gateway on real stores.
type kit struct {
	*Gateway
	t      testing.TB
	url    string // http://127.0.0.1:port
	client *http.Client
	conf   string // the directory of config
	config *confstore.Store
	state  *kvstore.Store
	models *host.Host
	clock  *clocktest.Fake // of the gateway; nil: the machine's
}

// start starts a gateway on empty stores; change, which may be nil, is called
// before it is made, with what it is made of.
func start(t testing.TB, change func(*Config, *Stores)) *kit {
	t.Helper()
	return startIn(t, t.TempDir(), change)
}

// startIn is start on the stores in dir.
func startIn(t testing.TB, dir string, change func(*Config, *Stores)) *kit {
	t.Helper()
	k := &kit{t: t, conf: t.TempDir()}
	var err error
	k.state, err = disk.Open(disk.StoreConfig{Disk: disk.Config{Dir: filepath.Join(dir, "state"), ReserveBytes: 1}})
	require.NoError(t, err)
	k.config, err = confstore.Open(confstore.Config{Dir: k.conf, DataDir: filepath.Join(dir, "data"), State: k.state, SetTimeout: time.Minute})
	require.NoError(t, err)
	cfg := Config{Listen: "127.0.0.1:0", Version: "test", Log: zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.WarnLevel)}
	stores := Stores{Config: k.config, State: k.state, StateStats: k.state.Stats, Storage: newFakeStorage(), Lander: new(landing.Lander).Readings}
	k.models = host.Open(k.state, host.Config{})
	stores.Models = k.models.Models()
	if change != nil {
		change(&cfg, &stores)
	}
	k.clock, _ = cfg.Clock.(*clocktest.Fake)
	k.Gateway, err = New(cfg, stores, nil)
	require.NoError(t, err)
	require.NoError(t, k.Start())
	k.url = "http://" + k.Addr().String()
	k.client = &http.Client{
		Transport:     &http.Transport{},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	t.Cleanup(k.stop)
	return k
}

// edge is what the gateway's requests pass.
func (cfg *Config) edge() *edge.Edge {
	if cfg.Edge == nil {
		cfg.Edge = edge.New(nil, nil, nil, cfg.Log)
	}
	return cfg.Edge
}

// letIn has all requests be those of a caller.
func (cfg *Config) letIn(caller func() *guard.Caller) {
	cfg.edge().LetIn = func(*control.Proof) (*guard.Caller, error) { return caller(), nil }
}

// stop may be called before the test ends.
func (k *kit) stop() {
	if k.Gateway == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	k.client.CloseIdleConnections()
	require.NoError(k.t, k.Shutdown(ctx))
	require.NoError(k.t, k.Err(), "it did not end by itself")
	k.models.Close()
	require.NoError(k.t, k.state.Close())
	require.NoError(k.t, k.config.Close())
	k.Gateway = nil
}

// answer is a reply that was read to its end.
type answer struct {
	status int
	header http.Header
	body   string
}

// do sends a request; header are lines such as "Origin: http://x".
func (k *kit) do(method, path, body string, header ...string) answer {
	k.t.Helper()
	r, err := http.NewRequest(method, k.url+path, strings.NewReader(body))
	require.NoError(k.t, err)
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		if name == "Host" {
			r.Host = value
		} else {
			r.Header.Add(name, value)
		}
	}
	reply, err := k.client.Do(r)
	require.NoError(k.t, err)
	defer func() { _ = reply.Body.Close() }()
	text, err := io.ReadAll(reply.Body)
	require.NoError(k.t, err)
	return answer{reply.StatusCode, reply.Header, string(text)}
}

func (k *kit) get(path string, header ...string) answer {
	k.t.Helper()
	return k.do(http.MethodGet, path, "", header...)
}

// commit is a write that came by no connection.
func (k *kit) commit(txn *kv.Txn) (*kv.Result, error) {
	return k.Gateway.commit(newReply(nil, memory.NewPool(1<<30), k.edge), &http.Request{}, txn)
}

// aStream is a stream of no one.
func (k *kit) aStream() *sse.Stream {
	s := k.sse.Begin(httptest.NewRecorder(), nil, func() {}, nil)
	s.Turn.End()
	return s
}

// logged is a log to look into.
func logged() (*bytes.Buffer, zerolog.Logger) {
	text := new(bytes.Buffer)
	return text, zerolog.New(zerolog.SyncWriter(text))
}
