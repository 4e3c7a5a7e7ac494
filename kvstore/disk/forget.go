package disk

import (
	"context"

	"confcenter/kv"
)

const (
	// manyForgotten is how many forgotten entries cause tables. mostForgotten is how many are
	// remembered while tables cannot be made; the rows of others stay until the next start,
	// which finds their entries again.
	manyForgotten, mostForgotten = 64 << 10, 1 << 20
	// leastDead is how many bytes of rows are forgotten, at least, before tables are merged
	// to be rid of them.
	leastDead = 32 << 20
)

// forgotKind is that of an event that stands for a forgotten entry on its way into tables.
const forgotKind kv.EventKind = 0

// forgotten is what Forget was given, and DropTokens one by one.
type forgotten struct {
	events []kv.Event    // of forgotKind; the entries have name and Mod
	holds  int64         // of memory
	rows   int64         // bytes in tables
	tokens []kv.Revision // of transactions
}

// Forget has the keeper delete the rows of entries, each the newest of its key, with the
// next tables. Call it from the goroutine that calls Append: a change of the key that comes
// later must be told later.
func (d *Disk) Forget(entries []*kv.Entry) {
	if d.broken() != nil {
		return
	}
	f := forgotten{events: make([]kv.Event, len(entries))}
	marks := make([]kv.Entry, len(entries))
	for i, e := range entries {
		marks[i] = kv.Entry{NS: e.NS, Key: e.Key, Mod: e.Mod}
		f.events[i] = kv.Event{Kind: forgotKind, Entry: &marks[i]}
		f.holds += eventSize + entrySize + int64(len(e.Key))
		f.rows += rowBytes(e)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.forgotten.events) >= mostForgotten {
		return
	}
	d.gate.live.Add(-f.rows)
	d.forgotten.events = append(d.forgotten.events, f.events...)
	d.forgotten.holds += f.holds
	d.forgotten.rows += f.rows
	d.holding += f.holds
	d.tellLocked()
	if len(d.forgotten.events) >= manyForgotten {
		d.poke()
	}
}

// drop takes out what has been dealt with. The log's mu is held.
func (f *forgotten) drop(done forgotten) {
	f.events = append([]kv.Event(nil), f.events[len(done.events):]...)
	f.tokens = append([]kv.Revision(nil), f.tokens[len(done.tokens):]...)
	f.holds -= done.holds
	f.rows -= done.rows
}

// cut separates the changes of one key from the marks behind them, and returns up to which
// revision the key is forgotten.
func cut(changes []change) (_ []change, forgotten kv.Revision) {
	for n := len(changes); n > 0 && changes[n-1].event.Kind == forgotKind; n-- {
		forgotten = max(forgotten, changes[n-1].event.Entry.Mod)
		changes = changes[:n-1]
	}
	return changes, forgotten
}

// mergeForgotten has the rows of forgotten entries disappear from the tables. The database
// by itself would keep them until as much is written there again.
func (k *keeper) mergeForgotten(ctx context.Context) error {
	if free, stays := k.freeBytes(), k.gate.live.Load(); free >= 0 && free-stays < k.cfg.ReserveBytes/16 {
		return nil
	}
	const lower, upper = "@", "A" // all namespaces that are reserved are between
	return k.db.Compact(ctx, []byte{currentKind, lower[0]}, []byte{currentKind, upper[0]}, false)
}
