package loop

import "sync"

// Mail is work for a loop. Deliver may do a part of it, at most budget units (a unit is
// about one send), and returns how much it used and whether the work is done. If not, it
// is called again before any later mail.
type Mail interface {
	Deliver(l *Loop, budget int) (used int, done bool)
}

// MailFunc is mail that is always done at once.
type MailFunc func(l *Loop)

// Deliver calls f.
func (f MailFunc) Deliver(l *Loop, _ int) (int, bool) {
	f(l)
	return 1, true
}

// mailbox is the only way onto a loop: replies, pushes, completions and ticks are delivered
// in the order in which they were put. The event loop's own task queues do not promise
// that beyond a thousand tasks.
type mailbox struct {
	mu sync.Mutex
	// guarded by mu
	items     []Mail
	scheduled bool // the box will be emptied
}

// put adds m and reports whether the loop must be woken.
func (b *mailbox) put(m Mail) (wake bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.items = append(b.items, m)
	wake = !b.scheduled
	b.scheduled = true
	return wake
}

// maxKept is the longest emptied slice that is reused.
const maxKept = 1 << 14

// take exchanges the waiting items for the emptied slice. If there are none the box is
// idle: the next put asks for a wake.
func (b *mailbox) take(empty []Mail) []Mail {
	b.mu.Lock()
	defer b.mu.Unlock()
	items := b.items
	if cap(empty) > maxKept {
		empty = nil
	}
	b.items = empty
	if len(items) == 0 {
		b.scheduled = false
	}
	return items
}

// size is the number of items in the box.
func (b *mailbox) size() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.items)
}

// waiting reports whether mail is in the box or being delivered.
func (b *mailbox) waiting() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.scheduled
}

// inbox is a loop's mail. It belongs to the loop, except for the box.
type inbox struct {
	box   mailbox
	batch []Mail // taken from box
	next  int    // the first of batch that is not done
	held  bool   // that item waits for a worker
}

// deliver delivers mail until there is none or it is held. It returns false if the budget
// was used up before.
func (i *inbox) deliver(l *Loop, budget int) bool {
	for !i.held {
		if i.next == len(i.batch) {
			clear(i.batch)
			i.next = 0
			if i.batch = i.box.take(i.batch[:0]); len(i.batch) == 0 {
				return true
			}
		}
		if budget <= 0 {
			return false
		}
		used, done := i.batch[i.next].Deliver(l, budget)
		budget -= used
		if done {
			i.next++
		}
	}
	return true
}
