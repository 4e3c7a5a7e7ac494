package protocol_test

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/kv"
	"confcenter/protocol"
)

// stateTalk is a conversation with the state store, every command once.
type stateTalk struct {
	t     *testing.T
	seq   uint16
	talks []talk
}

func (c *stateTalk) exchange(cmd protocol.Command, request, reply []byte) {
	c.seq++
	c.talks = append(c.talks, ask(cmd, c.seq, request), answer(cmd, c.seq, reply))
}

func (c *stateTalk) push(cmd protocol.Command, body []byte) {
	c.talks = append(c.talks, talk{false, protocol.AppendFrame(nil, cmd, 900, body)})
}

// write is one whose result is encoded as a server does.
func (c *stateTalk) write(txn *kv.Txn, raw bool, res *kv.Result) {
	cmd := protocol.KVWriteCommand(txn)
	body := protocol.AppendKVWrite(nil, cmd, txn, raw, false)
	w, err := parsed(c.t, body).KVWrite(cmd)
	require.NoError(c.t, err)
	c.exchange(cmd, body, w.AppendReply(nil, res))
}

func done(rev kv.Revision, ops ...kv.OpResult) *kv.Result {
	return &kv.Result{Revision: rev, Held: true, Ops: ops}
}

func version(key string, v kv.Value, create, mod kv.Revision, n int64) *kv.Entry {
	return &kv.Entry{NS: "shop", Key: key, Value: v, Create: create, Mod: mod, Version: n, Updated: 1700000000000 + int64(mod)}
}

func (c *stateTalk) writes() {
	text := kv.StringValue("a \"quoted\"\nline")
	put := kv.Op{Kind: kv.OpPut, NS: "shop", Key: "greeting", Value: text}
	first := version("greeting", text, 11, 11, 1)
	c.write(&kv.Txn{Then: []kv.Op{put}}, false, done(11, kv.OpResult{Entry: first}))

	put.TTL, put.Lease, put.WantPrev = time.Minute, 7, true
	second := version("greeting", text, 11, 12, 2)
	second.Expires, second.Lease = 1700000060012, 7
	c.write(&kv.Txn{Then: []kv.Op{put}, Token: "req-1", TokenNS: "shop", Fences: []kv.Fence{{NS: "shop", Key: "lock", Token: 5}}}, false,
		&kv.Result{Revision: 12, Held: true, Replayed: true, Ops: []kv.OpResult{{Entry: second, Prev: first}}})

	octets := kv.Op{Kind: kv.OpPut, NS: "shop", Key: "blob", Value: kv.BytesValue([]byte{0, 1, 2, 255})}
	blob := version("blob", octets.Value, 13, 13, 1)
	c.write(&kv.Txn{Then: []kv.Op{octets}}, true, done(13, kv.OpResult{Entry: blob}))
	c.write(&kv.Txn{Then: []kv.Op{octets}}, false, done(13, kv.OpResult{Entry: blob}))
	stale := kv.Compare{Target: kv.CompareMod, Relation: kv.Equal, Number: 9}
	c.write(protocol.GuardedTxn(stale, octets), true, &kv.Result{Revision: 13, Ops: []kv.OpResult{{Entry: blob}}})

	cas := protocol.GuardedTxn(kv.Compare{Target: kv.CompareValue, Relation: kv.Equal, Value: kv.IntValue(1)}, kv.Op{Kind: kv.OpPut, NS: "shop", Key: "n", Value: kv.IntValue(2)})
	c.write(cas, false, done(14, kv.OpResult{Entry: version("n", kv.IntValue(2), 3, 14, 2)}))
	c.write(protocol.GuardedTxn(kv.Absent("", ""), cas.Then[0]), false, &kv.Result{Revision: 14, Ops: []kv.OpResult{{Entry: version("n", kv.IntValue(2), 3, 14, 2)}}})

	high := int64(10)
	c.write(&kv.Txn{Then: []kv.Op{{Kind: kv.OpIncr, NS: "shop", Key: "n", Delta: 4, Max: &high}}}, false, done(15, kv.OpResult{Entry: version("n", kv.IntValue(6), 3, 15, 3)}))
	c.write(&kv.Txn{Then: []kv.Op{{Kind: kv.OpDelete, NS: "shop", Key: "n", WantPrev: true}}}, false, done(16, kv.OpResult{Count: 1, Prev: version("n", kv.IntValue(6), 3, 15, 3)}))
	c.write(&kv.Txn{Then: []kv.Op{{Kind: kv.OpDeletePrefix, NS: "shop", Key: "cart/", Limit: 2}}}, false, done(17, kv.OpResult{Count: 2, More: true}))
	c.exchange(protocol.KVDrop, []byte(`{"ns":"shop","confirm":"shop"}`), []byte(`{"code":0,"rev":18,"deleted":3}`))
	hasty := kv.Txn{Then: []kv.Op{{Kind: kv.OpDeletePrefix, NS: "shop"}}}
	c.exchange(protocol.KVDrop, []byte(`{"ns":"shop"}`), protocol.AppendResult(nil, int(codes.Unconfirmed), codes.Message(hasty.Check())))
	c.write(&kv.Txn{
		If:   []kv.Compare{kv.Absent("shop", "order"), {NS: "stock", Key: "n", Target: kv.CompareValue, Relation: kv.Greater, Value: kv.IntValue(0)}},
		Then: []kv.Op{{Kind: kv.OpPut, NS: "shop", Key: "order", Value: kv.JSONValue([]byte(`{"item" : 7}`))}, {Kind: kv.OpIncr, NS: "stock", Key: "n", Delta: -1}, {Kind: kv.OpGet, NS: "shop", Key: "none"}},
		Else: []kv.Op{{Kind: kv.OpGet, NS: "shop", Key: "order"}},
	}, false, done(19, kv.OpResult{Entry: version("order", kv.JSONValue(nil), 19, 19, 1)}, kv.OpResult{Entry: version("n", kv.IntValue(4), 2, 19, 9)}, kv.OpResult{}))
	c.exchange(protocol.KVRestore, protocol.AppendKVRestore(nil, &kv.Txn{Then: []kv.Op{{Kind: kv.OpPut, NS: "shop", Key: "greeting"}}}, 11, false, false),
		[]byte(`{"code":1018,"desc":"revision 11 of greeting is no longer kept"}`))
}

