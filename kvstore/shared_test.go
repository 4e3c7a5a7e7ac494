package kvstore

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"confcenter/access"
	"confcenter/access/audit"
	"confcenter/codes"
	"confcenter/internal/clock/clocktest"
	"confcenter/kv"
)

var (
	asker    = &access.Actor{Name: "n", Origin: access.OverTCP, Identity: &access.Identity{Name: "token:game"}}
	stranger = &access.Actor{Name: "m", Origin: access.OverTCP, Identity: &access.Identity{Name: "token:other"}}
)

// drawGroup is some transactions, of which some have tokens and some are asked for by someone.
func (m *model) drawGroup(t *rapid.T) (txns []*kv.Txn) {
	for range rapid.IntRange(0, 5).Draw(t, "transactions") {
		txn := &kv.Txn{}
		for range rapid.IntRange(1, 3).Draw(t, "operations") {
			txn.Then = append(txn.Then, m.op(t))
		}
		switch rapid.IntRange(0, 4).Draw(t, "kind") {
		case 0:
			txn.If, txn.Else = []kv.Compare{kv.Absent("a", "k")}, txn.Then[:1]
		case 1, 2:
			txn.TokenNS, txn.Token = "a", fmt.Sprint("token", rapid.IntRange(0, 7).Draw(t, "token"))
		}
		if rapid.Bool().Draw(t, "asked") {
			txn.Actor = asker
		}
		if txn.Check() == nil { // else two leases
			txns = append(txns, txn)
		}
	}
	return txns
}

// gang is stores that share a list, with the model of each.
type gang struct {
	clock *clocktest.Fake
	list  *sharedList
	all   []*model
	busy  []bool
}

func newGang(t *rapid.T, n int, tokenAge time.Duration) *gang {
	g := &gang{clock: clocktest.NewFake(noon), list: &sharedList{}, busy: make([]bool, n)}
	for i := range n {
		cfg := Config{
			Clock: g.clock, MaxKeys: 12, MaxTokens: 4, TokenAge: tokenAge, Name: fmt.Sprint("store", i), Trail: audit.New(1 << 10),
		}
		s, log := member(t, g.list, cfg)
		m := &model{store: s, clock: g.clock, state: map[string]*kv.Entry{}}
		s.index.slice = 2
		m.heed(t)
		g.all = append(g.all, m)
		log.before = func() {
			if rapid.IntRange(0, 2).Draw(t, "time") == 0 {
				g.wait(t)
			}
			if other := rapid.IntRange(0, 2*n).Draw(t, "other"); other < n && !g.busy[other] {
				g.turn(t, other)
			}
		}
	}
	return g
}

func (g *gang) wait(t *rapid.T) {
	g.clock.Advance(time.Duration(rapid.IntRange(0, 200).Draw(t, "ms")) * time.Millisecond)
}

func (g *gang) turn(t *rapid.T, i int) {
	g.busy[i] = true
	defer func() { g.busy[i] = false }()
	m := g.all[i]
	m.store.turn(t, m.drawGroup(t)...)
}

// Whatever stores commit that share a log, however they get in each other's way, all become the same,
// which is what the log says; each tells its followers everything once and in order.
func TestStoresOfOneLogAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := newGang(t, rapid.IntRange(2, 3).Draw(t, "stores"), time.Hour) // how old a token is differs
		pick := func(t *rapid.T) *model { return g.all[rapid.IntRange(0, len(g.all)-1).Draw(t, "store")] }
		t.Repeat(map[string]func(*rapid.T){
			"turn":  func(t *rapid.T) { g.turn(t, rapid.IntRange(0, len(g.all)-1).Draw(t, "store")) },
			"turn2": func(t *rapid.T) { g.turn(t, rapid.IntRange(0, len(g.all)-1).Draw(t, "store")) },
			"view":  func(t *rapid.T) { pick(t).openView(t) },
			"close": func(t *rapid.T) { pick(t).closeView(t) },
			"wait":  g.wait,
			"": func(t *rapid.T) {
				for _, m := range g.all {
					m.check(t)
				}
			},
		})
		g.settle(t)
		g.compare(t)
	})
}

