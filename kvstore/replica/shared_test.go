package replica

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"confcenter/codes"
	"confcenter/internal/clock"
	"confcenter/kv"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// cluster is what several replicas write to: like etcd it gives revisions itself,
// checks proofs, and knows writers that are no replicas.
type cluster struct {
	mu       sync.Mutex
	rev      kv.Revision
	log      []Commit
	mods     map[[2]string]kv.Revision
	leases   map[kv.LeaseID]bool
	given    map[kv.LeaseID]kv.Revision // when a lease got a key
	watchers []chan struct{}
	refuse   error // of the next transaction, which takes effect nevertheless if lost
	lost     bool
	floor    kv.Revision // what came up to it is brought no more
}

// compact has every replica that has not seen everything load anew.
func (c *cluster) compact() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.floor = c.rev
}

func newCluster() *cluster {
	return &cluster{mods: map[[2]string]kv.Revision{}, leases: map[kv.LeaseID]bool{}, given: map[kv.LeaseID]kv.Revision{}}
}

// skip uses revisions up for what replicas do not see.
func (c *cluster) skip(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rev += kv.Revision(n)
	c.wakeLocked()
}

func (c *cluster) wakeLocked() {
	for _, w := range c.watchers {
		select {
		case w <- struct{}{}:
		default:
		}
	}
}

func (c *cluster) holdsLocked(given *Commit, p *Proof) bool {
	for _, made := range c.log {
		if a, b := given.Token, made.Token; made.Revision > p.After && a != nil && b != nil && a.NS == b.NS && a.Name == b.Name {
			return false
		}
	}
	for _, r := range p.Reads {
		if c.mods[[2]string{r.NS, r.Key}] != r.Mod {
			return false
		}
	}
	for _, r := range p.Ranges {
		for name, mod := range c.mods {
			if name[0] == r.NS && len(name[1]) >= len(r.Prefix) && name[1][:len(r.Prefix)] == r.Prefix && mod > p.After {
				return false
			}
		}
	}
	for _, id := range p.Ending {
		if c.given[id] > p.After {
			return false
		}
	}
	return !slices.ContainsFunc(p.Leases, func(id kv.LeaseID) bool { return !c.leases[id] })
}

func (c *cluster) takeLocked(given *Commit) kv.Revision {
	guess := given.Revision
	c.rev++
	own := func(rev kv.Revision) kv.Revision {
		if rev == guess {
			return c.rev
		}
		return rev
	}
	made := Commit{Change: kv.Change{Revision: c.rev, Time: given.Time}}
	for _, event := range given.Events {
		e := *event.Entry
		e.Create, e.Mod = own(e.Create), c.rev
		made.Events = append(made.Events, kv.Event{Kind: event.Kind, Entry: &e})
		c.mods[[2]string{e.NS, e.Key}] = c.rev
		c.given[e.Lease] = c.rev
		if e.Deleted() {
			delete(c.mods, [2]string{e.NS, e.Key})
		}
	}
	for _, l := range given.Leases {
		l.ID = kv.LeaseID(own(kv.Revision(l.ID)))
		c.leases[l.ID] = !l.Ended
		made.Leases = append(made.Leases, l)
	}
	if given.Token != nil {
		token := *given.Token
		token.Revision = c.rev
		made.Token = &token
	}
	c.log = append(c.log, made)
	c.wakeLocked()
	return c.rev
}

// sharedLog is one replica's side of a cluster.
type sharedLog struct {
	fakeLog
	cluster *cluster
	arrived chan struct{}
	before  func() // each transaction: others come first
}

func (l *sharedLog) Shared() bool { return true }

func (l *sharedLog) Arrived() <-chan struct{} { return l.arrived }

func (l *sharedLog) Load(_ context.Context, load Loader) (kv.Revision, error) {
	l.cluster.mu.Lock()
	defer l.cluster.mu.Unlock()
	if l.arrived == nil {
		l.arrived = make(chan struct{}, 1)
		l.cluster.watchers = append(l.cluster.watchers, l.arrived)
	}
	for _, c := range l.since(0) {
		load.Commit(&c)
	}
	return l.cluster.rev, nil
}

