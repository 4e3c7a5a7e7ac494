package player

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"confcenter/codes"
	"confcenter/kv"
	"confcenter/player/field"
)

// cold is what has left memory, or was never there: fields that only the database has.
//
// Which owners the database may have is known without asking it: an owner enters the filter
// before its fields leave memory, and tables that others have filled are scanned. For all other
// owners what is not in memory is nowhere. Of owners in the filter, rows are read when they are
// asked for, and kept in a cache that knows absence as well. An entry in memory always
// wins, so what the cache has of a field that was written since does no harm; before the entry
// leaves memory, the cache forgets the owner, and no owner leaves that is being loaded.
//
// Eviction and writes that look first exclude each other by the owner's line. Writes that do
// not look leave a mark of use before they look for a line, and eviction makes the line before
// it looks for marks: one of them sees the other.
type cold struct {
	// set at open
	s        *Storage
	backing  Backing
	identity *identity
	life     string // the identity of the store, which restoring it renews
	used     *uses
	cache    *cache
	loads    *loads
	most     int64 // MaxOwner, but in tests
	outage   outage

	evicted  atomic.Uint64 // fields
	filling  sync.Mutex    // held while the filter changes
	sweeping sync.Mutex    // held while owners leave
	wake     chan struct{} // to look for tables again
	retime   chan struct{} // the time after which owners are idle has changed

	tables
}

// tables is which tables of the database are known.
type tables struct {
	doubt   atomic.Bool // not all are
	knowing sync.Mutex  // held while entries known/… change, with what is here about them

	mu      sync.Mutex
	listed  bool              // the database has told its tables; guarded by mu
	said    uint64            // how often others have filled one; guarded by mu
	unknown map[string]uint64 // those whose owners are not all in the filter, and said when that was found; guarded by mu
	known   map[string]bool   // those whose are; guarded by mu
}

const knownPrefix = "known/"

func newCold(s *Storage, cfg *Config) *cold {
	c := &cold{s: s, backing: cfg.Backing, identity: s.identity, cache: newCache(cfg.Cold), used: newUses(), most: MaxOwner, wake: make(chan struct{}, 1), retime: make(chan struct{}, 1),
		tables: tables{unknown: map[string]uint64{}, known: map[string]bool{}}}
	if store, ok := cfg.Store.(kv.Archive); ok {
		c.life = store.Identity()
	}
	c.loads = &loads{c: c, flights: map[string]*flight{}}
	c.doubt.Store(true)
	return c
}

func (c *cold) use(hash uint64) { c.used.mark(hash) }

// maybe reports whether the database may have fields of an owner that memory has not.
func (c *cold) maybe(ns []byte, hash uint64) bool {
	if c.doubt.Load() && c.doubtful(string(ns[len(field.Prefix):])) {
		return true
	}
	return inFilter(c.s.store, hash)
}

// doubtful reports whether the filter may lack owners of a table.
func (c *cold) doubtful(table string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, unknown := c.unknown[table]; unknown || c.listed {
		return unknown
	}
	if c.known[table] {
		return false
	}
	return !c.knows(table)
}

// knows reports whether all owners of a table are in the store's filter. That of a store that was
// restored may be older than the table.
func (c *cold) knows(table string) bool {
	e, _ := c.s.store.Get([]byte(field.Landing), []byte(knownPrefix+table))
	return e != nil && string(e.Value.Data) == c.life
}

// absentOrHere reports whether each field of the job is in memory, or known to be nowhere.
func (c *cold) absentOrHere(j *job) bool {
	ns := []byte(j.region.ns)
	maybe := c.maybe(ns, hashOf(ns, j.owner))
	for _, name := range j.names {
		if !maybe {
			return true
		}
		if e, _ := c.s.store.Get(ns, []byte(j.key(name))); e != nil {
			continue
		}
		if r, known := c.cache.row(j.id(), name); !known || r != nil && !r.Removed {
			return false
		}
	}
	return true
}