// following are the operations of which all but the meaning follows from their rows: each is said once, with all its
// members.
func (c *stateTalk) following(said []talk) {
	_, seen := printed(c.t, said)
	for _, row := range protocol.Commands {
		if !row.Op.Follows() || seen[row.ID] {
			continue
		}
		op := kv.Op{Kind: row.Op, NS: "shop", Key: "k", WantPrev: row.Op.Has(kv.MemberPrev)}
		if row.Op.Has(kv.MemberValue) {
			op.Value = kv.StringValue("text")
		}
		if row.Op.Has(kv.MemberBy) {
			op.Delta = 2
		}
		did := kv.OpResult{Count: 1}
		if row.Op.Sets() {
			op.TTL = time.Minute
			did = kv.OpResult{Entry: version("k", kv.StringValue("its text"), 3, 92, 2)}
		}
		if op.WantPrev {
			did.Prev = version("k", kv.StringValue("its "), 3, 3, 1)
		}
		c.write(&kv.Txn{Then: []kv.Op{op}}, false, done(92, did))
	}
}

func (c *stateTalk) reads() {
	greeting, blob := version("greeting", kv.StringValue("hello"), 11, 12, 2), version("blob", kv.BytesValue([]byte{0, 1, 2, 255}), 13, 13, 1)
	read := protocol.KVRead{NS: []byte("shop"), Key: []byte("greeting")}
	c.exchange(protocol.KVGet, protocol.AppendKVRead(nil, read), protocol.AppendKVGot(nil, 20, greeting, false))
	read.Rev, read.MinRev = 3, 20
	c.exchange(protocol.KVGet, protocol.AppendKVRead(nil, read), protocol.AppendKVGot(nil, 3, nil, false))
	read = protocol.KVRead{NS: []byte("shop"), Key: []byte("blob"), Raw: true}
	c.exchange(protocol.KVGet, protocol.AppendKVRead(nil, read), protocol.AppendKVGot(nil, 20, blob, true))
	c.exchange(protocol.KVGet, []byte(`{"ns":"shop"}`), protocol.AppendResult(nil, int(codes.BadKey), "key is empty"))
	many := protocol.KVMGetQuery{NS: "shop", Keys: []string{"greeting", "none", "blob"}, Raw: true}
	c.exchange(protocol.KVMGet, protocol.AppendMessage(nil, &many), protocol.AppendKVGotMany(nil, 20, []*kv.Entry{greeting, nil, blob}, true))
	page := kv.Page{Revision: 20, Entries: []*kv.Entry{blob, greeting}, Count: 2, More: true}
	for _, q := range []protocol.KVListQuery{{List: kv.List{NS: "shop", Limit: 2}}, {List: kv.List{NS: "shop", Prefix: "a", After: "ab"}, KeysOnly: true}, {List: kv.List{NS: "shop", CountOnly: true}}} {
		c.exchange(protocol.KVList, protocol.AppendMessage(nil, &q), protocol.AppendKVPage(nil, q, page))
		page.More = false
	}
	c.exchange(protocol.KVNames, protocol.AppendMessage(nil, &protocol.KVNamesQuery{Limit: 1}), protocol.AppendReply(nil, &protocol.KVNamespaces{Revision: 20, Namespaces: []kv.Namespace{{Name: "shop", Keys: 2, Bytes: 21}}, More: true}))
	gone := &kv.Entry{NS: "shop", Key: "greeting", Mod: 9, Updated: 1700000000009}
	c.exchange(protocol.KVHistory, protocol.AppendMessage(nil, &protocol.KVHistoryQuery{NS: "shop", Key: "greeting", Limit: 2}),
		protocol.AppendKVVersions(nil, 20, kv.Versions{Entries: []*kv.Entry{greeting, gone}, More: true, Floor: 4}, false))
	c.exchange(protocol.KVStat, []byte(`{}`), protocol.AppendKVStats(nil, kv.Stats{Revision: 20, Namespaces: 1, Keys: 2, Bytes: 21, LogFloor: 3, HistoryFloor: 4, Commits: 17, Groups: 9}))
}

