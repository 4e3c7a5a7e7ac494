package kvtest

import (
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"confcenter/codes"
	"confcenter/kv"
)

// MemoryDisk is what survives the end of a Memory: a list of what was committed.
// The zero value is empty.
type MemoryDisk struct {
	mu  sync.Mutex
	log []effect // guarded by mu
}

func (d *MemoryDisk) append(e effect) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.log = append(d.log, e)
}

// effect is what one transaction does to the state.
type effect struct {
	change  kv.Change
	granted *kv.Lease
	ended   []kv.LeaseID
	token   *token
}

type token struct {
	ns, name string
	digest   string
	time     int64 // ms since 1970
	result   *kv.Result
}

type name struct{ ns, key string }

func compareNames(a, b name) int {
	if a.ns != b.ns {
		return compareText(a.ns, b.ns)
	}
	return compareText(a.key, b.key)
}

func compareText(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// space is one namespace. Keys stay in it when they are deleted: their history is
// still known.
type space struct {
	keys     []string               // sorted
	versions map[string][]*kv.Entry // oldest first
	cut      map[string]kv.Revision // keys whose versions before that one are forgotten
	live     int64
	bytes    int64
}

func (s *space) current(key string) *kv.Entry {
	if s == nil {
		return nil
	}
	return newest(s.versions[key])
}

func newest(versions []*kv.Entry) *kv.Entry {
	if len(versions) == 0 || versions[len(versions)-1].Deleted() {
		return nil
	}
	return versions[len(versions)-1]
}

type lease struct {
	id       kv.LeaseID
	ttl      time.Duration
	deadline time.Time
	keys     map[name]bool
}

func (l *lease) describe(now time.Time) kv.Lease {
	return kv.Lease{ID: l.id, TTL: l.ttl, Left: l.deadline.Sub(now), Keys: len(l.keys)}
}

// state is everything that a Memory knows; its mutex is the Memory's.
type state struct {
	revision kv.Revision
	spaces   map[string]*space
	leases   map[kv.LeaseID]*lease
	expiring map[name]int64 // ms since 1970
	tokens   map[name]*token
	changes  []kv.Change
	logBytes int64
	logFloor kv.Revision
	now      func() time.Time
}

// loadState makes the state from the disk. Leases begin anew, with their full time.
func loadState(cfg MemoryConfig) *state {
	s := &state{
		spaces:   map[string]*space{},
		leases:   map[kv.LeaseID]*lease{},
		expiring: map[name]int64{},
		tokens:   map[name]*token{},
		now:      cfg.Clock.Now,
	}
	cfg.Disk.mu.Lock()
	defer cfg.Disk.mu.Unlock()
	for _, e := range cfg.Disk.log {
		s.apply(e, cfg)
	}
	return s
}

func (s *state) apply(e effect, cfg MemoryConfig) {
	s.revision = e.change.Revision
	if e.granted != nil {
		s.leases[e.granted.ID] = &lease{id: e.granted.ID, ttl: e.granted.TTL, deadline: s.now().Add(e.granted.TTL), keys: map[name]bool{}}
	}
	for i := range e.change.Events {
		s.put(e.change.Events[i].Entry, cfg.HistoryVersions)
	}
	for _, id := range e.ended {
		delete(s.leases, id)
	}
	if e.token != nil {
		s.tokens[name{e.token.ns, e.token.name}] = e.token
	}
	s.changes = append(s.changes, e.change)
	s.logBytes += changeSize(e.change)
	for cfg.LogBytes > 0 && len(s.changes) > 1 && s.logBytes-changeSize(s.changes[0]) >= cfg.LogBytes {
		s.logBytes -= changeSize(s.changes[0])
		s.logFloor = s.changes[0].Revision
		s.changes = s.changes[1:]
	}
}

func changeSize(c kv.Change) int64 {
	const overhead = 64
	size := overhead
	for i := range c.Events {
		size += overhead + c.Events[i].Entry.Size()
	}
	return int64(size)
}

// put makes e the newest version of its key and mends all that is counted.
func (s *state) put(e *kv.Entry, keep int) {
	sp := s.spaces[e.NS]
	if sp == nil {
		sp = &space{versions: map[string][]*kv.Entry{}, cut: map[string]kv.Revision{}}
		s.spaces[e.NS] = sp
	}
	at, known := slices.BinarySearch(sp.keys, e.Key)
	if !known {
		sp.keys = slices.Insert(sp.keys, at, e.Key)
	}
	n := name{e.NS, e.Key}
	if old := sp.current(e.Key); old != nil {
		sp.live--
		sp.bytes -= int64(old.Size())
		delete(s.expiring, n)
		if l := s.leases[old.Lease]; l != nil {
			delete(l.keys, n)
		}
	}
	versions := append(sp.versions[e.Key], e)
	if keep > 0 && len(versions) > keep {
		versions = versions[len(versions)-keep:]
		sp.cut[e.Key] = versions[0].Mod
	}
	sp.versions[e.Key] = versions
	if e.Deleted() {
		return
	}
	sp.live++
	sp.bytes += int64(e.Size())
	if e.Expires != 0 {
		s.expiring[n] = e.Expires
	}
	if l := s.leases[e.Lease]; l != nil {
		l.keys[n] = true
	}
}

// due is what ends by itself at now: all keys whose time is over together, then
// each lease with its keys. One is returned at a time, since the next depends on
// it having been applied.
func (s *state) due(now time.Time, revision func() kv.Revision) iter.Seq[*evaluation] {
	return func(yield func(*evaluation) bool) {
		e := newEvaluation(s, revision(), now)
		for n, at := range s.expiring {
			if at <= now.UnixMilli() {
				e.expire(n)
			}
		}
		if e.finish() && !yield(e) {
			return
		}
		for _, id := range slices.Sorted(maps.Keys(s.leases)) {
			if s.leases[id].deadline.After(now) {
				continue
			}
			e := newEvaluation(s, revision(), now)
			for n := range s.leases[id].keys {
				e.expire(n)
			}
			e.effect.ended = append(e.effect.ended, id)
			if e.finish() && !yield(e) {
				return
			}
		}
	}
}

// nextDue is the moment at which due has something again, or zero.
func (s *state) nextDue() time.Time {
	var next time.Time
	earlier := func(t time.Time) {
		if next.IsZero() || t.Before(next) {
			next = t
		}
	}
	for _, at := range s.expiring {
		earlier(time.UnixMilli(at))
	}
	for _, l := range s.leases {
		earlier(l.deadline)
	}
	return next
}

// replay is the first result of a transaction whose token is known; nil, nil if
// it is not.
func (s *state) replay(txn *kv.Txn) (*kv.Result, error) {
	if txn.Token == "" {
		return nil, nil
	}
	known := s.tokens[name{txn.TokenNS, txn.Token}]
	switch {
	case known == nil:
		return nil, nil
	case known.digest != digest(txn):
		return nil, codes.Errorf(codes.TokenReused, "token %q belongs to another request", txn.Token)
	}
	return known.result, nil
}

func (s *state) forgetTokens(before int64) {
	maps.DeleteFunc(s.tokens, func(_ name, t *token) bool { return t.time < before })
}