// settle has each store apply everything, and end what it keeps for Views.
func (g *gang) settle(t *rapid.T) {
	for _, m := range g.all {
		m.store.log.(*sharedLog).before = nil
		for len(m.views) > 0 {
			m.closeView(t)
		}
		m.store.turn(t)
	}
	for _, m := range g.all {
		require.True(t, m.store.committer.catchUp(nil))
		m.store.tokens.forget(g.clock.Steady().UnixMilli() - m.store.cfg.TokenAge.Milliseconds())
		m.store.tokens.settled()
		m.store.committer.tend()
		m.check(t)
		m.checkNothingKept(t)
	}
}

func (g *gang) compare(t *rapid.T) {
	first := g.all[0].store
	state := map[string]string{}
	lines := audit.Checker{Whole: true, Kept: []audit.Head{first.cfg.Trail.Head()}}
	var newest kv.Revision
	for _, group := range g.list.groups {
		for _, c := range group {
			require.Equal(t, newest+1, c.Revision)
			newest = c.Revision
			for _, event := range c.Events {
				name := event.Entry.NS + "/" + event.Entry.Key
				if delete(state, name); event.Kind == kv.Put {
					state[name] = entryText(event.Entry)
				}
			}
			for _, event := range c.Archive {
				for _, line := range audit.Lines(event.Entry.Value.Data) {
					require.NoError(t, lines.Add(line))
				}
			}
		}
	}
	require.NoError(t, lines.End(), "one chain")
	for _, m := range g.all {
		have := map[string]string{}
		for name, e := range m.state {
			have[name] = entryText(e)
		}
		require.Equal(t, state, have)
		require.Equal(t, newest, m.store.Revision())
		require.Equal(t, fingerprint(first, true), fingerprint(m.store, true))
		require.Equal(t, first.cfg.Trail.Head(), m.store.cfg.Trail.Head())
		mine, theirs := first.Stats(), m.store.Stats()
		require.Equal(t, []uint64{mine.Commits, mine.Groups, mine.Expired}, []uint64{theirs.Commits, theirs.Groups, theirs.Expired})
	}
}

// A group that was evaluated and is taken back leaves nothing behind, whatever was before.
func TestAnAbandonedGroupLeavesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := newGang(t, 1, 300*time.Millisecond)
		m := g.all[0]
		s := m.store
		s.log.(*sharedLog).before = nil
		abandoned := 0
		t.Repeat(map[string]func(*rapid.T){
			"turn": func(t *rapid.T) { g.turn(t, 0) },
			"abandon": func(t *rapid.T) {
				before, head := fingerprint(s, false), s.cfg.Trail.Head()
				txns := m.drawGroup(t)
				list := make([]queued, len(txns))
				for i, txn := range txns {
					list[i] = queued{txn: txn, done: func(*kv.Result, error) {}}
					require.NoError(t, s.prepare(&list[i]))
				}
				s.committer.evaluate(list)
				if len(s.committer.group.commits) == 0 {
					s.committer.publish(list, s.committer.group.answers)
					return
				}
				s.committer.group.abandon()
				require.Equal(t, before, fingerprint(s, false))
				require.Equal(t, head, s.cfg.Trail.Head())
				abandoned++
			},
			"view":  m.openView,
			"close": m.closeView,
			"wait":  g.wait,
			"":      m.check,
		})
		g.settle(t)
		g.compare(t)
		if abandoned > 0 {
			t.Log("abandoned: ", abandoned)
		}
	})
}

// pair is two stores that share a list.
func pair(t *testing.T, cfg Config) (clock *clocktest.Fake, l *sharedList, a, b *Store) {
	clock, l = clocktest.NewFake(noon), &sharedList{}
	cfg.Clock, cfg.Name = clock, "a"
	a, _ = member(t, l, cfg)
	cfg.Name = "b"
	b, _ = member(t, l, cfg)
	return clock, l, a, b
}

// first has other do something just before the store appends for the next time.
func first(s *Store, other func()) {
	log := s.log.(*sharedLog)
	log.before = func() {
		log.before = nil
		other()
	}
}

