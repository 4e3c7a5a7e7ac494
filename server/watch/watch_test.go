package watch

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/kv"
	"confcenter/kvstore/memory"
	"confcenter/protocol"
	"confcenter/server/tcp/gate/gatetest"
	"confcenter/server/tcp/loop"
)

func TestAWatchTellsOfItsKeysOnly(t *testing.T) {
	k := newWatchKit(t, loop.Limits{}, memory.Config{}, nil)
	p := k.peer(gatetest.Unlimited)
	k.put("n", "a/before", "0")
	filters := []kv.Filter{{}, {NS: "n"}, {NS: "n", Text: "a/"}, {NS: "n", Text: "a/1"}, {NS: "n", Text: "a/1", Exact: true}, {NS: "m"}, {NS: "n", Text: strings.Repeat("x", 99)}}
	names := map[uint32]kv.Filter{}
	for _, f := range filters {
		id, rev := p.watch("{" + filterBody(f) + `"prev":0}`)
		require.Equal(t, k.state.Revision(), rev)
		names[id] = f
	}
	require.Len(t, names, len(filters))
	keys := []string{"a", "a/", "a/1", "a/12", "b"}
	for _, key := range keys {
		k.put("n", key, "v")
		k.put("m", key, "v")
	}
	k.turn()
	got := map[uint32]int{}
	for _, ev := range p.events() {
		for _, e := range ev.Events {
			require.True(t, names[ev.Watch].Match(e.Entry.NS, e.Entry.Key), "%v %v", names[ev.Watch], e.Entry)
			got[ev.Watch]++
		}
	}
	for id, f := range names {
		want := 0
		for _, key := range keys {
			for _, ns := range []string{"n", "m"} {
				if f.Match(ns, key) {
					want++
				}
			}
		}
		require.Equal(t, want, got[id], "%+v", f)
	}
	p.s.Abort("the test ends it")
	require.Zero(t, k.hub().topics.Len())
	require.Zero(t, k.hub().watched.Load())
	require.Zero(t, k.Group.Memory.Held())
	require.Zero(t, k.Group.Readings().Get("server_watches"))
}

// KVWATCH of an empty store is answered with revision 0. Who lost the connection
// then goes on from there and misses nothing.
func TestAPanicWhileOneWatchIsToldEndsItsConnectionOnly(t *testing.T) {
	k := newWatchKit(t, loop.Limits{}, memory.Config{}, nil)
	bad, good := k.peer(gatetest.Unlimited), k.peer(gatetest.Unlimited)
	bad.send(protocol.KVWatch, `{"ns":"a"}`)
	good.send(protocol.KVWatch, `{"ns":"a"}`)
	k.settle()
	bad.w.Panic = true
	good.w.Got.Reset()
	k.put("a", "k", "v")
	k.settle()
	require.True(t, bad.s.Gone())
	require.Contains(t, good.w.Got.String(), `"k"`)
	require.EqualValues(t, 1, k.Group.Readings().Get("server_panics_total"))
}

func TestAWatchGoesOnFromAnEmptyStore(t *testing.T) {
	k := newWatchKit(t, loop.Limits{}, memory.Config{}, nil)
	p := k.peer(gatetest.Unlimited)
	_, rev := p.watch(`{"ns":"n"}`)
	require.Zero(t, rev)
	p.s.Abort("the test ends it")
	k.put("n", "missed", "v")
	p = k.peer(gatetest.Unlimited)
	p.watch(`{"ns":"n","from":0}`)
	var told []string
	k.until(func() bool {
		for _, ev := range p.events() {
			for _, e := range ev.Events {
				told = append(told, e.Entry.Key)
			}
		}
		return len(told) > 0
	}, "what was missed is told")
	require.Equal(t, []string{"missed"}, told)
}

