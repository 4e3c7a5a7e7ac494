package watch

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"confcenter/codes"
	"confcenter/kv"
	"confcenter/kvstore/memory"
	"confcenter/protocol"
	"confcenter/server/tcp/gate/gatetest"
	"confcenter/server/tcp/loop"
)

// follow runs the loop, with p reading n bytes at a time, until w has been told
// everything.
func (k *watchKit) follow(p *watchPeer, w *witness, n int) {
	k.t.Helper()
	k.until(func() bool {
		p.w.Read(n)
		for _, ev := range p.events() {
			w.told(ev)
		}
		return !w.waiting && (w.coalesce || len(w.expected()) == 0) && p.s.Out.Owing() == 0 && !p.watches().busy && len(p.watches().behind) == 0
	}, "the watch has everything")
	w.done()
}

func TestTheStateComesFirstAndTheMarkerBehindIt(t *testing.T) {
	k := newWatchKit(t, loop.Limits{}, memory.Config{}, nil)
	for _, ns := range []string{"a", "b", "c"} {
		txn := &kv.Txn{}
		for i := range 1500 {
			txn.Then = append(txn.Then, kv.Op{Kind: kv.OpPut, NS: ns, Key: fmt.Sprintf("key%04d", i), Value: kv.StringValue(strings.Repeat("v", 100))})
		}
		k.commit(txn)
	}
	k.commit(&kv.Txn{Then: []kv.Op{{Kind: kv.OpDeletePrefix, NS: "b", Key: "key1"}}})
	for _, f := range []kv.Filter{{}, {NS: "b"}, {NS: "b", Text: "key00"}, {NS: "b", Text: "key0001", Exact: true}, {NS: "none"}, {NS: "b", Text: "none", Exact: true}} {
		for _, room := range []int{gatetest.Unlimited, 300} {
			p := k.peer(room)
			p.watch("{" + filterBody(f) + `"state":1}`)
			w := newWitness(k, f, 0)
			w.waiting = true
			k.put("b", "key0001", "while it is given")
			k.follow(p, w, 20_000)
			k.put("b", "key0001", "and live")
			k.turn()
			k.follow(p, w, 20_000)
			require.Zero(t, w.resyncs)
			require.True(t, w.known)
			p.s.Abort("the test ends it")
		}
	}
}

func TestBelowTheFloorOfTheLogTheStateIsGivenAnew(t *testing.T) {
	k := newWatchKit(t, loop.Limits{}, memory.Config{LogBytes: 10_000}, nil)
	for i := range 300 {
		k.put("n", fmt.Sprintf("k%d", i%100), strings.Repeat("v", 100))
	}
	from := k.peer(gatetest.Unlimited)
	from.watch(`{"ns":"n","from":1}`)
	w := newWitness(k, kv.Filter{NS: "n"}, 1)
	k.follow(from, w, 0)
	require.Equal(t, 1, w.resyncs)

	slow := k.peer(200)
	_, rev := slow.watch(`{"ns":"n","prev":1}`)
	lagging := newWitness(k, kv.Filter{NS: "n"}, rev)
	lagging.prev = true
	for i := range 3000 {
		k.put("n", fmt.Sprintf("k%d", i%100), strings.Repeat("w", 100))
		k.turn()
	}
	k.follow(slow, lagging, 5_000)
	require.Equal(t, 1, lagging.resyncs)
	require.Equal(t, int64(2), k.Group.Readings().Get("server_watch_resyncs_total"))
}

// forgetful is a store that misses changes, and says so with the next one.
type forgetful struct {
	kv.Store
	misses, missed bool // while nothing is committed
}

func (f *forgetful) Follow(fn func(*kv.Batch)) (stop func()) {
	return f.Store.Follow(func(b *kv.Batch) {
		if f.misses {
			f.missed = true
			return
		}
		fn(&kv.Batch{Changes: b.Changes, Reset: f.missed})
		f.missed = false
	})
}

func TestWhatTheStoreHasMissedIsReadBack(t *testing.T) {
	var store *forgetful
	k := newWatchKit(t, loop.Limits{}, memory.Config{LogBytes: 64}, func(s kv.Store) kv.Store {
		store = &forgetful{Store: s}
		return store
	})
	p := k.peer(gatetest.Unlimited)
	_, rev := p.watch(`{"ns":"n"}`)
	w := newWitness(k, kv.Filter{NS: "n"}, rev)
	k.put("n", "a", "1")
	k.follow(p, w, 0)
	require.Zero(t, w.resyncs)
	store.misses = true
	k.put("n", "missed", "1")
	store.misses = false
	k.put("n", "b", "1")
	k.follow(p, w, 0)
	require.Equal(t, 1, w.resyncs)
	require.Len(t, w.mirror, 3)
	k.put("n", "c", "1")
	k.follow(p, w, 0)
	require.Equal(t, 1, w.resyncs)
}