// since is copies, because each replica owns what it gets. Call it with mu held.
func (l *sharedLog) since(after kv.Revision) (list []Commit) {
	for _, c := range l.cluster.log {
		if c.Revision <= after {
			continue
		}
		c.Events = slices.Clone(c.Events)
		for i := range c.Events {
			e := *c.Events[i].Entry
			c.Events[i].Entry = &e
		}
		list = append(list, c)
	}
	return list
}

func (l *sharedLog) Tail(after kv.Revision) ([]Commit, kv.Revision, error) {
	l.cluster.mu.Lock()
	defer l.cluster.mu.Unlock()
	if after < l.cluster.floor {
		return nil, 0, ErrReset
	}
	return l.since(after), l.cluster.rev, nil
}

func (l *sharedLog) Barrier(context.Context) (kv.Revision, error) {
	l.cluster.mu.Lock()
	defer l.cluster.mu.Unlock()
	return l.cluster.rev, nil
}

func (l *sharedLog) Propose(_ context.Context, group []Commit, proofs []Proof) (int, error) {
	for i := range group {
		if l.before != nil {
			l.before()
		}
		if err := l.propose(&group[i], &proofs[i]); err != nil {
			return i, err
		}
	}
	return len(group), nil
}

func (l *sharedLog) propose(c *Commit, proof *Proof) error {
	l.cluster.mu.Lock()
	defer l.cluster.mu.Unlock()
	if err := l.cluster.refuse; err != nil {
		l.cluster.refuse = nil
		if l.cluster.lost {
			l.cluster.takeLocked(c)
		}
		return err
	}
	if !l.cluster.holdsLocked(c, proof) {
		return ErrConflict
	}
	c.Revision = l.cluster.takeLocked(c)
	return nil
}

// member is one replica of a cluster. Its committer does not run by itself.
func member(t require.TestingT, c *cluster, now clock.Clock) *Store {
	s, err := load(context.Background(), Config{Clock: now}.withDefaults(), &sharedLog{cluster: c})
	require.NoError(t, err)
	return s
}

func (s *Store) turns(t require.TestingT, txns ...*kv.Txn) []outcome {
	answers := make([]outcome, 0, len(txns))
	list := make([]queued, len(txns))
	for i, txn := range txns {
		list[i] = queued{txn: txn, digest: digestOf(txn), done: func(r *kv.Result, err error) { answers = append(answers, outcome{r, err}) }}
	}
	require.True(t, s.committer.commit(list))
	s.committer.tend()
	require.Len(t, answers, len(txns), "each is answered once")
	return answers
}

// Whatever replicas commit, however they get in each other's way: all agree, and
// what was answered is what happened.
func TestReplicasOfOneLogAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := newGang(t)
		for range rapid.IntRange(1, 12).Draw(t, "turns") {
			g.clock.Advance(time.Duration(rapid.SampledFrom([]int{0, 0, 1, 200}).Draw(t, "ms")) * time.Millisecond)
			g.turn(t, rapid.IntRange(0, len(g.stores)-1).Draw(t, "store"))
		}
		g.check(t)
	})
}

// gang is some replicas of one cluster.
type gang struct {
	clock   *clock.Fake
	cluster *cluster
	stores  []*Store
	fed     [][]kv.Batch
	busy    []bool
	counts  map[string]kv.Revision // the values that the counter was said to have got
	tokens  int
}

func newGang(t *rapid.T) *gang {
	g := &gang{clock: clock.NewFake(noon), cluster: newCluster(), fed: make([][]kv.Batch, 3), busy: make([]bool, 3), counts: map[string]kv.Revision{}}
	for i := range g.fed {
		s := member(t, g.cluster, g.clock)
		s.Follow(func(b *kv.Batch) { g.fed[i] = append(g.fed[i], *b) })
		g.stores = append(g.stores, s)
		s.log.(*sharedLog).before = func() {
			g.cluster.skip(rapid.SampledFrom([]int{0, 0, 0, 2}).Draw(t, "skip"))
			if rapid.IntRange(0, 9).Draw(t, "compact") == 0 {
				g.cluster.compact()
			}
			if other := rapid.IntRange(0, 5).Draw(t, "other"); other < len(g.stores) && !g.busy[other] {
				g.turn(t, other)
			}
		}
	}
	return g
}

