package watch

import (
	"bytes"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/kv"
	"confcenter/kvstore/memory"
	"confcenter/protocol"
	"confcenter/server/state"
	"confcenter/server/tcp/gate"
	"confcenter/server/tcp/gate/gatetest"
	"confcenter/server/tcp/loop"
	"confcenter/server/tcp/loop/looptest"
)

// watchKit is a server without sockets on a store in memory, whose one loop is run
// by the test.
type watchKit struct {
	*gatetest.Bench
	t       gatetest.T
	watches *Handlers
	state   *memory.Store
	stop    func() // may be called early

	mu      sync.Mutex
	history []kv.Change // guarded by mu
}

// newWatchKit starts one. wrap, if given, puts something between server and store.
func newWatchKit(t gatetest.T, limits loop.Limits, mem memory.Config, wrap func(kv.Store) kv.Store) *watchKit {
	k := &watchKit{Bench: gatetest.NewBench(t, limits), t: t, state: memory.New(mem)}
	unfollow := k.state.Follow(func(b *kv.Batch) {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.history = append(k.history, b.Changes...)
	})
	var store kv.Store = k.state
	if wrap != nil {
		store = wrap(store)
	}
	k.watches = Add(k.Gate, store)
	state.Add(k.Gate, store, nil, nil)
	k.Open()
	k.Group.Start()
	k.watches.Follow()
	k.stop = sync.OnceFunc(func() {
		k.Stop()
		k.watches.Unfollow()
		unfollow()
		require.Zero(t, k.state.Stats().Views, "no view is left open")
		require.NoError(t, k.state.Close())
	})
	t.Cleanup(k.stop)
	return k
}

// commit applies a transaction and returns when it is on its way to the watches.
func (k *watchKit) commit(txn *kv.Txn) *kv.Result {
	type answer struct {
		res *kv.Result
		err error
	}
	done := make(chan answer, 1)
	require.NoError(k.t, k.state.Commit(txn, func(res *kv.Result, err error) { done <- answer{res, err} }))
	a := <-done
	require.NoError(k.t, a.err)
	return a.res
}

func (k *watchKit) put(ns, key, value string) kv.Revision {
	return k.commit(kv.PutTxn(ns, key, kv.StringValue(value))).Revision
}

// turn lets the loop do all it can.
func (k *watchKit) turn() {
	gatetest.Sweep(k.Local)
}

// until runs the loop until cond holds. A machine that has much else to do may take minutes for what
// is the work of seconds.
func (k *watchKit) until(cond func() bool, what string) {
	k.t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); ; runtime.Gosched() {
		k.turn()
		if cond() {
			return
		}
		if time.Now().After(deadline) {
			require.FailNow(k.t, "it did not come to that", what)
		}
	}
}

// settle runs the loop until nothing is going on any more.
func (k *watchKit) settle() {
	k.t.Helper()
	k.until(func() bool {
		catchUps := &k.watches.catchUps
		catchUps.mu.Lock()
		idle := catchUps.running == 0
		catchUps.mu.Unlock()
		k.turn() // what the last one posted
		var walk loop.Walk
		for c := walk.Next(k.Local.Loop); c != nil; c = walk.Next(k.Local.Loop) {
			idle = idle && !k.watches.watchesOf(gate.SessionOf(c)).busy
		}
		return idle
	}, "rest")
}

// hub is the loop's.
func (k *watchKit) hub() *hub { return k.watches.hubOf(k.Local) }

func (k *watchKit) changes() []kv.Change {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.history[:len(k.history):len(k.history)]
}

// watchPeer is a connection of a kit.
type watchPeer struct {
	k   *watchKit
	s   *gate.Session
	w   *looptest.Wire
	seq uint16
}

// peer connects; its socket takes room bytes before it has to read.
func (k *watchKit) peer(room int) *watchPeer {
	s, w := k.Peer(room)
	return &watchPeer{k: k, s: s, w: w}
}

func (p *watchPeer) watches() *watches { return p.k.watches.watchesOf(p.s) }

func (p *watchPeer) send(cmd protocol.Command, body string) {
	p.seq++
	p.s.Receive(protocol.AppendFrame(nil, cmd, p.seq, []byte(body)))
}

