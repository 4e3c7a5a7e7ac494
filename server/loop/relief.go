package loop

import (
	"sync/atomic"
	"time"
)

// Budget counts the bytes held for peers, over all loops.
type Budget struct {
	limit int64
	used  atomic.Int64
}

// Add counts n more bytes, or fewer if n is negative.
func (b *Budget) Add(n int) { b.used.Add(int64(n)) }

// Sub counts n bytes less.
func (b *Budget) Sub(n int) { b.used.Add(-int64(n)) }

// Held is how many there are now.
func (b *Budget) Held() int64 { return b.used.Load() }

// Fits says whether n more bytes stay within the limit.
func (b *Budget) Fits(n int) bool { return b.used.Load()+int64(n) <= b.limit }

// Over is true beyond the limit.
func (b *Budget) Over() bool { return b.used.Load() > b.limit }

// relief keeps what one loop's connections hold within the budget.
type relief struct {
	l *Loop // set at open

	// loop only
	looked   time.Time // when a connection to close was last looked for
	retained map[*byte]*retention

	asked atomic.Bool // any goroutine: another loop has asked this one for relief
}

// retention is a shared body that pieces of one loop refer to.
type retention struct{ refs, size int }

// retain counts b once per loop against the memory that is held for peers.
func (r *relief) retain(b []byte) {
	key := &b[0]
	body := r.retained[key]
	if body == nil {
		body = &retention{size: len(b)}
		r.retained[key] = body
		r.l.Group.Memory.Add(body.size)
	}
	body.refs++
}

func (r *relief) release(b []byte) {
	key := &b[0]
	body := r.retained[key]
	if body.refs--; body.refs == 0 {
		r.l.Group.Memory.Sub(body.size)
		delete(r.retained, key)
	}
}

// What relieve looks for.
const (
	hogBytes = 64 << 10        // a connection that holds less is nobody's trouble
	hogRest  = 2 * time.Second // nor is one that has just moved
)

// relieve is called by whoever has just come to hold more for c. Over the limit it
// closes the connection that holds much and has not moved for longest, on this loop
// or, if there is none, on the others; c itself only if nothing helps and the
// limit is far exceeded. A peer that reads is not closed for one that does not.
func (r *relief) relieve(c *Conn) {
	memory := &r.l.Group.Memory
	if !memory.Over() || r.closeHog() {
		return
	}
	for _, other := range r.l.Group.allLoops() {
		if other != r.l && !other.relief.asked.Swap(true) {
			other.Post(MailFunc(func(other *Loop) {
				other.relief.asked.Store(false)
				if memory.Over() {
					other.relief.closeHog()
				}
			}))
		}
	}
	if memory.used.Load() > memory.limit+memory.limit/4 && c.state != dead {
		r.l.Group.Count.MemoryLimit.Add(1)
		c.Abort("memory for what peers hold is used up")
	}
}

// closeHog closes this loop's worst connection, if there is a bad one. Looking takes
// time with many connections, so it is done at most once each millisecond.
func (r *relief) closeHog() bool {
	now := time.Now()
	if now.Sub(r.looked) < time.Millisecond && len(r.l.conns) > sweepSlice {
		return false
	}
	r.looked = now
	var worst *Conn
	for _, c := range r.l.conns {
		if c.holds() >= hogBytes && r.l.now-c.moved() >= hogRest.Nanoseconds() && (worst == nil || c.moved() < worst.moved()) {
			worst = c
		}
	}
	if worst == nil {
		return false
	}
	r.l.Group.Count.MemoryLimit.Add(1)
	worst.Abort("memory for what peers hold is used up and this peer has not moved for longest")
	return true
}

// tick looks again: who had just moved when the memory ran out may rest by now.
func (r *relief) tick() {
	for closed := true; closed && r.l.Group.Memory.Over(); closed = r.closeHog() {
		r.looked = time.Time{}
	}
}