func (g *gang) turn(t *rapid.T, i int) {
	g.busy[i] = true
	defer func() { g.busy[i] = false }()
	s := g.stores[i]
	m := &model{store: s}
	var txns []*kv.Txn
	for range rapid.IntRange(0, 4).Draw(t, "transactions") {
		txn := &kv.Txn{Then: []kv.Op{m.op(t), m.op(t)}}
		switch rapid.IntRange(0, 3).Draw(t, "kind") {
		case 0:
			txn.Then = []kv.Op{incr("counter", 1)}
		case 1:
			g.tokens++
			txn.TokenNS, txn.Token = "a", fmt.Sprint("token", g.tokens)
			txn.Then = append([]kv.Op{incr("counter", 1)}, txn.Then...)
		case 2:
			txn.If = []kv.Compare{kv.Absent("a", "k")}
			txn.Else = txn.Then[:1]
		}
		if txn.Check() == nil {
			txns = append(txns, txn)
		}
	}
	for i, o := range s.turns(t, txns...) {
		if o.err != nil {
			continue
		}
		for j := range o.result.Ops {
			g.answered(t, s, txns[i], o.result, j)
		}
		if txns[i].Token != "" {
			again, err := s.replayed(txns[i])
			require.NoError(t, err)
			require.True(t, again.Replayed)
			require.Equal(t, o.result.Revision, again.Revision)
			require.Equal(t, o.result.Ops[0].Entry.Create, again.Ops[0].Entry.Create)
		}
	}
}

func (s *Store) replayed(txn *kv.Txn) (*kv.Result, error) {
	return s.tokens.replay(s.tokens.find(txn.TokenNS, txn.Token), txn, digestOf(txn))
}

// answered holds an answer against what the log has.
func (g *gang) answered(t *rapid.T, s *Store, txn *kv.Txn, r *kv.Result, i int) {
	op, got := &branch(txn, r.Held)[i], &r.Ops[i]
	var made *Commit
	for j := range g.cluster.log {
		if g.cluster.log[j].Revision == r.Revision {
			made = &g.cluster.log[j]
		}
	}
	if e := got.Entry; e != nil && e.Key == "counter" {
		require.NotContains(t, g.counts, string(e.Value.Data), "twice")
		g.counts[string(e.Value.Data)] = r.Revision
		require.Equal(t, r.Revision, e.Mod)
	}
	if op.Kind == kv.OpGrant {
		require.EqualValues(t, r.Revision, got.Lease.ID)
		require.True(t, slices.ContainsFunc(made.Leases, func(l LeaseChange) bool { return l.ID == got.Lease.ID }))
	}
	if op.Kind == kv.OpDeletePrefix && len(txn.Then) == 1 && op.Limit == 0 {
		for _, e := range content(t, s, op.NS) {
			require.True(t, e.Mod > r.Revision || len(e.Key) < len(op.Key) || e.Key[:len(op.Key)] != op.Key)
		}
	}
}

func (g *gang) check(t *rapid.T) {
	fresh := member(t, g.cluster, g.clock)
	for range 3 { // what is due ends, and the others hear of it
		for _, s := range append(g.stores, fresh) {
			s.log.(*sharedLog).before = nil
			s.turns(t)
		}
	}
	count, _ := fresh.Get([]byte("a"), []byte("counter"))
	if count != nil {
		require.Equal(t, fmt.Sprint(len(g.counts)), string(count.Value.Data))
	}
	for i, s := range g.stores {
		for _, ns := range []string{"a", "b", "c"} {
			require.Equal(t, content(t, fresh, ns), content(t, s, ns))
		}
		require.ElementsMatch(t, slices.Collect(maps.Keys(fresh.leases.byID)), slices.Collect(maps.Keys(s.leases.byID)))
		require.Equal(t, fresh.index.total, s.index.total)
		m := &model{store: s, state: g.told(t, g.fed[i]), rev: s.Revision()}
		for _, ns := range []string{"a", "b", "c"} {
			for _, e := range content(t, s, ns) {
				require.Equal(t, e, m.state[ns+"/"+e.Key])
			}
		}
		m.checkBooks(t)
		m.checkNothingKept(t)
	}
}

