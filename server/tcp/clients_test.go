package tcp_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/internal/roster"
	"confcenter/internal/servertest"
	"confcenter/kv"
	"confcenter/protocol"
)

func TestClientsTellWhoFollowsWhat(t *testing.T) {
	srv := servertest.Start(t, servertest.Options{Files: map[string]string{
		"_meta.json": `{"app_profile":{"blue":{"web":"web.json"}}}`,
		"a.json":     `{"n":1}`,
		"web.json":   `{}`,
	}})
	require.Empty(t, srv.Clients())
	anonymous := servertest.Dial(t, srv.Addr().String())
	anonymous.Raw([]byte{1}) // over TLS there is no connection before that
	web := servertest.Dial(t, srv.Addr().String())
	web.Identify(`{"svrid":0,"svrname":"web","tag":"blue"}`)
	other := srv.Peer("other")

	require.Contains(t, string(web.Call(protocol.BookCfgChange, `{"file_pattern":"a","key_pattern":"/n"}`)), `"code":0`)
	require.Contains(t, string(web.Call(protocol.BookCfgChange, `{"file_pattern":"b.json","missing_ok":1}`)), `"code":0`)
	require.Contains(t, string(web.Call(protocol.BookCfgChange, `{"file_pattern":"c"}`)), `"code":420`)
	require.Contains(t, string(web.Call(protocol.KVWatch, `{"ns":"n","prefix":""}`)), `"code":0`)
	list := srv.Clients()
	require.Len(t, list, 2)
	require.Equal(t, list[1].ID, list[0].ID+1)
	require.Equal(t, "other", list[1].Name)
	require.Empty(t, list[1].Subscriptions)
	told := srv.Store.Snapshot().Node("a.json").Mtime(false)
	require.Equal(t, roster.Client{
		ID: web.ID, Name: "web", Tag: "blue", Address: web.LocalAddr().String(), Since: list[0].Since, Main: "web.json",
		Subscriptions: []roster.Subscription{{File: "a.json", Path: "/n", Told: told}, {File: "b.json"}, {File: "c.json"}},
		Watches:       1,
		Watching:      []kv.Filter{{NS: "n"}},
	}, list[0])
	require.Eventually(t, func() bool { return srv.Server.Stats().Get("server_connections") == 3 }, servertest.Patience, time.Millisecond)
	require.EqualValues(t, 2, srv.Server.Stats().Get("server_clients"))

	other.Call(protocol.SetConfig, `{"filename":"a.json","contents":{"n":2}}`)
	web.Next()
	told = srv.Store.Snapshot().Node("a.json").Mtime(false)
	require.Equal(t, told, srv.Clients()[0].Subscriptions[0].Told)

	require.NoError(t, anonymous.Close())
	srv.Stop()
	require.Empty(t, srv.Clients())
	require.Error(t, srv.Ready())
}

func TestClientsTellLocksAndLeases(t *testing.T) {
	srv := servertest.Start(t, servertest.Options{})
	one, two := srv.Peer("one"), srv.Peer("two")
	call := func(p *servertest.Peer, cmd protocol.Command, format string, args ...any) (got struct{ Lease, Fence int64 }) {
		t.Helper()
		body := p.Call(cmd, fmt.Sprintf(format, args...))
		require.NoError(t, json.Unmarshal([]byte(body), &got))
		require.Contains(t, body, `"code":0`)
		return got
	}
	first := call(one, protocol.KVLease, `{"ttl":60000}`).Lease
	fence := call(one, protocol.KVLock, `{"ns":"l","key":"k","lease":%d,"wait":1}`, first).Fence
	second := call(two, protocol.KVLease, `{"ttl":60000}`).Lease
	call(two, protocol.KVLock, `{"ns":"l","key":"k","lease":%d,"wait":1}`, second)
	call(two, protocol.KVAlive, `{"lease":%d}`, second)
	list := srv.Clients()
	held := roster.Lock{NS: "l", Key: "k", Lease: kv.LeaseID(first), Fence: kv.Revision(fence)}
	require.Equal(t, []roster.Lock{held}, list[0].Locks)
	require.Equal(t, []roster.Lock{{NS: "l", Key: "k", Lease: kv.LeaseID(second)}}, list[1].Locks, "it waits")
	require.Len(t, list[0].Leases, 1)
	require.Equal(t, kv.LeaseID(first), list[0].Leases[0].ID)
	require.Equal(t, 1, list[0].Leases[0].Keys)
	require.Len(t, list[1].Leases, 1)

	call(one, protocol.KVUnlock, `{"ns":"l","key":"k","fence":%d}`, fence)
	two.Next() // the grant
	list = srv.Clients()
	require.Empty(t, list[0].Locks)
	require.Greater(t, list[1].Locks[0].Fence, held.Fence)
	require.Len(t, list[1].Locks, 1)

	// What ended without its holder is not shown as held.
	call(one, protocol.KVRevoke, `{"lease":%d}`, second)
	list = srv.Clients()
	require.Empty(t, list[1].Locks)
	require.Empty(t, list[1].Leases)
}
