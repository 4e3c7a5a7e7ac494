package disk

import (
	"cmp"
	"slices"
	"sort"

	"github.com/cockroachdb/pebble/v2"

	"confcenter/codes"
	"confcenter/kv"
)

// Changes returns the changes after a revision, as in kv.Store: from memory if they are
// recent, else from the log. It includes changes without events, and reaches up to the
// last group for which Append has returned or is about to.
func (d *Disk) Changes(after kv.Revision, maxBytes int) ([]kv.Change, error) {
	if err := d.usable(); err != nil {
		return nil, err
	}
	defer d.life.RUnlock()
	newest := kv.Revision(d.newest.Load())
	if after > newest {
		return nil, future(after, newest)
	}
	if after == newest {
		return nil, nil
	}
	d.mu.Lock()
	recent, ok := d.ring.after(after, maxBytes)
	d.mu.Unlock()
	if ok {
		return recent, nil
	}
	changes, err := d.readLog(after, newest, maxBytes)
	// Something missing may have been removed meanwhile.
	if floor := kv.Revision(d.floors.log.Load()); after < floor {
		return nil, codes.Errorf(codes.Compacted, "changes after revision %d are no longer kept, only those after %d", after, floor)
	}
	return changes, err
}

// readLog reads changes up to newest, which there must be.
func (d *Disk) readLog(after, newest kv.Revision, maxBytes int) ([]kv.Change, error) {
	d.mu.Lock()
	parts := d.parts
	d.mu.Unlock()
	snap := d.db.NewSnapshot()
	defer snap.Close()
	it, err := snap.NewIter(&pebble.IterOptions{LowerBound: []byte{logKind}, UpperBound: []byte{logKind + 1}})
	if err != nil {
		return nil, damaged("log", err)
	}
	defer it.Close()
	// The group that has the next revision begins with it or before.
	if !it.SeekLT(numberKey(nil, logKind, int64(after)+2)) {
		it.First()
	}
	p := &previous{d: d, snap: snap, parts: parts, seen: map[name]*kv.Entry{}}
	var changes []kv.Change
	size, at := 0, after
	for ; it.Valid() && !full(len(changes), size, maxBytes) && at < newest; it.Next() {
		g, err := readGroup(it)
		if err != nil {
			return nil, damaged("log", err)
		}
		if g.prev > at {
			return nil, damaged("log", errGap)
		}
		events := 0
		for i := range g.commits {
			c := &g.commits[i].Change
			prevs := g.prevs[events : events+len(c.Events)]
			events += len(c.Events)
			if c.Revision <= after || c.Revision > newest || full(len(changes), size, maxBytes) {
				continue
			}
			if err := p.fill(c, prevs); err != nil {
				return nil, err
			}
			changes = append(changes, *c)
			size += entryBytes(c)
			at = c.Revision
		}
	}
	if err := it.Error(); err != nil {
		return nil, damaged("log", err)
	}
	if at < newest && !full(len(changes), size, maxBytes) {
		return nil, damaged("log", errGap)
	}
	return changes, nil
}

func readGroup(it *pebble.Iterator) (*group, error) {
	value, err := it.ValueAndErr()
	if err != nil {
		return nil, err
	}
	return decodeGroup(value)
}

type name struct{ ns, key string }

// previous finds the entries that changes read from the log have superseded, where the
// store still has them: among the changes read before, in the tables, in the log.
type previous struct {
	d     *Disk
	snap  *pebble.Snapshot
	parts []part
	seen  map[name]*kv.Entry // newest of each key among the changes read
	last  *group             // of the log, read last
	reads int                // groups read
	made  map[name]*kv.Entry // by the commit of last that was asked for last
	rev   kv.Revision        // of that commit; 0: none
}

// fill sets Prev of the events of c. It looks in the order of revisions: the log is read by
// groups, and a transaction may delete what hundreds of them have written, in another order.
func (p *previous) fill(c *kv.Change, prevs []kv.Revision) error {
	var missing []int // events whose entries have to be looked for
	for i := range c.Events {
		event := &c.Events[i]
		id := name{event.Entry.NS, event.Entry.Key}
		before := p.seen[id]
		p.seen[id] = event.Entry
		switch {
		case prevs[i] == 0:
		case before != nil && before.Mod == prevs[i]:
			event.Prev = before
		default:
			missing = append(missing, i)
		}
	}
	slices.SortFunc(missing, func(a, b int) int { return cmp.Compare(prevs[a], prevs[b]) })
	for _, i := range missing {
		event := &c.Events[i]
		before, err := p.look(name{event.Entry.NS, event.Entry.Key}, prevs[i], c.Revision)
		if err != nil {
			return err
		}
		event.Prev = before
	}
	return nil
}

// look finds the entry that revision rev made and revision end superseded. It lies in the
// part of history that covers end.
func (p *previous) look(id name, rev, end kv.Revision) (*kv.Entry, error) {
	i := sort.Search(len(p.parts), func(i int) bool { return p.parts[i].last >= end })
	if i < len(p.parts) {
		e, err := entryAt(p.snap, historyKey(nil, p.parts[i].start, id.ns, id.key, rev), id.ns, id.key)
		if e != nil || err != nil {
			return e, err
		}
	}
	e, err := current(p.snap, id.ns, id.key)
	if err != nil || e != nil && e.Mod == rev {
		return e, err
	}
	if rev <= kv.Revision(p.d.floors.log.Load()) {
		return nil, nil
	}
	return p.logged(id, rev)
}

// logged finds the entry that revision rev made of a key in the log; nil if the log has
// been trimmed beyond it.
func (p *previous) logged(id name, rev kv.Revision) (*kv.Entry, error) {
	if p.last == nil || rev <= p.last.prev || rev > p.last.last() {
		g, err := p.groupOf(rev)
		if g == nil || err != nil {
			return nil, err
		}
		p.last = g
		p.reads++
	}
	if p.rev != rev {
		p.rev, p.made = rev, map[name]*kv.Entry{}
		for i := range p.last.commits {
			if c := &p.last.commits[i]; c.Revision == rev {
				for _, event := range c.Events {
					p.made[name{event.Entry.NS, event.Entry.Key}] = event.Entry
				}
			}
		}
	}
	return p.made[id], nil
}

func (p *previous) groupOf(rev kv.Revision) (*group, error) {
	it, err := p.snap.NewIter(&pebble.IterOptions{LowerBound: []byte{logKind}, UpperBound: []byte{logKind + 1}})
	if err != nil {
		return nil, damaged("log", err)
	}
	defer it.Close()
	if !it.SeekLT(numberKey(nil, logKind, int64(rev)+1)) {
		return nil, it.Error()
	}
	g, err := readGroup(it)
	if err != nil {
		return nil, damaged("log", err)
	}
	return g, nil
}
