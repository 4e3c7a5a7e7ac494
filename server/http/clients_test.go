package http

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/access/control"
	"confcenter/access/guard"
	"confcenter/access/guard/guardtest"
	"confcenter/confstore"
	"confcenter/internal/roster"
	"confcenter/kv"
	"confcenter/kvstore/memory"
	"confcenter/server/http/status"
)

func TestClientsShowWatchesLocksAndLeases(t *testing.T) {
	tcp := newFakeTCP(time.UnixMilli(5000))
	tcp.list = []roster.Client{{
		ID: 2001, Since: time.UnixMilli(5000), Watches: 4,
		Watching: []kv.Filter{{}, {NS: "a"}, {NS: "a", Text: "p/"}, {NS: "a", Text: "k", Exact: true}},
		Locks:    []roster.Lock{{NS: "l", Key: "one", Lease: 7, Fence: 8}, {NS: "l", Key: "two", Lease: 7}},
		Leases:   []kv.Lease{{ID: 7, TTL: 10 * time.Second, Left: 4 * time.Second, Keys: 2}},
	}}
	k := startBeside(t, tcp, nil)
	require.JSONEq(t, `{"clients":[{"id":2001,"name":"","tag":"","address":"","since_ms":5000,"main":"","subscriptions":[],"more":0,"watches":4,
		"watching":[{},{"ns":"a"},{"ns":"a","prefix":"p/"},{"ns":"a","key":"k"}],
		"locks":[{"ns":"l","key":"one","lease":7,"fence":8},{"ns":"l","key":"two","lease":7}],
		"leases":[{"id":7,"ttl_ms":10000,"left_ms":4000,"keys":2}]}],"streams":[],"more_streams":0}`, k.get("/v1/clients").body)
}

func TestOnlyClientsAreListedThatMayBeRead(t *testing.T) {
	rules := map[string][]string{
		"web": {"read clients:web"}, "other": {"read clients:other"}, "most": {"* clients", "-read clients:web"}, "all": {"* *"},
	}
	k := startBeside(t, newFakeTCP(time.UnixMilli(5000)), func(cfg *Config, _ *Stores) {
		cfg.edge().LetIn = func(p *control.Proof) (*guard.Caller, error) {
			return guardtest.Caller(t, rules[p.Token]...), nil
		}
	})
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, k.url+"/v1/store/stream?ns=n", nil)
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer all")
	stream, err := k.client.Do(r)
	require.NoError(t, err)
	defer func() { _ = stream.Body.Close() }()
	require.Equal(t, 200, stream.StatusCode)
	for who, want := range map[string][3]bool{"web": {true, false, false}, "other": {}, "most": {false, true, false}, "all": {true, true, true}} {
		got := k.get("/v1/clients", "Authorization: Bearer "+who)
		require.Equal(t, 200, got.status, got.body)
		has := [3]bool{strings.Contains(got.body, `"id":2001`), strings.Contains(got.body, `"id":2002`), strings.Contains(got.body, `"kind":"store"`)}
		require.Equal(t, want, has, "%s: %s", who, got.body)
	}
	require.Equal(t, http.StatusForbidden, k.get("/v1/clients", "Authorization: Bearer nobody").status)
}

// TestWhatClientsFollowIsToldToWhoMayReadIt: who sees a program is not to learn by that which documents
// and keys there are.
func TestWhatClientsFollowIsToldToWhoMayReadIt(t *testing.T) {
	tcp := newFakeTCP(time.UnixMilli(5000))
	tcp.list = []roster.Client{{
		ID: 2001, Since: time.UnixMilli(5000), Main: "hidden", Watches: 4,
		Subscriptions: []roster.Subscription{{File: "hidden.json"}, {File: "seen.json"}, {File: "_access/hidden.json"}},
		Watching:      []kv.Filter{{}, {NS: "hidden"}, {NS: "seen", Text: "p/"}, {NS: "hidden", Text: "k", Exact: true}, {NS: "@conf"}},
		Locks:         []roster.Lock{{NS: "hidden", Key: "one", Lease: 7, Fence: 8}, {NS: "seen", Key: "two", Lease: 7}},
	}}
	rules := map[string][]string{"who reads clients": {"read clients", "read config:seen.json", "read kv:seen"}, "who reads all": {"* *"}}
	k := startBeside(t, tcp, func(cfg *Config, _ *Stores) {
		cfg.edge().LetIn = func(p *control.Proof) (*guard.Caller, error) {
			return guardtest.Caller(t, rules[p.Token]...), nil
		}
	})
	for _, path := range []string{"/v1/store/stream?ns=hidden&key=k", "/v1/store/stream?ns=hidden&prefix=p", "/v1/config/revisions?name=hidden", "/v1/stream?namespace=hidden"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, k.url+path, nil)
		require.NoError(t, err)
		r.Header.Set("Authorization", "Bearer who reads all")
		stream, err := k.client.Do(r)
		require.NoError(t, err)
		defer func() { _ = stream.Body.Close() }()
		require.Equal(t, 200, stream.StatusCode, path)
	}
	require.Equal(t, 10, strings.Count(k.get("/v1/clients", "Authorization: Bearer who reads all").body, "hidden"))
	got := k.get("/v1/clients", "Authorization: Bearer who reads clients").body
	require.NotContains(t, got, "hidden")
	require.NotContains(t, got, "@conf")
	for _, seen := range []string{`"subscriptions":[{"file":"seen.json","told":0}],"more":2,"watches":4,"watching":[{},{"ns":"seen","prefix":"p/"}],"locks":[{"ns":"seen","key":"two","lease":7}]`, `"kind":"store"`, `"kind":"config"`, `"kind":"plum"`} {
		require.Contains(t, got, seen)
	}
}