// fragile is a store whose views end after so many lists.
type fragile struct {
	kv.Store
	lists  int64
	budget atomic.Int64 // lists until views last for ever
}

type fragileView struct {
	kv.View
	store *fragile
	left  int64
}

func (f *fragile) View() kv.View { return &fragileView{f.Store.View(), f, f.lists} }

func (v *fragileView) List(l kv.List) (kv.Page, error) {
	if v.left--; v.left < 0 && v.store.budget.Add(-1) >= 0 {
		return kv.Page{}, codes.Errorf(codes.Compacted, "the view was open for too long")
	}
	return v.View.List(l)
}

// vanishing loses a namespace between the opening of a view and the listing of the
// namespaces.
type vanishing struct {
	kv.Store
	lose func()
}

func (v *vanishing) Namespaces(after string, limit int) ([]kv.Namespace, bool) {
	v.lose()
	return v.Store.Namespaces(after, limit)
}

func TestANamespaceThatIsGoneWhileTheStateIsGivenIsToldAsDeletions(t *testing.T) {
	var k *watchKit
	lose := sync.OnceFunc(func() { k.commit(&kv.Txn{Then: []kv.Op{{Kind: kv.OpDeletePrefix, NS: "m", Key: "", Confirm: "m"}}}) })
	k = newWatchKit(t, loop.Limits{}, memory.Config{}, func(s kv.Store) kv.Store { return &vanishing{s, lose} })
	k.put("m", "gone", "v")
	k.put("n", "stays", "v")
	p := k.peer(gatetest.Unlimited)
	p.watch(`{"state":1}`)
	w := newWitness(k, kv.Filter{}, 0)
	w.waiting = true
	k.follow(p, w, 0)
	require.True(t, w.known)
	require.Len(t, w.mirror, 1)
}

func TestAStateWhoseViewEndsBeginsAnewAndGetsToItsEnd(t *testing.T) {
	var store *fragile
	k := newWatchKit(t, loop.Limits{}, memory.Config{}, func(s kv.Store) kv.Store {
		store = &fragile{Store: s, lists: 3}
		return store
	})
	for i := range 3000 {
		k.put("n", fmt.Sprintf("key%04d", i), strings.Repeat("v", 200))
	}
	for _, cuts := range []int64{1, 2, 10} {
		store.budget.Store(cuts)
		p := k.peer(300)
		p.watch(`{"ns":"n","state":1}`)
		w := newWitness(k, kv.Filter{NS: "n"}, 0)
		w.waiting = true
		writes := 0
		k.until(func() bool {
			if writes++; writes < 50 {
				k.put("n", fmt.Sprintf("key%04d", writes*7), "written meanwhile")
			}
			p.w.Read(5_000)
			for _, ev := range p.events() {
				w.told(ev)
			}
			return !w.waiting && writes > 50
		}, "the state is complete")
		k.follow(p, w, 5_000)
		require.Equal(t, int(cuts), w.resyncs)
		p.s.Abort("the test ends it")
	}
	require.Zero(t, k.watches.source.Holding())

	// One that never lasts is given up rather than tried for ever.
	store.lists = 0
	store.budget.Store(1 << 40)
	p := k.peer(gatetest.Unlimited)
	p.watch(`{"ns":"n","state":1}`)
	k.until(func() bool { return p.s.Ending() }, "the connection is closed")
	require.Zero(t, k.watches.source.Holding())
}

func TestAWholeStateIsHeldWhereViewsDoNotLastForThePeer(t *testing.T) {
	var store *fragile
	k := newWatchKit(t, loop.Limits{}, memory.Config{}, func(s kv.Store) kv.Store {
		store = &fragile{Store: s, lists: 1}
		store.budget.Store(1)
		return store
	})
	for i := range 3000 {
		k.put("n", fmt.Sprintf("key%04d", i), strings.Repeat("v", 200))
	}
	store.lists = 3
	p := k.peer(300)
	p.watch(`{"ns":"n","state":1}`)
	w := newWitness(k, kv.Filter{NS: "n"}, 0)
	w.waiting = true
	k.until(func() bool {
		p.w.Read(1000)
		return k.watches.source.Holding() > 0 && k.state.Stats().Views == 0
	}, "it holds the state and no view")
	p.s.Abort("the test ends it")
	k.settle()
	require.Zero(t, k.watches.source.Holding())
}

