package disk

import (
	"encoding/binary"
	"runtime"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"confcenter/kv"
	"confcenter/kvstore"
)

// batch is the making of tables from what is pending.
type batch struct {
	k      *keeper
	set    *tableSet
	groups []appended
	forgot forgotten

	// They take the places of the disk's if all goes well.
	next   meta
	epochs []epoch
	parts  []part

	recovered kv.Revision // events up to it were read back by Open and have no Prev

	lean   bool  // there is no space for history: none is kept up to this batch's end
	part   *part // that takes the versions that end in this batch; nil if lean
	cuts   map[string]kv.Revision
	buffer []byte
	value  []byte
	rows   []*kv.Entry

	unyielded int // rows since the last yield
}

// materialise makes tables of everything pending, and lets the retentions go on.
// Of a key that changed often only the newest value is written as current, and of
// its versions only as many as are kept: so the later this is done, the less it
// costs. After an error nothing has changed.
func (k *keeper) materialise() error {
	if err := k.broken(); err != nil {
		return err
	}
	k.mu.Lock()
	groups, forgot := k.pending, k.forgotten
	k.mu.Unlock()
	if k.cfg.AckBeforeDisk && len(groups) > 0 {
		if err := k.syncLog(); err != nil {
			return err
		}
	}
	b := &batch{k: k, set: k.newTables(), groups: groups, forgot: forgot, next: k.done, epochs: slices.Clone(k.epochs), parts: slices.Clone(k.parts), cuts: map[string]kv.Revision{}}
	defer b.set.discard()
	if err := b.build(); err != nil {
		return err
	}
	if len(groups) == 0 && len(forgot.events) == 0 && len(forgot.tokens) == 0 && b.next == k.done {
		return nil
	}
	b.set.small(metaKey, b.next.encode())
	if err := b.set.add(); err != nil {
		return err
	}
	return k.adopt(b)
}

func (b *batch) build() error {
	if len(b.groups) > 0 {
		b.account()
		b.leases()
	}
	if err := b.entries(); err != nil {
		return err
	}
	if err := b.retain(); err != nil {
		return err
	}
	b.endPart()
	b.tokens()
	return nil
}

func (b *batch) endPart() {
	n := len(b.parts) - 1
	switch {
	case b.part == nil:
	case b.parts[n].bytes == 0:
		b.parts = b.parts[:n]
	default:
		b.set.small(numberKey(nil, partKind, int64(b.parts[n].start)), b.parts[n].encode())
	}
}

// adopt goes on from the tables that were added.
func (k *keeper) adopt(b *batch) error {
	trimmed := b.next.logFloor > k.done.logFloor
	k.done, k.epochs, k.since = b.next, b.epochs, 0
	// The floors rise before anything below them goes away for a reader, who asks
	// for them last.
	k.raise()
	k.mu.Lock()
	for _, g := range b.groups {
		k.behind -= g.weighs()
		k.holding -= g.holds
	}
	k.forgotten.drop(b.forgot)
	k.holding -= b.forgot.holds
	k.dead += b.forgot.rows
	k.tellLocked()
	k.pending = slices.Clone(k.pending[len(b.groups):])
	k.parts = b.parts
	k.room.Broadcast()
	k.mu.Unlock()
	if trimmed {
		return k.trimLog()
	}
	return nil
}

// raise shows readers the floors of the tables.
func (k *keeper) raise() {
	k.floors.log.Store(int64(k.done.logFloor))
	k.floors.history.Store(int64(k.done.historyFloor))
}

// trimLog removes the log up to its floor. It need not last: it is done again
// with the next floor, and nothing reads below it.
func (k *keeper) trimLog() error {
	var upper [9]byte
	return k.db.DeleteRange([]byte{logKind}, numberKey(upper[:0], logKind, int64(k.done.logFloor)+1), pebble.NoSync)
}