func TestIncrementsOfTwoStoresAllCount(t *testing.T) {
	_, _, a, b := pair(t, Config{})
	one := &kv.Txn{Then: []kv.Op{incr("k", 1)}}
	for n := range 5 {
		first(a, func() { require.Equal(t, fmt.Sprint(2*n+1), read(b.turn(t, one)[0])) })
		require.Equal(t, fmt.Sprint(2*n+2), read(a.turn(t, one)[0]))
	}
	require.Equal(t, "9", b.text("a", "k"))
	b.turn(t)
	require.Equal(t, "10", b.text("a", "k"))
}

// read is the value that the first operation has written.
func read(o outcome) string { return string(o.result.Ops[0].Entry.Value.Data) }

func TestATokenUsedAtTwoStoresHappensOnce(t *testing.T) {
	_, l, a, b := pair(t, Config{})
	ask := func() *kv.Txn { return withToken("t", incr("k", 1)) }
	var there outcome
	first(a, func() { there = b.turn(t, ask())[0] })
	here := a.turn(t, ask(), ask())
	for _, o := range here {
		require.NoError(t, o.err)
		require.True(t, o.result.Replayed)
		require.Equal(t, there.result.Revision, o.result.Revision)
		require.Equal(t, "1", read(o))
	}
	require.Len(t, l.groups, 1)
	require.ErrorIs(t, a.turn(t, withToken("t", incr("k", 2)))[0].err, codes.TokenReused)
}

func TestALeaseIsKnownEverywhereAndEndsOnce(t *testing.T) {
	clock, l, a, b := pair(t, Config{})
	id := a.turn(t, &kv.Txn{Then: []kv.Op{grant(leaseTime)}, Actor: asker})[0].result.Ops[0].Lease.ID
	b.turn(t)
	known, err := b.Lease(id)
	require.NoError(t, err)
	require.Equal(t, kv.Lease{ID: id, TTL: leaseTime, Left: leaseTime, Owner: asker.Identity}, known)
	require.Equal(t, 1, b.leases.of(asker.Identity.Name))
	require.ErrorIs(t, b.turn(t, &kv.Txn{Then: []kv.Op{leased("k", id)}, Actor: stranger})[0].err, codes.LeaseGone, "it is another's")
	require.NoError(t, b.turn(t, &kv.Txn{Then: []kv.Op{leased("k", id)}, Actor: asker})[0].err)
	_, err = b.KeepAlive(t.Context(), id)
	require.ErrorIs(t, err, codes.NotImplemented)

	clock.Advance(leaseTime - time.Second)
	a.turn(t)
	known, err = a.KeepAlive(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, 1, known.Keys)
	clock.Advance(leaseTime - time.Second)
	b.turn(t)
	require.Equal(t, "leased", b.text("a", "k"), "it was kept alive elsewhere")
	_, err = b.Lease(id)
	require.NoError(t, err)

	clock.Advance(time.Second)
	b.turn(t)
	require.Len(t, l.groups, 2)
	first(a, func() { b.turn(t, &kv.Txn{Then: []kv.Op{put("other", "x")}}) })
	a.turn(t)
	b.turn(t)
	require.Len(t, l.groups, 4)
	for _, s := range []*Store{a, b} {
		require.Equal(t, "-", s.text("a", "k"))
		_, err = s.Lease(id)
		require.ErrorIs(t, err, codes.LeaseGone)
		require.EqualValues(t, 1, s.Stats().Expired)
		require.Zero(t, s.Stats().Leases)
		require.Zero(t, s.leases.of(asker.Identity.Name))
	}
	require.Equal(t, fingerprint(a, true), fingerprint(b, true))
}

// Its store times a lease again when it is opened again, and no other does.
func TestALeaseGoesHome(t *testing.T) {
	clock, l, a, b := pair(t, Config{})
	a.turn(t, &kv.Txn{Then: []kv.Op{grant(leaseTime)}})
	clock.Advance(2 * leaseTime)
	b.turn(t)
	require.Len(t, l.groups, 1)
	a, _ = member(t, l, a.cfg)
	b, _ = member(t, l, b.cfg)
	clock.Advance(leaseTime)
	b.turn(t)
	require.Len(t, l.groups, 1)
	a.turn(t)
	b.turn(t)
	require.Len(t, l.groups, 2)
	require.Zero(t, b.Stats().Leases)
}