// fill adds what the database has of fields that are not in memory. If that is not known, it
// has it loaded and the job attempted again.
func (c *cold) fill(j *job, states map[string]*state, absent []string) (known bool, err error) {
	ns := []byte(j.region.ns)
	if !c.maybe(ns, hashOf(ns, j.owner)) {
		return true, nil
	}
	var missing []string
	for _, name := range absent {
		r, known := j.loaded.row(name)
		if !known {
			r, known = c.cache.row(j.id(), name)
		}
		if !known {
			missing = append(missing, name)
		}
		states[name].row = r
	}
	if len(missing) == 0 {
		return true, nil
	}
	return false, c.loadFor(j, missing, j.w.Kind != field.Update)
}

// loadFor has fields of a job's owner loaded, or all of them, and the job attempted again. Of
// an owner that is too large to be loaded as a whole only what the job is about is.
func (c *cold) loadFor(j *job, names []string, all bool) error {
	return c.loads.ask(j.id(), j.w.Owner, names, all, func(rows *rowSet, err error) {
		if all && errors.Is(err, codes.TooLarge) {
			if err = c.loadFor(j, names, false); err == nil {
				return
			}
		}
		if err != nil {
			j.finish(nil, err)
			return
		}
		j.loaded = rows
		j.goOn()
	})
}

// load reads rows of an owner from the database, and waits for them.
func (c *cold) load(ctx context.Context, id string, o field.Owner, names []string, all bool) (*rowSet, error) {
	return kv.Await(ctx, nil, func(done func(*rowSet, error)) error { return c.loads.ask(id, o, names, all, done) })
}

// Load returns those fields that there are, all of one state, and waits if they have to be read
// from the database. Many who ask for fields of one owner cost one query.
func (s *Storage) Load(ctx context.Context, o field.Owner, names []string) ([]field.Field, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	var rows *rowSet
	for range maxTries {
		var missing []string
		fields, ok := s.get(&o, names, rows, &missing)
		if ok {
			return fields, nil
		}
		found, err := s.cold.load(ctx, o.Namespace()+"/"+o.Key(), o, missing, false)
		if err != nil {
			return nil, err
		}
		rows = found
	}
	return nil, codes.Errorf(codes.Busy, "owner %q is being changed by others all the time; try again", o.Key())
}

// whole is all rows of an owner that memory may lack; nil if it lacks none.
func (s *Storage) whole(ctx context.Context, o field.Owner) (*rowSet, error) {
	if s.cold == nil {
		return nil, nil
	}
	ns, key := []byte(o.Namespace()), o.Key()
	hash, id := hashOf(ns, key), string(ns)+"/"+key
	s.cold.use(hash)
	if !s.cold.maybe(ns, hash) {
		return nil, nil
	}
	if rows := s.cold.cache.whole(id); rows != nil {
		return rows, nil
	}
	return s.cold.load(ctx, id, o, nil, true)
}

// know adds operations to a transaction that make tables known that were landed in for the
// first time. done is for when the transaction has ended.
func (c *cold) know(txn *kv.Txn, given map[string]bool) (done func()) {
	c.knowing.Lock()
	c.mu.Lock()
	defer c.mu.Unlock()
	for table := range given {
		if _, unknown := c.unknown[table]; c.listed && !unknown && !c.known[table] {
			c.known[table] = true
			txn.Then = append(txn.Then, c.knownOp(table))
			done = c.knowing.Unlock
		}
	}
	if done == nil {
		c.knowing.Unlock()
		done = func() {}
	}
	return done
}

func (c *cold) knownOp(table string) kv.Op {
	return kv.Op{Kind: kv.OpPut, NS: field.Landing, Key: knownPrefix + table, Value: kv.StringValue(c.life)}
}

// rowField is the field of a row. One that others have written has no version; 0 would say
// that it is absent.
func rowField(r *field.Row) field.Field {
	return field.Field{Name: r.Name, Value: r.Value, Version: max(1, r.Version), Removed: r.Removed, Updated: r.Updated}
}