func TestAWriterThatWatchesIsToldFirstAndAnsweredThen(t *testing.T) {
	k := newWatchKit(t, loop.Limits{}, memory.Config{}, nil)
	p := k.peer(gatetest.Unlimited)
	p.watch(`{"ns":"n"}`)
	const writes = 20
	for i := range writes {
		p.send(protocol.KVPut, fmt.Sprintf(`{"ns":"n","key":"k","value":"%d"}`, i))
	}
	var frames []watchFrame
	k.until(func() bool { frames = append(frames, p.take()...); return repliesIn(frames) == writes }, "every write is answered")
	told := kv.Revision(0)
	for _, f := range frames {
		if f.Command == protocol.KVEvent {
			told = f.events.Revision
			continue
		}
		var r protocol.Request
		require.NoError(t, r.Parse(f.body))
		m, _ := r.Member("rev")
		rev, ok := m.Int64()
		require.True(t, ok, "%s", f.body)
		require.LessOrEqual(t, kv.Revision(rev), told, "answered before the event")
	}
}

func repliesIn(frames []watchFrame) (n int) {
	for _, f := range frames {
		if f.Command.IsReply() {
			n++
		}
	}
	return n
}

func TestNothingOfAWatchFollowsTheReplyThatEndsIt(t *testing.T) {
	k := newWatchKit(t, loop.Limits{}, memory.Config{}, nil)
	for i := range 2000 {
		k.put("n", fmt.Sprintf("key%d", i), strings.Repeat("v", 100))
	}
	for _, body := range []string{`{"ns":"n"}`, `{"ns":"n","state":1}`, `{"ns":"n","from":1}`} {
		p := k.peer(gatetest.Unlimited)
		id, _ := p.watch(body)
		k.put("n", "more", "v") // its mail is still to be delivered, and a worker may be at work
		p.take()
		p.send(protocol.KVUnwatch, fmt.Sprintf(`{"watch":%d}`, id))
		frames := p.take()
		require.Equal(t, protocol.KVUnwatch.Reply(), frames[len(frames)-1].Command)
		k.settle()
		require.Empty(t, p.take(), body)
		p.refused(protocol.KVUnwatch, fmt.Sprintf(`{"watch":%d}`, id), codes.NotFound)
		p.s.Abort("the test ends it")
	}
	require.Zero(t, k.Group.Memory.Held())
}

func TestAWatchThatEndsInTheMiddleOfAFanOutIsToldNoMore(t *testing.T) {
	k := newWatchKit(t, loop.Limits{}, memory.Config{}, nil)
	p := k.peer(gatetest.Unlimited)
	var ids []uint32
	for range 400 {
		id, _ := p.watch(`{"ns":"n"}`)
		ids = append(ids, id)
	}
	k.put("n", "k", "v")
	k.Local.Loop.Wake()
	told := p.events()
	require.NotEmpty(t, told)
	require.Less(t, len(told), len(ids), "a turn ends at its budget")
	for _, id := range ids {
		p.send(protocol.KVUnwatch, fmt.Sprintf(`{"watch":%d}`, id))
	}
	p.take()
	k.turn()
	require.Empty(t, p.take())
}

func TestAThousandWatchersAreToldInSlices(t *testing.T) {
	k := newWatchKit(t, loop.Limits{}, memory.Config{}, nil)
	peers := make([]*watchPeer, 1000)
	for i := range peers {
		peers[i] = k.peer(gatetest.Unlimited)
		peers[i].watch(`{"ns":"n","key":"k"}`)
	}
	k.put("n", "k", "v")
	turns := 0
	for ; k.Local.Loop.Busy(); turns++ {
		before := k.Group.Readings().Get("server_watch_frames_total")
		k.Local.Loop.Wake()
		require.LessOrEqual(t, k.Group.Readings().Get("server_watch_frames_total")-before, int64(loop.WakeBudget))
	}
	require.Greater(t, turns, 5)
	for _, p := range peers {
		require.Len(t, p.events(), 1)
	}
}