// A lease that a lost group revokes, lets end or grants, or whose key it deletes, is as before.
func TestALeaseOfAnAbandonedGroup(t *testing.T) {
	clock, _, a, b := pair(t, Config{})
	leases := a.turn(t, &kv.Txn{Then: []kv.Op{grant(leaseTime)}}, &kv.Txn{Then: []kv.Op{grant(time.Hour)}})
	brief, long := leases[0].result.Ops[0].Lease.ID, leases[1].result.Ops[0].Lease.ID
	a.turn(t, &kv.Txn{Then: []kv.Op{leased("brief", brief), leased("long", long)}})
	clock.Advance(leaseTime)
	first(a, func() { b.turn(t, &kv.Txn{Then: []kv.Op{put("other", "x")}}, &kv.Txn{Then: []kv.Op{revoke(long)}}) })
	answers := a.turn(t, &kv.Txn{Then: []kv.Op{revoke(long)}}, &kv.Txn{Then: []kv.Op{grant(time.Hour)}})
	require.ErrorIs(t, answers[0].err, codes.LeaseGone, "another revoked it")
	granted := answers[1].result
	require.EqualValues(t, granted.Revision, granted.Ops[0].Lease.ID)
	require.EqualValues(t, 1, a.Stats().Leases)
	require.Equal(t, "- -", a.text("a", "brief")+" "+a.text("a", "long"))
	b.turn(t)
	require.Equal(t, fingerprint(a, true), fingerprint(b, true))
}

// Callers who were told in time that the log hangs are not evaluated again after it has lost the group; those who are patient are.
func TestWhoWasAnsweredIsNotEvaluatedAgain(t *testing.T) {
	clock, l := clocktest.NewFake(noon), &sharedList{}
	other, _ := member(t, l, Config{Clock: clock, Name: "other"})
	log := l.log()
	log.gate, log.entered = make(chan struct{}), make(chan struct{})
	s, err := Open(t.Context(), Config{Clock: clock, Name: "s"}, log)
	require.NoError(t, err)
	b := &bench{TB: t, Store: s, clock: clock}
	defer func() { require.NoError(t, s.Close()) }()
	slow := b.begin(withToken("slow", incr("k", 1)))
	<-log.entered
	log.gate <- struct{}{}
	require.NoError(t, (<-slow).err)

	hasty := b.begin(withToken("hasty", incr("k", 10)))
	<-log.entered
	require.NoError(t, other.turn(t, &kv.Txn{Then: []kv.Op{incr("k", 100)}})[0].err)
	require.ErrorIs(t, b.patience(hasty).err, codes.Timeout)
	log.gate <- struct{}{}
	require.Eventually(t, func() bool { return s.Writable() == nil && b.Store.text("a", "k") == "101" }, 10*time.Second, time.Millisecond)

	patient := b.begin(&kv.Txn{Then: []kv.Op{incr("k", 1000)}, System: true, Patient: true})
	<-log.entered
	require.NoError(t, other.turn(t, &kv.Txn{Then: []kv.Op{incr("k", 10000)}})[0].err)
	clock.Advance(s.cfg.WriteTimeout)
	require.Eventually(t, func() bool { return s.Writable() != nil }, 10*time.Second, time.Millisecond)
	log.gate <- struct{}{}
	<-log.entered
	log.gate <- struct{}{}
	require.NoError(t, (<-patient).err)
	require.Equal(t, "11101", b.Store.text("a", "k"))

	again := b.begin(withToken("hasty", incr("k", 10)))
	<-log.entered
	log.gate <- struct{}{}
	require.False(t, (<-again).result.Replayed, "it had no effect")
	require.Equal(t, "11111", b.Store.text("a", "k"))
}