func TestServerStoppedInTheMiddleLeavesNoViewOpen(t *testing.T) {
	k := newWatchKit(t, loop.Limits{}, memory.Config{}, nil) // its clean-up checks
	for i := range 1000 {
		k.put("n", fmt.Sprintf("key%04d", i), strings.Repeat("v", 200))
	}
	for range 5 {
		p := k.peer(300)
		p.watch(`{"ns":"n","state":1}`)
		p.watch(`{"ns":"n","state":1}`)
	}
	k.settle()
	require.Positive(t, k.state.Stats().Views)
}

func TestWatchesOfASlowPeerAreServedInTurn(t *testing.T) {
	k := newWatchKit(t, loop.Limits{}, memory.Config{}, nil)
	for i := range 2000 {
		k.put("n", fmt.Sprintf("key%04d", i), strings.Repeat("v", 500))
	}
	p := k.peer(2000)
	const each = maxViews
	witnesses := map[uint32]*witness{}
	told := map[uint32]int{}
	for i := range 2 * each {
		body, w := `{"ns":"n","from":1}`, newWitness(k, kv.Filter{NS: "n"}, 1)
		if i%2 == 1 {
			body = `{"ns":"n","state":1}`
			w.waiting = true
		}
		id, _ := p.watch(body)
		witnesses[id] = w
	}
	check := func() {
		for _, ev := range p.events() {
			witnesses[ev.Watch].told(ev)
			told[ev.Watch] += len(ev.Events)
		}
	}
	k.until(func() bool {
		p.w.Read(20_000)
		check()
		return len(told) == 2*each
	}, "each has been told something")
	for id, n := range told {
		require.Less(t, n, 1000, "watch %d had to wait for nobody", id)
	}
	k.until(func() bool {
		p.w.Read(200_000)
		check()
		return p.s.Out.Owing() == 0 && !p.watches().busy && len(p.watches().behind) == 0
	}, "all have everything")
	for _, w := range witnesses {
		w.done()
	}
	require.Zero(t, k.state.Stats().Views)
}

func TestASlowWatchThatAllowsItIsToldTheNewestOnly(t *testing.T) {
	k := newWatchKit(t, loop.Limits{}, memory.Config{}, nil)
	p := k.peer(200)
	_, rev := p.watch(`{"ns":"n","coalesce":1,"prev":1}`)
	w := newWitness(k, kv.Filter{NS: "n"}, rev)
	w.coalesce, w.prev, w.known = true, true, true
	const writes = 3000
	for i := range writes {
		k.put("n", fmt.Sprintf("k%d", i%5), strings.Repeat("v", 200))
		k.turn()
	}
	told := 0
	k.until(func() bool {
		p.w.Read(10_000)
		for _, ev := range p.events() {
			w.told(ev)
			told += len(ev.Events)
		}
		return p.s.Out.Owing() == 0 && !p.watches().busy && len(p.watches().behind) == 0
	}, "it has everything")
	w.done()
	require.Less(t, told, writes/5)
}

// What any number of watches are told is what happened, whatever they ask for, how
// slowly their peers read, how short the log is and when views end.
func TestEveryWatchIsToldWhatHappened(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		floor := rapid.SampledFrom([]int64{0, 0, 5_000}).Draw(rt, "log")
		fragileLists := rapid.SampledFrom([]int64{1 << 40, 2}).Draw(rt, "lists")
		limits := loop.Limits{Pending: rapid.SampledFrom([]int{500, 64 << 10}).Draw(rt, "pending"), Backlog: rapid.SampledFrom([]int64{1000, 32 << 20}).Draw(rt, "backlog")}
		k := newWatchKit(rt, limits, memory.Config{LogBytes: floor}, func(s kv.Store) kv.Store {
			f := &fragile{Store: s, lists: fragileLists}
			f.budget.Store(3)
			return f
		})
		var peers []*modelPeer
		for range rapid.IntRange(1, 3).Draw(rt, "peers") {
			peers = append(peers, &modelPeer{watchPeer: k.peer(rapid.SampledFrom([]int{300, gatetest.Unlimited}).Draw(rt, "room")), told: map[uint32]*witness{}})
		}
		for range rapid.IntRange(5, 60).Draw(rt, "steps") {
			p := peers[rapid.IntRange(0, len(peers)-1).Draw(rt, "peer")]
			switch rapid.SampledFrom([]string{"watch", "put", "put", "put", "txn", "drop", "read", "read", "turn", "end"}).Draw(rt, "step") {
			case "watch":
				p.begin(rt)
			case "put":
				k.put(drawNS(rt), drawKey(rt), strings.Repeat("v", rapid.IntRange(0, 300).Draw(rt, "size")))
			case "txn":
				txn := &kv.Txn{}
				for i := range rapid.IntRange(1, 400).Draw(rt, "ops") {
					txn.Then = append(txn.Then, kv.Op{Kind: kv.OpPut, NS: drawNS(rt), Key: fmt.Sprintf("a%d", i), Value: kv.StringValue(strings.Repeat("w", 200))})
				}
				k.commit(txn)
			case "drop":
				k.commit(&kv.Txn{Then: []kv.Op{{Kind: kv.OpDeletePrefix, NS: drawNS(rt), Key: drawKey(rt)[:1]}}})
			case "read":
				p.w.Read(rapid.IntRange(1, 50_000).Draw(rt, "bytes"))
				p.collect()
			case "turn":
				k.Local.Loop.WakeWithin(rapid.IntRange(1, 50).Draw(rt, "budget"))
			case "end":
				p.end()
			}
		}
		for _, p := range peers {
			k.until(func() bool {
				p.w.Read(100_000)
				p.collect()
				return len(p.asked) == 0 && p.s.Out.Owing() == 0 && (!p.watches().busy && len(p.watches().behind) == 0)
			}, "everybody has everything")
			for _, w := range p.told {
				w.done()
			}
			p.s.Abort("the test ends it")
		}
		k.settle()
		require.Zero(rt, k.Group.Memory.Held())
		require.Zero(rt, k.watches.source.Holding())
		k.stop()
	})
}