func (c *stateTalk) leases() {
	lease := kv.Lease{ID: 21, TTL: 10 * time.Second, Left: 9 * time.Second, Keys: 1}
	c.write(&kv.Txn{Then: []kv.Op{{Kind: kv.OpGrant, TTL: 10 * time.Second}}, Token: "req-2", TokenNS: "shop"}, false, done(21, kv.OpResult{Lease: lease}))
	c.exchange(protocol.KVAlive, protocol.AppendKVLeaseID(nil, 21), protocol.AppendKVAlive(nil, lease))
	c.exchange(protocol.KVLeaseInfo, protocol.AppendKVLeaseID(nil, 21), protocol.AppendReply(nil, &lease))
	lock := protocol.KVLockRequest{NS: "shop", Key: "lock", Lease: 21, Value: kv.StringValue("worker 7")}
	c.exchange(protocol.KVLock, protocol.AppendKVLock(nil, lock), protocol.AppendKVHeld(nil, codes.Locked.Error(), 21, version("lock", kv.StringValue("worker 3"), 5, 5, 1), false))
	lock.Wait = true
	c.exchange(protocol.KVLock, protocol.AppendKVLock(nil, lock), protocol.AppendKVLocked(nil, protocol.KVLocked{Revision: 21}))
	c.push(protocol.KVGrant, protocol.AppendMessage(nil, &protocol.KVGranted{NS: "shop", Key: "lock", Lease: 21, Fence: 23}))
	c.exchange(protocol.KVLock, protocol.AppendKVLock(nil, lock), protocol.AppendKVLocked(nil, protocol.KVLocked{Granted: true, Fence: 23, Revision: 23}))
	c.exchange(protocol.KVUnlock, protocol.AppendMessage(nil, &protocol.KVUnlockRequest{NS: "shop", Key: "lock", Fence: 23}), protocol.AppendKVDone(nil, 24))
	c.push(protocol.KVGrant, protocol.AppendMessage(nil, &protocol.KVGranted{NS: "shop", Key: "other", Lease: 21, Code: codes.LeaseGone, Desc: "lease 21 has ended"}))
	c.write(&kv.Txn{Then: []kv.Op{{Kind: kv.OpRevoke, Lease: 21}}}, false, done(25, kv.OpResult{Count: 1}))
}

