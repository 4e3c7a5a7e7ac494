package http

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/access"
	"confcenter/access/audit"
	"confcenter/kv"
	"confcenter/kvstore"
	"confcenter/kvstore/disk"
)

// auditKit is a gateway with an audit, to which write adds a line about a key.
func auditKit(t *testing.T) (k *kit, write func(key string)) {
	lines := audit.New(2 << 10) // older ones come from the disk
	store, err := disk.Open(disk.StoreConfig{Disk: disk.Config{Dir: t.TempDir() + "/audit", ReserveBytes: 1}, Engine: kvstore.Config{Trail: lines}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	k = start(t, func(_ *Config, stores *Stores) { stores.Audit = audit.Open(store, audit.Config{Trail: lines}) })
	return k, func(key string) {
		txn := kv.PutTxn("ns", key, kv.StringValue("v"))
		txn.Actor = &access.Actor{Identity: &access.Identity{Name: "token:game"}}
		_, err := kv.Commit(context.Background(), store, txn)
		require.NoError(t, err)
	}
}

func TestLinesOfTheAuditAreFollowed(t *testing.T) {
	k, write := auditKit(t)
	for i := range 40 {
		write(fmt.Sprint("old", i))
	}
	fresh, all := k.listen("/v1/audit", ""), k.listen("/v1/audit?after=0", "")
	only := k.listen("/v1/audit?after=0&what=kv:ns/old7", "")
	write("new")
	m, ok := fresh.next()
	require.True(t, ok)
	require.Equal(t, "line", m.event)
	require.Contains(t, m.data, `"what":["kv:ns/new"]`)
	require.Equal(t, k.id(41), m.last)
	var c audit.Checker
	for i := range 41 {
		m, ok := all.next()
		require.True(t, ok)
		require.Equal(t, k.id(uint64(i+1)), m.last)
		require.NoError(t, c.Add([]byte(m.data)))
	}
	require.Equal(t, k.stores.Audit.Figures().Seq, c.Head.Seq)
	m, _ = only.next()
	require.Equal(t, k.id(8), m.last)

	again := k.listen("/v1/audit", k.id(39))
	for _, id := range []uint64{40, 41} {
		m, _ := again.next()
		require.Equal(t, k.id(id), m.last)
	}
	for _, id := range []string{k.id(1000), "other-3"} {
		of := k.listen("/v1/audit", id)
		m, _ := of.next()
		require.Equal(t, "reset", m.event, id)
		m, _ = of.next()
		require.Equal(t, k.id(1), m.last)
	}
	for path, want := range map[string]int{"/v1/audit?kind=x": 400, "/v1/audit?after=-1": 400, "/v1/audit?x=1": 400} {
		require.Equal(t, want, k.get(path).status, path)
	}
	require.Equal(t, 501, start(t, nil).get("/v1/audit").status, "there is none")
}

// A stream that is slower than lines are removed is told which it has missed.
func TestLinesThatAreGoneAreTold(t *testing.T) {
	k, _ := auditKit(t)
	s := &auditTeller{at: 3, Stream: k.aStream()}
	s.take(10, []byte("{}\n"))
	require.Equal(t, "event: gap\ndata: {\"from\":4,\"to\":9}\n\n", string(s.Buf))
	require.EqualValues(t, 9, s.at)
	s.Buf = nil
	s.take(10, []byte("{}\n"))
	require.Empty(t, s.Buf)
}

func TestTheAuditIsForThoseWhoMayReadIt(t *testing.T) {
	k, with := rightsKit(t)
	for rules, want := range map[string][2]int{"* kv": {403, 403}, "read audit": {501, 403}, "watch audit": {403, 501}, "* log,* status": {403, 403}} {
		with(strings.Split(rules, ",")...)
		require.Equal(t, want[0], k.get("/v1/audit/lines").status, rules)
		require.Equal(t, want[0], k.get("/v1/audit/verify").status, rules)
		require.Equal(t, want[1], k.get("/v1/audit").status, rules)
	}
	with("* kv", "* config", "* roles", "* storage", "* flow", "* bench")
	for _, ns := range []string{kv.AuditNamespace, kv.AuditLines} {
		for _, path := range []string{"/v1/store/key?ns=%s&key=books", "/v1/store/keys?ns=%s", "/v1/store/keys?ns=%s&count=1", "/v1/store/history?ns=%s&key=books", "/v1/store/stream?ns=%s", "/v1/stream?namespace=%s"} {
			require.NotEqual(t, 200, k.get(fmt.Sprintf(path, ns)).status, path)
		}
		got := k.do("PUT", fmt.Sprintf("/v1/store/key?ns=%s&key=books", ns), `{"value":"x"}`)
		require.Equal(t, 403, got.status)
	}
	require.Equal(t, 403, k.get("/v1/store/stream").status, "which would tell of all")
}
