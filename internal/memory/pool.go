package memory

import (
	"math"
	"sync/atomic"
)

// Pool is what one purpose may use. All its methods may be called from any goroutine.
type Pool struct {
	limit   int64 // set at open
	used    atomic.Int64
	refused atomic.Uint64
}

// NewPool makes a pool of its own, beside any budget. Limit is in bytes.
func NewPool(limit int64) *Pool { return &Pool{limit: limit} }

// Or is p, or a new pool of so many bytes if p is nil.
func (p *Pool) Or(limit int64) *Pool {
	if p == nil {
		return NewPool(limit)
	}
	return p
}

// Take reserves n bytes, which are at least 0, all of them or none, before they are
// allocated. What was refused is counted.
func (p *Pool) Take(n int64) bool { return p.within(p.limit, n) }

// Taker is who memory is taken for.
type Taker interface{ Administrator() bool }

// Reserve takes what an administrator may.
const Reserve = reserve(true)

type reserve bool

// Administrator implements Taker.
func (r reserve) Administrator() bool { return bool(r) }

// Share is what one taker may have of a pool.
type Share struct {
	pool  *Pool
	limit int64
}

// For is the share of who asks. Administrators, who have to act when others have filled the pool,
// may go a quarter beyond its limit.
func (p *Pool) For(who Taker) Share {
	if who.Administrator() {
		return Share{p, p.limit + min(p.limit/4, math.MaxInt64-p.limit)}
	}
	return Share{p, p.limit}
}

// Take is Pool.Take for the taker.
func (s Share) Take(n int64) bool { return s.pool.within(s.limit, n) }

// Fits is Pool.Fits for the taker.
func (s Share) Fits(n int64) bool { return s.pool.used.Load()+n <= s.limit }

func (p *Pool) within(limit, n int64) bool {
	if p.used.Add(n) <= limit {
		return true
	}
	p.used.Add(-n)
	p.refused.Add(1)
	return false
}

// Add counts n bytes that are there already, whatever the limit; n may be negative.
func (p *Pool) Add(n int64) { p.used.Add(n) }

// Give returns n bytes.
func (p *Pool) Give(n int64) { p.used.Add(-n) }

// Refuse counts something that was refused by other means than Take.
func (p *Pool) Refuse() { p.refused.Add(1) }

// Held is how many bytes are in use.
func (p *Pool) Held() int64 { return p.used.Load() }

// Limit is how many may be.
func (p *Pool) Limit() int64 { return p.limit }

// Refused is how often something did not fit.
func (p *Pool) Refused() uint64 { return p.refused.Load() }

// Fits reports whether n more bytes stay within the limit. Others may take them before
// the caller does.
func (p *Pool) Fits(n int64) bool { return p.used.Load()+n <= p.limit }

// Over reports whether the limit is exceeded, which Add makes possible.
func (p *Pool) Over() bool { return p.used.Load() > p.limit }
