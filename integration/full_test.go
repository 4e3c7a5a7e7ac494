package integration

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/access"
	"confcenter/access/control"
	"confcenter/access/policy"
	"confcenter/access/token"
	"confcenter/codes"
	"confcenter/confstore"
	"confcenter/internal/clock/clocktest"
	"confcenter/internal/memory"
	"confcenter/internal/servertest"
	"confcenter/kv"
	"confcenter/kvstore"
	"confcenter/kvstore/disk"
	"confcenter/kvstore/disk/disktest"
	"confcenter/protocol"
	"confcenter/server"
	gateway "confcenter/server/http"
	"confcenter/server/tcp"
)

// crowded is a whole server whose memory and write queue a test can fill.
type crowded struct {
	t         *testing.T
	store     *kvstore.Store
	budget    *memory.Budget
	addr, url string
	clock     *clocktest.Fake // of the store
	tokens    map[string]string
	release   func()
	rules     *control.Control
	released  chan struct{} // while it is not closed, what is written to the namespace hung hangs
}

// Namespace implements kv.Quotas.
func (c *crowded) Namespace(ns string, _, _ kv.Stock) error {
	if ns == "hung" {
		<-c.released
	}
	return nil
}

// Lease implements kv.Quotas.
func (c *crowded) Lease(*access.Identity, int) error { return nil }

func crowd(t *testing.T, change ...func(*control.Config, *tcp.Config)) *crowded {
	c := &crowded{t: t, budget: memory.Divide(1 << 30), clock: clocktest.NewFake(time.Unix(1_000_000, 0)), tokens: map[string]string{}, released: make(chan struct{})}
	c.release = sync.OnceFunc(func() { close(c.released) })
	dir, conf := t.TempDir(), t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(conf, "_access"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(conf, "_access/game.json"), []byte(`{"rules": [{"who": ["token:game"], "allow": ["*"], "what": ["kv", "clients", "config:app/*"]}]}`), 0o644))
	var err error
	c.store, err = disk.Open(disk.StoreConfig{Disk: disk.Config{Dir: "state", FS: disktest.New()}, Engine: kvstore.Config{Clock: c.clock, MaxQueue: 8, Queues: c.budget.Queues, WriteTimeout: 1e5 * time.Hour}})
	require.NoError(t, err)
	srv, err := server.Open(server.Config{State: c.store, Documents: confstore.Config{Dir: conf, DataDir: filepath.Join(dir, "data"), SetTimeout: time.Minute}, Memory: c.budget})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, srv.Close()) })
	ruled, served := control.Config{}, tcp.Config{Listen: "127.0.0.1:0"}
	for _, fn := range change {
		fn(&ruled, &served)
	}
	for name, groups := range map[string][]string{"root": {policy.Administrators}, "game": nil} {
		made, err := srv.Models.Tokens().Make(t.Context(), nil, &token.MakeAsk{Name: name, Groups: groups})
		require.NoError(t, err)
		c.tokens[name] = made.Text
	}
	require.NoError(t, srv.Start(t.Context(), server.Fronts{Control: &ruled, TCP: servertest.OnTransport(served), HTTP: &gateway.Config{Listen: "127.0.0.1:0"}}))
	c.rules, c.addr, c.url = srv.Control, srv.TCP.Addr().String(), "http://"+srv.HTTP.Addr().String()
	c.store.Quotas().Obey(c)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), servertest.Patience)
		defer cancel()
		c.release()
		require.NoError(t, srv.Shutdown(ctx))
	})
	return c
}

func (c *crowded) peer(name string) *servertest.Peer {
	p := servertest.Dial(c.t, c.addr)
	p.Identify(fmt.Sprintf(`{"svrid":0,"svrname":%q,"token":%q}`, name, c.tokens[name]))
	return p
}

func (c *crowded) ask(name, path string) (int, string) {
	return (&surf{&http.Transport{DisableKeepAlives: true}, c.url, c.tokens[name]}).ask(c.t, "GET", path, "")
}

// fill has no memory left, and no room in the queue of writes, until empty.
func (c *crowded) fill() (empty func()) {
	var err error
	for err == nil {
		err = c.store.Commit(kv.PutTxn("hung", "k", kv.StringValue("v")), func(*kv.Result, error) {})
	}
	require.Equal(c.t, codes.Busy, codes.Of(err))
	var gives []func()
	for _, pool := range c.budget.Pools() {
		n := pool.Limit() - pool.Held()
		pool.Add(n)
		gives = append(gives, func() { pool.Give(n) })
	}
	return func() {
		for _, give := range gives {
			give()
		}
		c.release()
	}
}

func (c *crowded) left(lease string) time.Duration {
	id, err := strconv.ParseInt(lease, 10, 64)
	require.NoError(c.t, err)
	l, err := c.store.Lease(kv.LeaseID(id))
	require.NoError(c.t, err)
	return l.Left
}

// Keep-alives, probes and administrators come first when nothing is left for anyone else.
func TestAFullServerKeepsLeasesAliveAndAnswersWhoCanHelp(t *testing.T) {
	c := crowd(t)
	same, other := c.peer("game"), c.peer("game")
	grant := func() string { return fmt.Sprint(object(t, same.Call(protocol.KVLease, `{"ttl":10000}`))["lease"]) }
	mine, others := grant(), grant()
	require.Contains(t, same.Call(protocol.KVPut, `{"ns":"n","key":"k","value":"v"}`), `"code":0`)
	empty := c.fill()

	same.Send(protocol.KVPut, `{"ns":"n","key":"k","value":"w"}`)
	for range 3 {
		c.clock.Advance(6 * time.Second)
		require.Contains(t, other.Call(protocol.KVAlive, `{"lease":`+others+`}`), `"code":0`, "another connection is none of the write's")
		same.Send(protocol.KVAlive, `{"lease":`+mine+`}`)
		eventually(t, "the keep-alive counts although the write before it waits", func() bool { return c.left(mine) == 10*time.Second })
	}
	for _, path := range []string{"/livez", "/readyz"} {
		status, text := c.ask("game", path)
		require.Equal(t, 200, status, text)
	}

	root := c.peer("root")
	for cmd, body := range map[protocol.Command]string{protocol.GetCli: `{}`, protocol.GetCfgName: `{}`, protocol.KVStat: `{}`, protocol.OfModel("auth", 1): `{}`} {
		require.NotContains(t, root.Call(cmd, body), `"code":503`, cmd)
	}
	require.Contains(t, other.Call(protocol.GetCli, `{}`), `"code":503`)
	status, text := c.ask("root", "/v1/store/history?ns=n&key=k")
	require.Equal(t, 200, status, text)
	status, _ = c.ask("game", "/v1/store/history?ns=n&key=k")
	require.Equal(t, 503, status)

	empty()
	require.Equal(t, protocol.KVPut.Reply(), same.Next().Command, "replies keep their order")
	for range 3 {
		require.Contains(t, same.Next().Body, `"code":0,"lease":`+mine)
	}
	same.Quiet()
}