// told is the state that follows from a feed: everybody's changes, once, in order, or
// what became of some together.
func (g *gang) told(t *rapid.T, feed []kv.Batch) map[string]*kv.Entry {
	state := map[string]*kv.Entry{}
	log := g.cluster.log
	for _, b := range feed {
		for _, c := range b.Changes {
			if b.Reset {
				for len(log) > 0 && log[0].Revision <= c.Revision {
					log = log[1:]
				}
			} else {
				require.Equal(t, log[0].Revision, c.Revision)
				log = log[1:]
			}
			for _, e := range c.Events {
				name := e.Entry.NS + "/" + e.Entry.Key
				require.Equal(t, state[name], e.Prev)
				if state[name] = live(e.Entry); state[name] == nil {
					delete(state, name)
				}
			}
		}
	}
	require.Empty(t, log)
	return state
}

func content(t require.TestingT, s *Store, ns string) []*kv.Entry {
	v := s.View()
	defer v.Close()
	page, err := v.List(kv.List{NS: ns})
	require.NoError(t, err)
	return page.Entries
}

func TestOutcomeThatIsNotKnownShowsInTheTail(t *testing.T) {
	for _, lost := range []bool{false, true} {
		c := newCluster()
		s := member(t, c, clock.NewFake(noon))
		c.refuse, c.lost = ErrUnknown, lost
		answers := s.turns(t, &kv.Txn{Then: []kv.Op{put("k", "1")}}, &kv.Txn{Then: []kv.Op{put("other", "2")}})
		require.ErrorIs(t, answers[0].err, codes.Timeout)
		require.NoError(t, answers[1].err, "what is behind it is tried again")
		s.turns(t)
		e, _ := s.Get([]byte("a"), []byte("k"))
		require.Equal(t, lost, e != nil)
	}
}

func TestLogThatFailsAnswersWhatItHasNotSeen(t *testing.T) {
	c := newCluster()
	s := member(t, c, clock.NewFake(noon))
	c.refuse = errors.New("no such cluster")
	var errs []error
	done := func(_ *kv.Result, err error) { errs = append(errs, err) }
	require.False(t, s.committer.commit([]queued{{txn: &kv.Txn{Then: []kv.Op{put("k", "1")}}, done: done}}))
	require.ErrorIs(t, errs[0], codes.Timeout)
}

