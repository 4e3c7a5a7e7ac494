package kvstore

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/internal/clock"
	"confcenter/kv"
)

// sharedList is what several stores append to.
type sharedList struct {
	mu      sync.Mutex
	groups  [][]Commit   // guarded by mu
	members []*sharedLog // guarded by mu
}

// sharedLog is one store's log on a list. Like a log of another process it gives its store nothing
// that another store has.
type sharedLog struct {
	fakeLog
	list   *sharedList
	before func() // of Append, unless nil
	news   chan struct{}
	cut    error // of Came
}

func (l *sharedList) log() *sharedLog {
	m := &sharedLog{list: l, news: make(chan struct{}, 1)}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.members = append(l.members, m)
	return m
}

func (l *sharedLog) Load(_ context.Context, load Loader) (newest kv.Revision, err error) {
	groups, _ := l.Came(0)
	for _, group := range groups {
		for i := range group {
			load.Commit(&group[i])
			newest = group[i].Revision
		}
	}
	return newest, nil
}

func (l *sharedLog) Append(group []Commit) error {
	if l.before != nil {
		l.before()
	}
	if err := l.fakeLog.Append(nil); err != nil { // which may wait
		return err
	}
	l.list.mu.Lock()
	defer l.list.mu.Unlock()
	if n := len(l.list.groups); n > 0 && group[0].Revision != lastOf(l.list.groups[n-1])+1 {
		return fmt.Errorf("appending: %w", ErrOvertaken)
	}
	l.list.groups = append(l.list.groups, group)
	for _, other := range l.list.members {
		if other != l {
			clock.Nudge(other.news)
		}
	}
	return nil
}

func lastOf(group []Commit) kv.Revision { return group[len(group)-1].Revision }

func (l *sharedLog) Arrived() <-chan struct{} { return l.news }

func (l *sharedLog) Came(after kv.Revision) (came [][]Commit, err error) {
	l.list.mu.Lock()
	defer l.list.mu.Unlock()
	for _, group := range l.list.groups {
		if lastOf(group) > after {
			came = append(came, groupCopied(group))
		}
	}
	return came, l.cut
}

// groupCopied is a group as it comes from elsewhere.
func groupCopied(group []Commit) []Commit {
	group = slices.Clone(group)
	for i := range group {
		c := &group[i]
		c.Events = slices.Clone(c.Events)
		for j := range c.Events {
			e := *c.Events[j].Entry
			if e.Ends != 0 {
				e.Ends = e.Expires
			}
			c.Events[j] = kv.Event{Kind: c.Events[j].Kind, Entry: &e}
		}
		if c.Token != nil {
			token := *c.Token
			token.own = 0
			c.Token = &token
		}
	}
	return group
}

func (l *sharedLog) ListArchive(kv.List) (kv.Page, error) { return kv.Page{}, nil } // the loader has seen it

// entryText leaves out when by its own clock a store lets a key end.
func entryText(e *kv.Entry) string {
	shared := *e
	if shared.Ends != 0 {
		shared.Ends = 1
	}
	return fmt.Sprintf("%+v", shared)
}