func (c *stateTalk) watches() {
	greeting, blob := version("greeting", kv.StringValue("hello"), 11, 26, 3), version("blob", kv.BytesValue([]byte{9}), 13, 26, 2)
	gone := &kv.Entry{NS: "shop", Key: "greeting", Mod: 27, Updated: 1700000000027}
	c.exchange(protocol.KVWatch, protocol.AppendKVWatch(nil, protocol.KVWatchRequest{Filter: kv.Filter{NS: "shop"}, State: true, Prev: true, Raw: true}), protocol.AppendKVWatching(nil, 25, 1))
	for _, ev := range []protocol.KVEvents{
		{Revision: 25, State: true, Events: []kv.Event{{Kind: kv.Put, Entry: version("greeting", kv.StringValue("hi"), 11, 12, 2)}}},
		{Revision: 25, Synced: true},
		{Revision: 26, More: true, Events: []kv.Event{{Kind: kv.Put, Entry: blob, Prev: version("blob", kv.BytesValue([]byte{0, 1}), 13, 13, 1)}}},
		{Revision: 26, Events: []kv.Event{{Kind: kv.Put, Entry: greeting}}},
		{Revision: 27, Events: []kv.Event{{Kind: kv.Expire, Entry: gone, Prev: greeting}}},
		{Revision: 90, Resync: true},
		{Revision: 90, Synced: true},
	} {
		ev.Watch = 1
		c.push(protocol.KVEvent, protocol.AppendKVEvents(nil, ev, true, true))
	}
	c.exchange(protocol.KVWatch, protocol.AppendKVWatch(nil, protocol.KVWatchRequest{Filter: kv.Filter{NS: "shop", Text: "k", Exact: true}, From: 90, Coalesce: true}), protocol.AppendKVWatching(nil, 91, 2))
	c.exchange(protocol.KVUnwatch, protocol.AppendKVUnwatch(nil, 1), protocol.AppendResult(nil, 0, "success"))
}

// Every body of the state store's, as it goes over the wire. A change here is a
// change of the protocol.
func TestStateGolden(t *testing.T) {
	c := &stateTalk{t: t}
	c.writes()
	c.reads()
	c.leases()
	c.watches()
	c.following(c.talks)
	const file = "testdata/state.golden"
	got, seen := printed(t, c.talks)
	for _, row := range protocol.Commands {
		require.Equal(t, row.ID.IsState(), seen[row.ID], row.Name)
	}
	if *update {
		require.NoError(t, os.WriteFile(file, got, 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got))
}

// printed is a conversation as text, and the commands that occur in it.
func printed(t *testing.T, talks []talk) (text []byte, seen map[protocol.Command]bool) {
	seen = map[protocol.Command]bool{}
	for _, one := range talks {
		arrow := "← "
		if one.toServer {
			arrow = "→ "
		}
		text = protocol.Printer{Style: protocol.BodyWhole}.AppendStream(append(text, arrow...), one.frame)
		h, err := protocol.ParseHeader(one.frame)
		require.NoError(t, err)
		seen[h.Command.Request()] = true
	}
	return text, seen
}