// What a transaction was evaluated on may change before it reaches the log: then it
// is evaluated again.
func TestTransactionThatOthersOvertakeIsTriedAgain(t *testing.T) {
	lease := func(id kv.LeaseID) *kv.Txn { return &kv.Txn{Then: []kv.Op{leased("leased", id)}} }
	for name, c := range map[string]struct {
		txn, other func(id kv.LeaseID) *kv.Txn
		check      func(t *testing.T, s *Store, o outcome)
	}{
		"increments": {
			func(kv.LeaseID) *kv.Txn { return &kv.Txn{Then: []kv.Op{incr("n", 1)}} },
			func(kv.LeaseID) *kv.Txn { return &kv.Txn{Then: []kv.Op{incr("n", 5)}} },
			func(t *testing.T, _ *Store, o outcome) {
				require.Equal(t, kv.IntValue(6), o.result.Ops[0].Entry.Value)
				require.EqualValues(t, 2, o.result.Ops[0].Entry.Version)
			},
		},
		"absence": {
			func(kv.LeaseID) *kv.Txn {
				return &kv.Txn{If: []kv.Compare{kv.Absent("a", "new")}, Then: []kv.Op{put("mine", "1")}}
			},
			func(kv.LeaseID) *kv.Txn { return &kv.Txn{Then: []kv.Op{put("new", "2")}} },
			func(t *testing.T, _ *Store, o outcome) { require.False(t, o.result.Held) },
		},
		"key under a prefix": {
			func(kv.LeaseID) *kv.Txn { return &kv.Txn{Then: []kv.Op{{Kind: kv.OpDeletePrefix, NS: "a", Key: "p/"}}} },
			func(kv.LeaseID) *kv.Txn { return &kv.Txn{Then: []kv.Op{put("p/2", "x")}} },
			func(t *testing.T, _ *Store, o outcome) { require.EqualValues(t, 2, o.result.Ops[0].Count) },
		},
		"lease that ends": {
			lease,
			func(id kv.LeaseID) *kv.Txn { return &kv.Txn{Then: []kv.Op{{Kind: kv.OpRevoke, Lease: id}}} },
			func(t *testing.T, _ *Store, o outcome) { require.ErrorIs(t, o.err, codes.LeaseGone) },
		},
		"key of a lease": {
			func(id kv.LeaseID) *kv.Txn { return &kv.Txn{Then: []kv.Op{{Kind: kv.OpRevoke, Lease: id}}} },
			lease,
			func(t *testing.T, s *Store, o outcome) {
				require.EqualValues(t, 1, o.result.Ops[0].Count)
				e, _ := s.Get([]byte("a"), []byte("leased"))
				require.Nil(t, e)
			},
		},
		"token": {
			func(kv.LeaseID) *kv.Txn {
				return &kv.Txn{TokenNS: "a", Token: "t", Then: []kv.Op{{Kind: kv.OpGet, NS: "a", Key: "p/1"}}}
			},
			func(kv.LeaseID) *kv.Txn {
				return &kv.Txn{TokenNS: "a", Token: "t", Then: []kv.Op{{Kind: kv.OpGet, NS: "a", Key: "p/1"}}}
			},
			func(t *testing.T, _ *Store, o outcome) { require.True(t, o.result.Replayed) },
		},
		"something else": {
			func(kv.LeaseID) *kv.Txn { return &kv.Txn{Then: []kv.Op{put("mine", "1"), grant(time.Minute)}} },
			func(kv.LeaseID) *kv.Txn { return &kv.Txn{Then: []kv.Op{put("yours", "1")}} },
			func(t *testing.T, s *Store, o outcome) {
				e, _ := s.Get([]byte("a"), []byte("mine"))
				require.Equal(t, e, o.result.Ops[0].Entry)
				require.Equal(t, e.Mod, o.result.Revision)
				_, err := s.Lease(o.result.Ops[1].Lease.ID)
				require.NoError(t, err)
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			now, all := clock.NewFake(noon), newCluster()
			s, other := member(t, all, now), member(t, all, now)
			id := s.turns(t, &kv.Txn{Then: []kv.Op{grant(time.Hour), put("p/1", "x")}})[0].result.Ops[0].Lease.ID
			once := sync.OnceFunc(func() { require.NoError(t, other.turns(t, c.other(id))[0].err) })
			s.log.(*sharedLog).before = once
			c.check(t, s, s.turns(t, c.txn(id))[0])
		})
	}
}

// A lease whose end was overtaken ends all the same.
func TestExpiryThatOthersOvertakeIsTriedAgain(t *testing.T) {
	now, all := clock.NewFake(noon), newCluster()
	s, other := member(t, all, now), member(t, all, now)
	id := s.turns(t, &kv.Txn{Then: []kv.Op{grant(time.Second)}})[0].result.Ops[0].Lease.ID
	s.turns(t, &kv.Txn{Then: []kv.Op{leased("k", id), until(put("short", "x"), time.Second)}})
	s.log.(*sharedLog).before = sync.OnceFunc(func() { other.turns(t, &kv.Txn{Then: []kv.Op{leased("late", id)}}) })
	now.Advance(time.Second)
	s.turns(t)
	s.turns(t)
	require.Empty(t, content(t, s, "a"))
	require.Empty(t, s.leases.byID)
}