func drawNS(rt *rapid.T) string  { return rapid.SampledFrom([]string{"m", "n"}).Draw(rt, "ns") }
func drawKey(rt *rapid.T) string { return rapid.StringMatching(`[ab][12]?`).Draw(rt, "key") }

// modelPeer is a peer whose every watch has a witness.
type modelPeer struct {
	*watchPeer
	told  map[uint32]*witness
	asked []*witness // requests without a reply yet, in order; those that end one have ends set
}

// begin asks for any watch.
func (p *modelPeer) begin(rt *rapid.T) {
	f := kv.Filter{}
	if f.NS = rapid.SampledFrom([]string{"", "m", "n"}).Draw(rt, "ns"); f.NS != "" {
		f.Exact = rapid.Bool().Draw(rt, "exact")
		if f.Text = drawKey(rt); !f.Exact {
			f.Text = f.Text[:rapid.IntRange(0, len(f.Text)).Draw(rt, "cut")]
		}
	}
	w := newWitness(p.k, f, 0)
	w.prev, w.coalesce = rapid.Bool().Draw(rt, "prev"), rapid.Bool().Draw(rt, "coalesce")
	body := "{" + filterBody(f)
	switch rapid.IntRange(0, 2).Draw(rt, "kind") {
	case 1:
		if newest := p.k.state.Revision(); newest > 0 {
			w.at = kv.Revision(rapid.Int64Range(1, int64(newest)).Draw(rt, "from"))
			body += fmt.Sprintf(`"from":%d,`, w.at)
		}
	case 2:
		w.waiting = true
		body += `"state":1,`
	}
	for name, set := range map[string]bool{"prev": w.prev, "coalesce": w.coalesce, "raw": rapid.Bool().Draw(rt, "raw")} {
		if set {
			body += fmt.Sprintf(`"%s":1,`, name)
		}
	}
	p.asked = append(p.asked, w)
	p.send(protocol.KVWatch, strings.TrimSuffix(body, ",")+"}")
}

// end ends any watch.
func (p *modelPeer) end() {
	for id, w := range p.told {
		if w.ends == 0 {
			w.ends = id
			p.asked = append(p.asked, w)
			p.send(protocol.KVUnwatch, fmt.Sprintf(`{"watch":%d}`, id))
			return
		}
	}
}

// collect looks at what has come.
func (p *modelPeer) collect() {
	for _, f := range p.take() {
		if f.Command == protocol.KVEvent {
			require.Contains(p.k.t, p.told, f.events.Watch, "an event of a watch that is not")
			p.told[f.events.Watch].told(f.events)
			continue
		}
		w := p.asked[0]
		p.asked = p.asked[1:]
		if w.ends != 0 {
			require.Equal(p.k.t, protocol.KVUnwatch.Reply(), f.Command)
			delete(p.told, w.ends)
			continue
		}
		rev, id, err := protocol.ParseKVWatching(f.body)
		require.NoError(p.k.t, err, "%s", f.body)
		if w.at == 0 && !w.waiting {
			w.at = rev
		}
		p.told[id] = w
	}
}