// Callers of a group that is overtaken again and again are told in time, too.
func TestAGroupIsNotOvertakenForEver(t *testing.T) {
	clock, l := clocktest.NewFake(noon), &sharedList{}
	other, _ := member(t, l, Config{Clock: clock, Name: "other"})
	log := l.log()
	log.gate, log.entered = make(chan struct{}), make(chan struct{})
	s, err := Open(t.Context(), Config{Clock: clock, Name: "s"}, log)
	require.NoError(t, err)
	b := &bench{TB: t, Store: s, clock: clock}
	defer func() { require.NoError(t, s.Close()) }()
	asked := b.begin(&kv.Txn{Then: []kv.Op{incr("k", 1)}})
	for range 2 {
		<-log.entered
		other.turn(t, &kv.Txn{Then: []kv.Op{incr("k", 100)}})
		clock.Advance(s.cfg.WriteTimeout / 2)
		if len(l.groups) == 1 {
			log.gate <- struct{}{}
		}
	}
	require.ErrorIs(t, (<-asked).err, codes.Timeout)
	log.gate <- struct{}{}
	require.Eventually(t, func() bool { return b.Store.text("a", "k") == "200" }, 10*time.Second, time.Millisecond)
}

// An idle store hears what others append.
func TestAnIdleStoreIsWoken(t *testing.T) {
	clock, l := clocktest.NewFake(noon), &sharedList{}
	other, _ := member(t, l, Config{Clock: clock, Name: "other"})
	s, err := Open(t.Context(), Config{Clock: clock, Name: "s"}, l.log())
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	told := make(chan *kv.Batch, 1)
	defer s.Follow(func(batch *kv.Batch) { told <- batch })()
	for n := range 3 {
		other.turn(t, &kv.Txn{Then: []kv.Op{incr("k", 1)}}, &kv.Txn{Then: []kv.Op{put("x", fmt.Sprint(n))}})
		batch := <-told
		require.Len(t, batch.Changes, 2, "a group is told at once")
		require.Equal(t, fmt.Sprint(n+1), string(batch.Changes[0].Events[0].Entry.Value.Data))
		require.Equal(t, fmt.Sprint(n), s.text("a", "x"))
	}
}

// A store whose log cannot bring what came takes no more writes, and says of those under way that nothing was written.
func TestALogThatCannotBringWhatCame(t *testing.T) {
	_, l, a, b := pair(t, Config{})
	gone := errors.New("what came is no longer there")
	first(a, func() {
		b.turn(t, &kv.Txn{Then: []kv.Op{put("k", "b")}})
		a.log.(*sharedLog).cut = gone
	})
	var said error
	list := []queued{{txn: &kv.Txn{Then: []kv.Op{put("k", "a")}}, done: func(_ *kv.Result, err error) { said = err }}}
	require.False(t, a.committer.commit(list))
	require.ErrorIs(t, said, gone)
	require.ErrorIs(t, said, codes.Storage)
	require.ErrorIs(t, a.Writable(), gone)
	require.Len(t, l.groups, 1)
	require.Equal(t, "-", a.text("a", "k"))
}

// What a store has forgotten for itself another may change or delete.
func TestOthersChangeWhatIsForgottenHere(t *testing.T) {
	_, _, a, b := pair(t, Config{})
	ns := kv.LandingNamespace
	op := func(kind kv.OpKind, key string) kv.Op {
		return kv.Op{Kind: kind, NS: ns, Key: key, Value: kv.StringValue("x")}
	}
	system := func(ops ...kv.Op) *kv.Txn { return &kv.Txn{Then: ops, System: true} }
	rev := b.turn(t, system(op(kv.OpPut, "k"), op(kv.OpPut, "l")))[0].result.Revision
	a.turn(t)
	held := []kv.Held{{NS: ns, Key: "k", Mod: rev}, {NS: ns, Key: "l", Mod: rev}}
	require.Len(t, a.index.forget(held, a.committer.group.counters), 2)
	a.committer.group.counters.settled()
	b.turn(t, system(op(kv.OpDelete, "k"), op(kv.OpPut, "l")))
	var told []kv.Change
	defer a.Follow(func(batch *kv.Batch) { told = append(told, batch.Changes...) })()
	a.turn(t)
	require.Len(t, told[0].Events, 2)
	require.True(t, slices.ContainsFunc(told[0].Events, func(e kv.Event) bool { return e.Kind == kv.Delete && e.Entry.Key == "k" }))
	require.Equal(t, "- x", a.text(ns, "k")+" "+a.text(ns, "l"))
	e, _ := a.Get([]byte(ns), []byte("l"))
	require.EqualValues(t, 2, e.Version)
}