func TestClientsShowStreams(t *testing.T) {
	k := start(t, nil)
	ctx, leave := context.WithCancel(t.Context())
	for _, path := range []string{"/v1/config/stream", "/v1/store/stream?ns=n&prefix=p", "/v1/store/stream?ns=n&key=k", "/v1/stream?namespace=n"} {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, k.url+path, nil)
		require.NoError(t, err)
		reply, err := k.client.Do(r)
		require.NoError(t, err)
		defer func() { _ = reply.Body.Close() }()
		require.Equal(t, http.StatusOK, reply.StatusCode)
	}
	var got struct{ Streams []viewerBody }
	require.NoError(t, json.Unmarshal([]byte(k.get("/v1/clients").body), &got))
	var seen []viewerBody
	for _, one := range got.Streams {
		require.Regexp(t, `^127\.0\.0\.1:\d+$`, one.Address)
		require.NotZero(t, one.Since)
		one.Address, one.Since = "", 0
		seen = append(seen, one)
	}
	require.ElementsMatch(t, []viewerBody{{Kind: "config"}, {Kind: "store", keysBody: keysBody{NS: "n", Prefix: "p"}}, {Kind: "store", keysBody: keysBody{NS: "n", Key: "k"}}, {Kind: "plum", keysBody: keysBody{NS: "n"}}}, seen)
	leave()
	require.Eventually(t, func() bool { list, _ := k.streams.list(); return len(list) == 0 }, patience, time.Millisecond)
}

// Whatever tells how many files there are counts the same: also one that was never
// good.
func TestFilesAreCountedAlikeEverywhere(t *testing.T) {
	conf := t.TempDir()
	for name, text := range map[string]string{"good.json": `{}`, "never.json": `{`, "later.json": `{}`, "gone.json": `{}`} {
		require.NoError(t, os.WriteFile(filepath.Join(conf, name), []byte(text), 0o600))
	}
	config, err := confstore.Open(confstore.Config{Dir: conf, DataDir: t.TempDir(), State: memory.ForTest(t), SetTimeout: time.Minute})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, config.Close()) })
	k := start(t, func(_ *Config, s *Stores) { s.Config = config })
	require.NoError(t, os.WriteFile(filepath.Join(conf, "later.json"), []byte(`{`), 0o600))
	require.NoError(t, os.Remove(filepath.Join(conf, "gone.json")))
	require.Eventually(t, func() bool { s := config.Stats(); return s.Broken == 2 && s.Deleted == 1 }, patience, time.Millisecond)
	states := map[string]int{}
	var list struct{ Files []struct{ State string } }
	require.NoError(t, json.Unmarshal([]byte(k.get("/v1/config/files").body), &list))
	for _, file := range list.Files {
		states[file.State]++
	}
	require.Equal(t, map[string]int{"good": 1, "broken": 2, "deleted": 1}, states)
	var status status.Body
	require.NoError(t, json.Unmarshal([]byte(k.get("/v1/status").body), &status))
	require.Equal(t, []int64{3, 2, 1}, []int64{status.Config.Files, status.Config.Broken, status.Config.Deleted})
	metrics := k.get("/metrics").body
	for _, line := range []string{"confcenter_config_files 3\n", "confcenter_config_broken_files 2\n"} {
		require.Contains(t, metrics, line)
	}
}