// hungLog has lost its cluster.
type hungLog struct {
	sharedLog
	entered chan struct{}
}

func (l *hungLog) Propose(ctx context.Context, _ []Commit, _ []Proof) (int, error) {
	close(l.entered)
	<-ctx.Done()
	return 0, ctx.Err()
}

func TestCloseDoesNotWaitForeverForALogThatHangs(t *testing.T) {
	now := clock.NewFake(noon)
	log := &hungLog{sharedLog: sharedLog{cluster: newCluster()}, entered: make(chan struct{})}
	s, err := Open(t.Context(), Config{Clock: now}, log)
	require.NoError(t, err)
	answer := make(chan error, 1)
	require.NoError(t, s.Commit(kv.PutTxn("a", "k", kv.IntValue(1)), func(_ *kv.Result, err error) { answer <- err }))
	<-log.entered
	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	now.BlockUntil(2)
	now.Advance(closeGrace)
	require.ErrorIs(t, <-answer, codes.Timeout)
	require.NoError(t, <-closed)
}

// A replica that has missed what others did reads everything anew, and says so.
func TestReplicaThatHasMissedSomethingLoadsAnew(t *testing.T) {
	now, all := clock.NewFake(noon), newCluster()
	s, other := member(t, all, now), member(t, all, now)
	other.turns(t, &kv.Txn{Then: []kv.Op{put("stays", "1"), put("goes", "1"), put("changes", "1"), grant(time.Hour)}})
	id := other.turns(t, &kv.Txn{Then: []kv.Op{grant(time.Hour)}})[0].result.Ops[0].Lease.ID
	s.turns(t)
	var told []*kv.Batch
	defer s.Follow(func(b *kv.Batch) { told = append(told, b) })()
	view := s.View()
	defer view.Close()
	other.turns(t, &kv.Txn{Then: []kv.Op{del("goes"), put("changes", "2"), put("between", "1")}})
	other.turns(t, &kv.Txn{Then: []kv.Op{del("between"), put("new", "1"), {Kind: kv.OpRevoke, Lease: id}}})
	token := &kv.Txn{TokenNS: "a", Token: "t", Then: []kv.Op{incr("n", 1)}}
	other.turns(t, token)
	all.compact()

	require.NoError(t, s.turns(t, &kv.Txn{Then: []kv.Op{put("mine", "1")}})[0].err)
	require.Len(t, told, 2)
	require.True(t, told[0].Reset)
	require.Len(t, told[0].Changes, 1)
	var keys []string
	for _, e := range told[0].Changes[0].Events {
		keys = append(keys, e.Kind.String()+" "+e.Entry.Key)
	}
	require.Equal(t, []string{"put changes", "delete goes", "put n", "put new"}, keys)
	require.False(t, told[1].Reset)
	require.Len(t, content(t, s, "a"), 5)
	require.True(t, s.turns(t, token)[0].result.Replayed)
	_, err := s.Lease(id)
	require.ErrorIs(t, err, codes.LeaseGone)
	old, err := view.Get("a", "goes")
	require.NoError(t, err)
	require.NotNil(t, old, "whoever reads at a revision goes on reading there")

	// It is the same in the middle of a group, which then stands as the log took it.
	s.log.(*sharedLog).before = sync.OnceFunc(func() {
		other.turns(t, &kv.Txn{Then: []kv.Op{incr("n", 10)}})
		all.compact()
	})
	o := s.turns(t, &kv.Txn{Then: []kv.Op{put("mine", "2")}}, &kv.Txn{Then: []kv.Op{incr("n", 1)}})
	require.Equal(t, "12", string(o[1].result.Ops[0].Entry.Value.Data))
	e, _ := s.Get([]byte("a"), []byte("mine"))
	require.Equal(t, e.Mod, o[0].result.Revision)

	all.compact()
	all.mu.Lock()
	all.rev, all.log, all.floor = all.rev-1, all.log[:1], all.rev+1
	all.mu.Unlock()
	require.False(t, s.committer.commit(nil), "it does not go back behind what it has served")
}