// take is all whole frames that have arrived; they are gone then.
func (p *watchPeer) take() (frames []watchFrame) {
	for {
		b := p.w.Got.Bytes()
		if len(b) < protocol.HeaderSize {
			return frames
		}
		h, err := protocol.ParseHeader(b)
		require.NoError(p.k.t, err)
		if len(b) < protocol.HeaderSize+int(h.BodyLen) {
			return frames
		}
		f := watchFrame{Header: h, body: bytes.Clone(p.w.Got.Next(protocol.HeaderSize + int(h.BodyLen))[protocol.HeaderSize:])}
		if h.Command == protocol.KVEvent {
			f.events, err = protocol.ParseKVEvents(f.body)
			require.NoError(p.k.t, err)
			if h.BodyLen > protocol.MaxBody {
				require.Len(p.k.t, f.events.Events, 1)
				require.Nil(p.k.t, f.events.Events[0].Prev, "only one entry alone may be so long")
			}
		}
		frames = append(frames, f)
	}
}

// events is take where nothing but events may have come.
func (p *watchPeer) events() (list []protocol.KVEvents) {
	for _, f := range p.take() {
		require.Equal(p.k.t, protocol.KVEvent, f.Command, "%s", f.body)
		list = append(list, f.events)
	}
	return list
}

type watchFrame struct {
	protocol.Header
	body   []byte
	events protocol.KVEvents
}

// watch begins a watch that must be accepted, and eats the reply.
func (p *watchPeer) watch(body string) (id uint32, rev kv.Revision) {
	p.k.t.Helper()
	p.send(protocol.KVWatch, body)
	frames := p.take()
	require.NotEmpty(p.k.t, frames)
	last := frames[len(frames)-1]
	require.Equal(p.k.t, protocol.KVWatch.Reply(), last.Command)
	rev, id, err := protocol.ParseKVWatching(last.body)
	require.NoError(p.k.t, err, "%s", last.body)
	return id, rev
}

// refused sends a request that must be refused.
func (p *watchPeer) refused(cmd protocol.Command, body string, code codes.Code) {
	p.k.t.Helper()
	p.send(cmd, body)
	frames := p.take()
	require.Len(p.k.t, frames, 1)
	res, err := protocol.ParseResult(frames[0].body)
	require.NoError(p.k.t, err)
	require.Equal(p.k.t, int32(code), res.Code, "%s", frames[0].body)
}

// witness checks that what one watch is told is exactly what happened.
type witness struct {
	t        gatetest.T
	k        *watchKit
	filter   kv.Filter
	prev     bool
	coalesce bool

	at      kv.Revision // told so far, whole revisions
	ahead   []kv.Event  // matching events that happened and have not been told
	read    int         // changes of the history that ahead is made of
	waiting bool        // for a state to be complete
	state   []kv.Event
	resyncs int
	mirror  map[string]*kv.Entry // what the watcher would believe
	known   bool                 // mirror is everything: there was a state
	ends    uint32               // the watch's number, once it has been asked to end
}

func newWitness(k *watchKit, filter kv.Filter, at kv.Revision) *witness {
	return &witness{t: k.t, k: k, filter: filter, at: at, mirror: map[string]*kv.Entry{}}
}

func mirrorKey(e *kv.Entry) string { return e.NS + "\x00" + e.Key }

// told is given every event frame of the watch.
func (w *witness) told(ev protocol.KVEvents) {
	switch {
	case ev.Resync:
		w.resyncs++
		w.waiting, w.state = true, nil
		clear(w.mirror)
	case ev.State:
		require.True(w.t, w.waiting, "a piece of a state that was not announced")
		w.state = append(w.state, ev.Events...)
	case ev.Synced:
		require.True(w.t, w.waiting)
		w.synced(ev.Revision)
	default:
		require.False(w.t, w.waiting, "a change in the middle of a state")
		require.NotEmpty(w.t, ev.Events)
		if w.coalesce {
			w.coalesced(ev)
		} else {
			w.changed(ev)
		}
		for _, e := range ev.Events {
			w.apply(e)
		}
	}
}

func (w *witness) apply(e kv.Event) {
	key := mirrorKey(e.Entry)
	if old := w.mirror[key]; old != nil {
		require.Greater(w.t, e.Entry.Mod, old.Mod, "a key goes back")
	}
	if e.Kind == kv.Put {
		w.mirror[key] = e.Entry
	} else {
		delete(w.mirror, key)
	}
}

