package loop

import (
	"sync/atomic"
	"time"

	"confcenter/internal/memory"
)

// relief keeps what one loop's connections hold within the budget.
type relief struct {
	l *Loop // set at open

	// loop only
	looked   time.Time // when a connection to close was last looked for
	retained map[*byte]*retention

	asked atomic.Bool // any goroutine: another loop has asked this one for relief
}

// retention is a shared body that pieces of one loop refer to.
type retention struct {
	refs int
	size int64
}

// retain counts b once per loop against the memory that is held for peers.
func (r *relief) retain(b []byte) {
	key := &b[0]
	body := r.retained[key]
	if body == nil {
		body = &retention{size: int64(cap(b) + memory.VersionCost)}
		r.retained[key] = body
		r.l.Group.Memory.Add(body.size)
	}
	body.refs++
}

func (r *relief) release(b []byte) {
	key := &b[0]
	body := r.retained[key]
	if body.refs--; body.refs == 0 {
		r.l.Group.Memory.Give(body.size)
		delete(r.retained, key)
	}
}

// What relieve looks for.
const (
	hogBytes = 64 << 10        // a connection that holds less does no harm
	hogRest  = 2 * time.Second // nor does one that has moved this recently
)

// relieve is called when more memory is held for c. If the limit is exceeded it closes the
// connection that holds much and has not moved for longest, on this loop or, if there is
// none, on the others. It closes c itself only if nothing else helps and the limit is far
// exceeded: a peer that reads is not closed for one that does not.
func (r *relief) relieve(c *Conn) {
	pool := r.l.Group.Memory
	if !pool.Over() || r.closeHog() {
		return
	}
	for _, other := range r.l.Group.allLoops() {
		if other != r.l && !other.relief.asked.Swap(true) {
			other.Post(MailFunc(func(other *Loop) {
				other.relief.asked.Store(false)
				if pool.Over() {
					other.relief.closeHog()
				}
			}))
		}
	}
	if pool.Held() > pool.Limit()/4*5 && c.state != dead {
		r.l.Group.Count.MemoryLimit.Add(1)
		c.Abort("memory for what peers hold is used up")
	}
}

// closeHog closes this loop's worst connection, if there is a bad one. The search takes
// time with many connections, so it runs at most once per millisecond.
func (r *relief) closeHog() bool {
	now := time.Now()
	if now.Sub(r.looked) < time.Millisecond && len(r.l.conns) > sweepSlice {
		return false
	}
	r.looked = now
	var worst *Conn
	for _, c := range r.l.conns {
		if c.holds() >= hogBytes && r.l.now-moved(c) >= hogRest.Nanoseconds() && (worst == nil || moved(c) < moved(worst)) {
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

// moved is when the peer last read, if it has output to read, or last completed a frame.
func moved(c *Conn) int64 {
	if c.Out.bytes > 0 {
		return c.Out.progress
	}
	return c.Active.Load()
}

// tick searches again: a connection that had just moved when memory ran out may be idle by
// now.
func (r *relief) tick() {
	for closed := true; closed && r.l.Group.Memory.Over(); closed = r.closeHog() {
		r.looked = time.Time{}
	}
}
