package admission

import (
	"fmt"
	"net/netip"
	"sync"
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
	burst = time.Second // how far a purse may be ahead of its rate
	// longestDebt is how long at most somebody waits, whatever he has sent or announced.
	longestDebt = time.Hour
)

// purse is what a connection or an address may still send.
type purse struct {
	rate Rate // set at open

	// guarded by the owner
	last     time.Time     // when it was looked at
	requests time.Duration // how long the rate takes for what has been sent
	bytes    time.Duration // likewise
}

// wait is how long a request of so many bytes must wait. One that is larger than the purse
// waits until that is full, and then takes more than there is.
func (p *purse) wait(now time.Time, bytes int64) time.Duration {
	if passed := now.Sub(p.last); passed > 0 {
		p.last = now
		p.requests, p.bytes = max(0, p.requests-passed), max(0, p.bytes-passed)
	}
	return max(0, p.requests+min(burst, price(1, p.rate.Requests))-burst, p.bytes+min(burst, price(bytes, p.rate.Bytes))-burst)
}

func (p *purse) take(requests, bytes int64) {
	p.requests = min(longestDebt, p.requests+price(requests, p.rate.Requests))
	p.bytes = min(longestDebt, p.bytes+price(bytes, p.rate.Bytes))
}

// price is how long a rate takes for n, at most longestDebt.
func price(n, rate int64) time.Duration {
	if rate == 0 {
		return 0
	}
	return time.Duration(min(float64(longestDebt), float64(n)/float64(rate)*float64(time.Second)))
}

// sharedPurse is an address's: its connections share it.
type sharedPurse struct {
	mu sync.Mutex
	purse
}

// Meter limits what one connection may send. All its methods may be called from any
// goroutine.
type Meter struct {
	// set at open
	count   *Counters
	address *sharedPurse // nil: not limited

	mu  sync.Mutex
	own purse // guarded by mu
}

// meterLocked makes the meter of a new connection from address a; nil: it is not limited.
func (l *Lobby) meterLocked(peer netip.Addr, a *address) *Meter {
	if l.limits.AddressRate != (Rate{}) && a.purse == nil && !l.exempt(peer) {
		if a.purse = l.purses.get(peer); a.purse == nil {
			a.purse = &sharedPurse{purse: purse{rate: l.limits.AddressRate}}
		}
	}
	if l.limits.Rate == (Rate{}) && a.purse == nil {
		return nil
	}
	return &Meter{count: &l.Count, address: a.purse, own: purse{rate: l.limits.Rate}}
}

// Take charges a request of so many bytes, or charges nothing and returns a refusal that
// says when to try again.
func (m *Meter) Take(now time.Time, bytes int64) error { return m.charge(now, 1, bytes, true) }

// Charge charges what is not refused.
func (m *Meter) Charge(now time.Time, requests, bytes int64) {
	_ = m.charge(now, requests, bytes, false)
}

func (m *Meter) charge(now time.Time, requests, bytes int64, refuse bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if wait := m.own.wait(now, bytes); wait > 0 && refuse {
		m.count.Rate.Add(1)
		return m.own.refusal("this connection", wait)
	}
	if m.address != nil {
		m.address.mu.Lock()
		defer m.address.mu.Unlock()
		if wait := m.address.wait(now, bytes); wait > 0 && refuse {
			m.count.AddressRate.Add(1)
			return m.address.refusal("this address", wait)
		}
		m.address.take(requests, bytes)
	}
	m.own.take(requests, bytes)
	return nil
}

func (p *purse) refusal(who string, wait time.Duration) error {
	return &codes.Error{
		Code:  codes.Busy,
		Text:  fmt.Sprintf("%s may send %s per second; nothing was done, try again later", who, p.rate),
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