func TestWhatAWatchMayNotAskFor(t *testing.T) {
	k := newWatchKit(t, loop.Limits{Watches: 3}, memory.Config{}, nil)
	p := k.peer(gatetest.Unlimited)
	rev := k.put("n", "k", "v")
	p.refused(protocol.KVWatch, fmt.Sprintf(`{"ns":"n","from":%d}`, rev+1), codes.FutureRevision)
	p.refused(protocol.KVWatch, `{"ns":"n","from":1,"state":1}`, codes.BadRequest)
	p.refused(protocol.KVWatch, `{"ns":"","key":"k"}`, codes.BadKey)
	require.Zero(t, k.hub().watched.Load())
	for range 3 {
		p.watch(`{"ns":"n"}`)
	}
	p.refused(protocol.KVWatch, `{"ns":"n"}`, codes.Limit)
	other := k.peer(gatetest.Unlimited)
	k.Group.Memory.Add(int64(int(k.Group.Limits.Memory - k.Group.Memory.Held())))
	other.refused(protocol.KVWatch, `{"ns":"n"}`, codes.Limit)
	require.Equal(t, int64(2), k.Group.Readings().Get("server_limits_met_total", "watches"))
}

func TestAPeerThatDoesNotReadHoldsLittleAndGetsEverythingLater(t *testing.T) {
	k := newWatchKit(t, loop.Limits{}, memory.Config{}, nil)
	slow, fast := k.peer(200), k.peer(gatetest.Unlimited)
	_, rev := slow.watch(`{"ns":"n"}`)
	fast.watch(`{"ns":"n"}`)
	w, f := newWitness(k, kv.Filter{NS: "n"}, rev), newWitness(k, kv.Filter{NS: "n"}, rev)
	for i := range 5000 {
		k.put("n", fmt.Sprintf("k%d", i%7), strings.Repeat("v", 200))
		if i%50 == 0 {
			k.turn()
			require.Less(t, slow.s.Out.Owing(), k.Group.Limits.Pending+serveBytes)
			for _, ev := range fast.events() {
				f.told(ev)
			}
			require.Equal(t, k.state.Revision(), f.at, "the others are told at once")
		}
	}
	k.settle()
	require.Zero(t, k.hub().backlog.Weight())
	require.Equal(t, int64(1), k.Group.Readings().Get("server_watches_behind_total"))
	k.until(func() bool {
		slow.w.Read(10_000)
		require.Less(t, slow.s.Out.Owing(), k.Group.Limits.Pending+2*serveBytes)
		for _, ev := range slow.events() {
			w.told(ev)
		}
		return w.at == k.state.Revision()
	}, "it has everything")
	w.done()
	require.Zero(t, w.resyncs)
	slow.w.Room = gatetest.Unlimited
	k.settle()
	k.put("n", "k", "live again")
	k.turn()
	require.Len(t, slow.events(), 1)
	require.Equal(t, int64(1), k.Group.Readings().Get("server_watches_behind_total"))
}

func TestALoopThatIsToldTooMuchHasItReadBack(t *testing.T) {
	k := newWatchKit(t, loop.Limits{Backlog: 10_000}, memory.Config{}, nil)
	p := k.peer(gatetest.Unlimited)
	_, rev := p.watch(`{"ns":"n"}`)
	w := newWitness(k, kv.Filter{NS: "n"}, rev)
	for i := range 1000 {
		k.put("n", fmt.Sprintf("k%d", i), strings.Repeat("v", 500))
		require.LessOrEqual(t, k.hub().backlog.Weight(), int64(11_000))
	}
	require.Positive(t, k.Group.Readings().Get("server_limits_met_total", "backlog"))
	k.until(func() bool {
		for _, ev := range p.events() {
			w.told(ev)
		}
		return w.at == k.state.Revision()
	}, "it has everything")
	w.done()
	require.Zero(t, w.resyncs)
	require.Zero(t, k.hub().backlog.Weight())
}