// account adds the epoch of the batch, and chooses the part of history.
func (b *batch) account() {
	first := b.groups[0].commits[0].Time
	newest := b.groups[len(b.groups)-1].commits
	e := epoch{first: first, time: newest[len(newest)-1].Time, last: newest[len(newest)-1].Revision, changed: true}
	for _, g := range b.groups {
		e.log += g.bytes
	}
	b.epochs = append(b.epochs, e)
	b.next.revision = e.last

	if b.lean = b.k.lacksSpace(b.groups); b.lean {
		return
	}
	if n := len(b.parts); n == 0 || b.parts[n-1].bytes >= b.k.cfg.HistoryBytes/grain ||
		b.k.times.When(e.first)-b.k.times.When(b.parts[n-1].first) >= b.k.cfg.HistoryAge.Milliseconds()/grain {
		b.parts = append(b.parts, part{start: b.groups[0].commits[0].Revision, first: e.first})
	}
	b.part = &b.parts[len(b.parts)-1]
	b.part.last, b.part.time = e.last, e.time
}

// lacksSpace says that tables with the history of the groups would use up what is
// left for the log, without which no write could be made durable: not even deletes,
// each of which makes history of what it deletes.
func (k *keeper) lacksSpace(groups []appended) bool {
	free := k.freeBytes()
	if free < 0 {
		return false
	}
	if k.gate.pressed.Load() && k.short {
		return true // it has been tried
	}
	for _, g := range groups {
		free -= g.rows
	}
	return free < k.cfg.ReserveBytes/4
}

func (b *batch) entries() error {
	n := len(b.forgot.events)
	for _, g := range b.groups {
		n += g.events
	}
	changes := make([]change, 0, n)
	for _, g := range b.groups {
		for i := range g.commits {
			for _, events := range [2][]kv.Event{g.commits[i].Events, g.commits[i].Archive} {
				for j := range events {
					changes = append(changes, change{event: &events[j]})
				}
			}
		}
		if g.recovered {
			b.recovered = g.last()
		}
	}
	for i := range b.forgot.events { // behind the changes of their keys
		changes = append(changes, change{event: &b.forgot.events[i]})
	}
	sortChanges(changes)
	for len(changes) > 0 {
		n = 1
		for n < len(changes) && changes[n].sign == changes[0].sign && byName(changes[n], changes[0]) == 0 {
			n++
		}
		if err := b.key(changes[:n]); err != nil {
			return err
		}
		changes = changes[n:]
		b.yield(n)
	}
	return nil
}

// rowsAtOnce is after how many rows those who share a processor with the keeper get
// it: about a tenth of a millisecond. By itself the scheduler would take it away after
// ten, several times for each group of writes. When so much is behind that writes would
// soon have to wait, the keeper keeps it for longer.
const rowsAtOnce, lateRowsAtOnce = 128, 1024

func (b *batch) yield(rows int) {
	if b.unyielded += rows; b.unyielded < rowsAtOnce {
		return
	}
	if b.unyielded < lateRowsAtOnce {
		b.k.mu.Lock()
		late := b.k.behind > lateBehind*b.k.cfg.TableBytes
		b.k.mu.Unlock()
		if late {
			return
		}
	}
	b.unyielded = 0
	runtime.Gosched()
}

// key writes what becomes of one key; changes are its own, oldest first.
func (b *batch) key(changes []change) error {
	first := changes[0].event
	if kv.Archived(first.Entry.NS) {
		return b.archive(changes[len(changes)-1].event.Entry)
	}
	changes, forgotten := cut(changes)
	if len(changes) == 0 {
		b.buffer = nameKey(b.buffer[:0], currentKind, first.Entry.NS, first.Entry.Key)
		return b.set.remove(&b.set.current, b.buffer)
	}
	old := first.Prev
	if old == nil && first.Entry.Mod <= b.recovered {
		var err error
		if old, err = current(b.k.db, first.Entry.NS, first.Entry.Key); err != nil {
			return err
		}
	}
	last := changes[len(changes)-1].event.Entry
	var err error
	b.buffer = nameKey(b.buffer[:0], currentKind, last.NS, last.Key)
	switch reserved := kv.Reserved(last.NS); {
	case !last.Deleted() && last.Mod > forgotten:
		b.value = appendEntry(b.value[:0], last)
		err = b.set.set(&b.set.current, b.buffer, b.value)
	case old != nil || reserved: // there may be a row of which nothing is known, because its entry was forgotten
		err = b.set.remove(&b.set.current, b.buffer)
	}
	if err != nil || kv.Reserved(last.NS) {
		return err
	}
	return b.versions(changes, old, last)
}

