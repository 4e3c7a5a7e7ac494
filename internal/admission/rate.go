package admission

import (
	"fmt"
	"math"
	"net/netip"
	"sync/atomic"
	"time"

	"confcenter/codes"
)

// Rate is how much may be sent per second, on average; 0: any amount. After a pause as much
// as for one second may come at once.
type Rate struct {
	Requests int64
	Bytes    int64 // of requests, with their headers on TCP, of their bodies on HTTP
}

const (
	burst = time.Second // how far a bucket may be ahead of its rate
	// longestDebt is how long a peer waits at most, whatever it has sent or announced.
	longestDebt = time.Hour
)

// Bucket is what a peer may still send. Several connections can share one: all its methods may be
// called from any goroutine, and take no lock. NewBucket makes one that is full.
type Bucket struct {
	requests, bytes level
}

// NewBucket makes a full bucket.
func NewBucket() *Bucket {
	p := new(Bucket)
	p.requests.until.Store(longAgo)
	p.bytes.until.Store(longAgo)
	return p
}

// Take charges a request of so many bytes and returns 0, or charges nothing and returns how long it
// has to wait. One that is larger than the bucket waits until that is full, and then takes more
// than there is. The rate may be another one each time.
func (p *Bucket) Take(now time.Time, rate Rate, bytes int64) (wait time.Duration) {
	at := now.Sub(origin)
	one, size := price(1, rate.Requests), price(bytes, rate.Bytes)
	if wait = p.requests.take(at, one); wait > 0 {
		return max(wait, p.bytes.wait(at, size))
	}
	if wait = p.bytes.take(at, size); wait > 0 {
		p.requests.until.Add(-int64(max(0, one)))
	}
	return wait
}

// Queue charges what is done in any case, and returns how long who has caused it has to wait until the
// rate allows for it: they wait one behind the other, and no longer than most, beyond which nothing is
// charged.
func (p *Bucket) Queue(now time.Time, rate Rate, most time.Duration) (wait time.Duration) {
	if wait = p.Wait(now, rate, 0); wait >= most {
		return most
	}
	p.Charge(now, rate, 1, 0)
	return wait
}

// Wait is how long a request would have to wait; nothing is charged.
func (p *Bucket) Wait(now time.Time, rate Rate, bytes int64) time.Duration {
	at := now.Sub(origin)
	return max(p.requests.wait(at, price(1, rate.Requests)), p.bytes.wait(at, price(bytes, rate.Bytes)))
}

// Charge charges what is not refused.
func (p *Bucket) Charge(now time.Time, rate Rate, requests, bytes int64) {
	at := now.Sub(origin)
	p.requests.charge(at, price(requests, rate.Requests))
	p.bytes.charge(at, price(bytes, rate.Bytes))
}

// Full reports whether nothing is missing, so that a new bucket would do as well.
func (p *Bucket) Full(now time.Time) bool {
	at := int64(now.Sub(origin))
	return p.requests.until.Load() <= at && p.bytes.until.Load() <= at
}

// origin is where the times of buckets begin: by the machine's monotonic clock, whatever its time
// of day is set to.
var origin = time.Now()

const longAgo = math.MinInt64 / 2

// level is one of the two in a bucket: the moment, after origin, until which the rate takes for what
// has been sent.
type level struct{ until atomic.Int64 }

// wait is how long what costs price has to wait.
func (l *level) wait(at, price time.Duration) time.Duration {
	return waitAfter(max(0, time.Duration(l.until.Load())-at), price)
}

func waitAfter(sent, price time.Duration) time.Duration {
	if price == unlimited { // perhaps not any more
		return 0
	}
	return max(0, sent+min(burst, price)-burst)
}

func (l *level) take(at, price time.Duration) (wait time.Duration) {
	for price != unlimited {
		until := l.until.Load()
		sent := max(0, time.Duration(until)-at)
		if wait = waitAfter(sent, price); wait > 0 {
			return wait
		}
		if l.until.CompareAndSwap(until, int64(at+min(longestDebt, sent+price))) {
			break
		}
	}
	return 0
}

func (l *level) charge(at, price time.Duration) {
	for price > 0 {
		until := l.until.Load()
		if l.until.CompareAndSwap(until, int64(at+min(longestDebt, max(0, time.Duration(until)-at)+price))) {
			return
		}
	}
}

// unlimited is the price of what no rate limits.
const unlimited = -1

// price is how long a rate takes for n, at most longestDebt.
func price(n, rate int64) time.Duration {
	if rate == 0 {
		return unlimited
	}
	return time.Duration(min(float64(longestDebt), float64(n)/float64(rate)*float64(time.Second)))
}

// Meter limits what one connection may send. All its methods may be called from any
// goroutine.
type Meter struct {
	// set at open
	limiter *Limiter
	own     *Bucket
	address *Bucket // shared by the address's connections; nil: not limited
}

// meterLocked makes the meter of a new connection from address a; nil: it is not limited.
func (l *Limiter) meterLocked(peer netip.Addr, a *address) *Meter {
	if l.limits.AddressRate != (Rate{}) && a.bucket == nil && !l.exempt(peer) {
		if a.bucket = l.buckets.get(peer); a.bucket == nil {
			a.bucket = NewBucket()
		}
	}
	if l.limits.Rate == (Rate{}) && a.bucket == nil {
		return nil
	}
	return &Meter{limiter: l, own: NewBucket(), address: a.bucket}
}

// Take charges a request of so many bytes, or returns a refusal that says when to try again. What
// only the address is refused is charged to the connection.
func (m *Meter) Take(now time.Time, bytes int64) error {
	limits, count := &m.limiter.limits, &m.limiter.Count
	if wait := m.own.Take(now, limits.Rate, bytes); wait > 0 {
		count.Rate.Add(1)
		return limits.Rate.refusal("this connection", wait)
	}
	if m.address == nil {
		return nil
	}
	if wait := m.address.Take(now, limits.AddressRate, bytes); wait > 0 {
		count.AddressRate.Add(1)
		return limits.AddressRate.refusal("this address", wait)
	}
	return nil
}

// Charge charges what is not refused.
func (m *Meter) Charge(now time.Time, requests, bytes int64) {
	m.own.Charge(now, m.limiter.limits.Rate, requests, bytes)
	if m.address != nil {
		m.address.Charge(now, m.limiter.limits.AddressRate, requests, bytes)
	}
}

func (r Rate) refusal(who string, wait time.Duration) error {
	return &codes.Error{
		Code:  codes.Busy,
		Text:  fmt.Sprintf("%s may send %s per second; nothing was done, try again later", who, r),
		After: wait,
	}
}

// String names what is limited.
func (r Rate) String() string {
	switch {
	case r.Bytes == 0:
		return fmt.Sprintf("%d requests", r.Requests)
	case r.Requests == 0:
		return fmt.Sprintf("%d bytes", r.Bytes)
	}
	return fmt.Sprintf("%d requests and %d bytes", r.Requests, r.Bytes)
}