// fingerprint is all that a store has in memory, as text. Its committer does not run. What is each store's
// own is left out if stores are compared with each other: who ends a lease, and what its clock says.
func fingerprint(s *Store, others bool) (list []string) {
	x, b, g := s.index, s.committer.group.counters, &s.committer.group
	say := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	x.names.Scan(func(sp *space) bool {
		say("space %s: %d keys, next %v seen %v touched %t", sp.name, len(sp.keys.of), sp.next, sp.seen, sp.touched)
		sp.tree.Scan(func(at *slot) bool {
			say("key %s", at.text(sp, others))
			return true
		})
		return true
	})
	say("index: %d spaces, revision %d, %d keys, %d bytes, %d visible spaces, %d kept, total %+v", len(x.spaces.of), x.revision(), x.keys.Load(), x.bytes.Load(), x.count.Load(), len(x.kept), x.total)
	say("expiry: %d moments, %d lives", len(b.expiry.moments.heap), len(b.expiry.lives.heap))
	say("counters: %d spaces, told %d", len(b.spaces), b.held.told)
	l := s.leases
	for _, id := range slices.Sorted(maps.Keys(l.byID.of)) {
		say("lease %s", l.text(l.byID.of[id], others))
	}
	say("leases: cost %d, owned %v", l.cost, l.owned)
	t := s.tokens
	names := slices.SortedFunc(maps.Keys(t.byName.of), func(a, b tokenName) int { return cmp.Compare(a.ns+a.name, b.ns+b.name) })
	for _, name := range names {
		known := t.byName.of[name]
		say("token %v: %d result %x", name, known.Revision, known.Result)
	}
	for _, who := range slices.Sorted(maps.Keys(t.holders)) {
		h := t.holders[who]
		say("holder %s: %d bytes", who, h.bytes)
		for _, token := range h.queue {
			say("  %s %d", token.Name, token.Revision)
		}
	}
	say("tokens: %d queued, %d bytes, out %d, evicted %v, aged %d, count %d, told %d", t.queued, t.bytes, t.out, t.evicted, len(t.aged), t.count.Load(), t.held.told)
	say("group: revision %d, %d changes, %d leases, %d commits, %d answers", g.rev, len(g.changes), len(g.leases), len(g.commits), len(g.answers))
	return list
}

func (s *slot) text(sp *space, others bool) string {
	text := fmt.Sprintf("%s under way %t found %t", entryText(s.entry), s.next != nil, sp.keys.of[s.entry.Key] == s)
	if s.plan != nil && !others {
		text += fmt.Sprintf(" ends %d in a heap %t", s.plan.at, s.plan.pos >= 0)
	}
	for v := s.older; v != nil; v = v.older {
		text += fmt.Sprintf(" before %+v", *v.entry)
	}
	return text
}

func (l *leases) text(one *lease, others bool) string {
	text := fmt.Sprintf("%d ttl %s owner %v home %s seen %t ending %t noted %t keys %d", one.id, one.ttl, one.owner, one.home, one.seen, one.ending, one.noted, one.count)
	var keys []string
	for s, sp := range one.keys.of {
		keys = append(keys, sp.name+"/"+s.entry.Key)
	}
	slices.Sort(keys)
	if text += fmt.Sprint(keys); !others {
		text += fmt.Sprintf(" due %t timed %t", one.over || one.home == l.here && one.deadline <= l.now(), one.pos >= 0)
	}
	return text
}

// member is a store on a list. Its committer does not run by itself.
func member(t require.TestingT, l *sharedList, cfg Config) (*Store, *sharedLog) {
	log := l.log()
	s, err := load(context.Background(), cfg.withDefaults(), log)
	require.NoError(t, err)
	return s, log
}

// turn has the committer do what it does when it is woken.
func (s *Store) turn(t require.TestingT, txns ...*kv.Txn) []outcome {
	answers := make([]outcome, len(txns))
	list := make([]queued, len(txns))
	answered := 0
	for i, txn := range txns {
		list[i] = queued{txn: txn, done: func(r *kv.Result, err error) {
			answers[i] = outcome{r, err}
			answered++
		}}
		require.NoError(t, s.prepare(&list[i]))
	}
	require.True(t, s.committer.catchUp(nil))
	require.True(t, s.committer.commit(list))
	s.committer.tend()
	require.Equal(t, len(txns), answered, "each is answered once")
	return answers
}

func (s *Store) text(ns, key string) string {
	e, _ := s.Get([]byte(ns), []byte(key))
	if e == nil {
		return "-"
	}
	return string(e.Value.Data)
}

func revoke(id kv.LeaseID) kv.Op { return kv.Op{Kind: kv.OpRevoke, Lease: id} }

const leaseTime = 10 * time.Second