// archive writes the newest entry of an archived key.
func (b *batch) archive(e *kv.Entry) error {
	b.buffer = nameKey(b.buffer[:0], archiveKind, e.NS, e.Key)
	if e.Deleted() {
		return b.set.remove(&b.set.archive, b.buffer)
	}
	b.value = appendEntry(b.value[:0], e)
	return b.set.set(&b.set.archive, b.buffer, b.value)
}

// versions writes the superseded versions of a key, newest first, but no more than
// are kept; what is older is cut off then.
func (b *batch) versions(changes []change, old, last *kv.Entry) error {
	if b.lean {
		return nil
	}
	keep := b.k.cfg.HistoryVersions
	rows := b.rows[:0]
	if last.Deleted() {
		rows = append(rows, last)
	}
	for i := len(changes) - 2; i >= 0 && len(rows) <= keep; i-- {
		rows = append(rows, changes[i].event.Entry)
	}
	if old != nil && len(rows) <= keep {
		rows = append(rows, old)
	}
	b.rows = rows
	if len(rows) > keep {
		cut := last.Mod
		if keep > 0 {
			cut = rows[keep-1].Mod
		}
		rows = rows[:keep]
		key := nameKey(nil, cutKind, last.NS, last.Key)
		b.cuts[string(key)] = cut
		b.set.small(key, binary.AppendUvarint(nil, uint64(cut)))
	}
	for _, row := range rows {
		b.buffer = historyKey(b.buffer[:0], b.part.start, row.NS, row.Key, row.Mod)
		b.value = appendEntry(b.value[:0], row)
		if err := b.set.set(&b.set.history, b.buffer, b.value); err != nil {
			return err
		}
		b.part.bytes += int64(len(b.buffer) + len(b.value))
	}
	return nil
}

func (b *batch) leases() {
	newest := map[kv.LeaseID]kvstore.LeaseChange{}
	for _, g := range b.groups {
		for i := range g.commits {
			for _, l := range g.commits[i].Leases {
				newest[l.ID] = l
			}
		}
	}
	for id, l := range newest {
		key := numberKey(nil, leaseKind, int64(id))
		if l.Ended {
			b.set.removeSmall(key)
			continue
		}
		b.set.small(key, appendLeaseRow(nil, l))
	}
}

// tokens writes new request tokens and ends those that are too old.
func (b *batch) tokens() {
	b.next.tokenFloor = max(b.next.tokenFloor, kv.Revision(b.k.floors.tokens.Load()))
	gone := make(map[kv.Revision]bool, len(b.forgot.tokens))
	for _, rev := range b.forgot.tokens {
		if !gone[rev] {
			gone[rev] = true
			b.set.removeSmall(numberKey(nil, tokenKind, int64(rev)))
		}
	}
	for _, g := range b.groups {
		for i := range g.commits {
			c := &g.commits[i]
			if c.Token != nil && c.Revision > b.next.tokenFloor && !gone[c.Revision] {
				b.set.small(numberKey(nil, tokenKind, int64(c.Revision)), appendTokenRow(nil, c.Token))
			}
		}
	}
	if b.next.tokenFloor > b.k.done.tokenFloor {
		b.set.tokensBelow = b.next.tokenFloor
	}
}