// changed compares with the history: in order, nothing missing, nothing twice.
func (w *witness) changed(ev protocol.KVEvents) {
	want := w.expected()
	for _, e := range ev.Events {
		require.NotEmpty(w.t, want, "more than happened")
		right := want[0].Kind == e.Kind && sameEntry(want[0].Entry, e.Entry) && w.rightPrev(want[0], e.Prev)
		if !right { // saying so takes long with long values
			require.Equal(w.t, want[0], e)
		}
		want = want[1:]
	}
	last := ev.Events[len(ev.Events)-1].Entry.Mod
	require.Equal(w.t, last, ev.Revision)
	if ev.More {
		require.NotEmpty(w.t, want, "nothing is left to go on with")
		require.Equal(w.t, last, want[0].Entry.Mod, "more of another revision")
		w.at = last - 1
	} else {
		if len(want) > 0 {
			require.NotEqual(w.t, last, want[0].Entry.Mod, "half a revision")
		}
		w.at = last
	}
	w.ahead = want
}

// rightPrev checks the entry before an event. It is left out only if it is too long.
func (w *witness) rightPrev(want kv.Event, got *kv.Entry) bool {
	switch {
	case !w.prev || want.Prev == nil:
		return got == nil
	case got == nil:
		return 6*(len(want.Entry.Value.Data)+len(want.Prev.Value.Data)) > protocol.MaxBody // quoted
	}
	return sameEntry(want.Prev, got)
}

func sameEntry(a, b *kv.Entry) bool {
	return a.NS == b.NS && a.Key == b.Key && a.Value.Equal(b.Value) && a.Create == b.Create && a.Mod == b.Mod &&
		a.Version == b.Version && a.Updated == b.Updated && a.Expires == b.Expires && a.Lease == b.Lease
}

// expected is all matching events that have not been told.
func (w *witness) expected() []kv.Event {
	changes := w.k.changes()
	for _, c := range changes[w.read:] {
		if c.Revision > w.at {
			w.ahead = append(w.ahead, w.filter.Select(c.Events)...)
		}
	}
	w.read = len(changes)
	return w.ahead
}

func (w *witness) coalesced(ev protocol.KVEvents) {
	for i, e := range ev.Events {
		require.GreaterOrEqual(w.t, e.Entry.Mod, w.at)
		if i > 0 {
			require.GreaterOrEqual(w.t, e.Entry.Mod, ev.Events[i-1].Entry.Mod, "out of order")
		}
		w.at = e.Entry.Mod
	}
}

// synced compares the state with what the history makes it at that revision. Of all
// namespaces, those that have gone since may be missing; their deletions follow.
func (w *witness) synced(rev kv.Revision) {
	want := w.stateAt(rev)
	given := map[string]bool{}
	for _, e := range w.state {
		given[e.Entry.NS] = true
	}
	for _, c := range w.k.changes() {
		for _, e := range c.Events {
			if c.Revision > rev && e.Kind != kv.Put && w.filter.NS == "" && !given[e.Entry.NS] {
				delete(want, mirrorKey(e.Entry))
			}
		}
	}
	require.Len(w.t, w.state, len(want), "a state of another size")
	for _, e := range w.state {
		require.Equal(w.t, kv.Put, e.Kind)
		require.Equal(w.t, want[mirrorKey(e.Entry)], e.Entry)
		w.mirror[mirrorKey(e.Entry)] = e.Entry
	}
	w.waiting, w.state, w.at, w.known = false, nil, rev, true
	w.expected()
	w.ahead = slices.DeleteFunc(w.ahead, func(e kv.Event) bool { return e.Entry.Mod <= rev })
}

func (w *witness) stateAt(rev kv.Revision) map[string]*kv.Entry {
	state := map[string]*kv.Entry{}
	for _, c := range w.k.changes() {
		if c.Revision > rev {
			break
		}
		for _, e := range w.filter.Select(c.Events) {
			if e.Kind == kv.Put {
				state[mirrorKey(e.Entry)] = e.Entry
			} else {
				delete(state, mirrorKey(e.Entry))
			}
		}
	}
	return state
}

// done checks that everything has been told.
func (w *witness) done() {
	w.t.Helper()
	require.False(w.t, w.waiting, "the state is not complete")
	if !w.coalesce {
		require.Empty(w.t, w.expected(), "events are missing")
	}
	if w.known {
		require.Equal(w.t, w.stateAt(1<<62), w.mirror)
	}
}

func filterBody(f kv.Filter) string {
	switch {
	case f.NS == "":
		return ""
	case f.Exact:
		return fmt.Sprintf(`"ns":%q,"key":%q,`, f.NS, f.Text)
	default:
		return fmt.Sprintf(`"ns":%q,"prefix":%q,`, f.NS, f.Text)
	}
}
