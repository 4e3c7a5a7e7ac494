// Package admission decides who may hold a connection to this process: over all its
// fronts together, because they share the process's file descriptors.
//
// A connection is a unidentified until its peer has said who it is. Unidentified are always let
// in, into a limiter of limited size; when it is full, the one that has been there longest
// without a word has to leave, so that no number of idle unidentified keeps one program out.
// Who has only just come is not asked to go for it: half a limiter has to follow first.
// An address that has many unidentified there makes room for its own. What a unidentified says
// settles it: it takes one of the places of its front, which are limited too. Some of the
// limiter and of each front's places are kept for those who were settled before, and each front
// has some places more that only administrators take, when the others are taken.
//
// A place also meters what its connection sends, and all connections of its address, if
// that is limited.
package admission

import (
	"cmp"
	"container/list"
	"math"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	"confcenter/codes"
	"confcenter/internal/memory"
	"confcenter/internal/metric"
)

// Limits bound what peers can take.
type Limits struct {
	// Unidentified is how many connections of all fronts may be in the limiter. Default 1024.
	Unidentified int
	// PerAddress is how many connections one address may have over all fronts, in the
	// limiter or settled; 0: as many as it likes. If there is a limit, an address may
	// also have at most half of the places of each front: a front can be much smaller.
	PerAddress int
	// Rate is how much one connection may send; AddressRate is how much all connections of
	// one address may.
	Rate, AddressRate Rate
	// Exempt are the networks that PerAddress and AddressRate are not for.
	Exempt []netip.Prefix
	// Memory counts what connections take that do nothing. Default a pool of its own.
	Memory *memory.Pool
}

// leavingMost is how many connections may have been told to leave and not have left: they
// still have a descriptor, beyond the limits. Who would be told next waits for one of them,
// and the newcomers behind it wait in the kernel's queue.
const leavingMost = 128

// remembered is how many addresses, and how many names, are known to have been settled, and
// how many addresses without a connection cannot begin anew with what they may send.
const remembered = 8192

// longestName is how long a name may be to be remembered, in bytes.
const longestName = 128

// administratorsMost is how many places each front has beyond its limit, for administrators.
const administratorsMost = 8

// Counters are what admission counts.
type Counters struct {
	Evicted   atomic.Uint64 `metric:"connections_evicted_total" help:"Unidentified connections closed to make room for others."`
	Address   atomic.Uint64 `metric:"connections_refused_total" label:"limit=address" help:"Connections and clients refused by a limit."`
	Settled   atomic.Uint64 `metric:"connections_refused_total" label:"limit=settled"`
	Extra     atomic.Uint64 `metric:"connections_administrators_total" help:"Connections of administrators that got in although all places were taken."`
	Exhausted atomic.Uint64 `metric:"connections_refused_total" label:"limit=files"` // accepting failed: the process has no descriptor left

	Rate        atomic.Uint64 `metric:"connections_requests_refused_total" label:"limit=rate" help:"Requests refused because a connection or an address sends more than it may."`
	AddressRate atomic.Uint64 `metric:"connections_requests_refused_total" label:"limit=address_rate"`
}

// Connections is where connections begin. All its methods may be called from any goroutine.
type Limiter struct {
	limits Limits // set at open
	Count  Counters

	room *sync.Cond // of mu: there may be room for a unidentified

	mu sync.Mutex
	// guarded by mu
	lists     [ranks]list.List // the unidentified, who has been there longest first
	admitted  uint64           // how many have ever come in
	leaving   int
	addresses map[netip.Addr]*address
	known     recent[netip.Addr, struct{}]
	names     recent[string, struct{}]
	buckets   recent[netip.Addr, *Bucket] // of addresses that have no connections
}

// address is what a peer's address has.
type address struct {
	connections  int
	unidentified [ranks]list.List // of *Place, who has been there longest is first
	bucket       *Bucket          // nil: it may send any amount
}

func (a *address) count() int { return count(a.unidentified[:]) }

func count(lists []list.List) (n int) {
	for i := range lists {
		n += lists[i].Len()
	}
	return n
}

// firstLocked is who has to leave these lists first; nil if they are empty. Each pair of
// lists has those who are silent before those who have said something.
func (l *Limiter) firstLocked(lists []list.List) *Place {
	for ; len(lists) > 0; lists = lists[2:] {
		first, _ := value(lists[0].Front())
		if first != nil && l.admitted-first.number >= uint64(l.limits.Unidentified/2) {
			return first
		}
		if talker, ok := value(lists[1].Front()); ok {
			return talker
		}
		if first != nil {
			return first
		}
	}
	return nil
}

func value(e *list.Element) (*Place, bool) {
	if e == nil {
		return nil, false
	}
	return e.Value.(*Place), true
}

// rank says in which order unidentified connections are closed for others. Having sent something
// raises it.
type rank uint8

const (
	silent        rank = iota // has sent nothing
	spoke                     // has sent something
	trustedSilent             // its address was settled before; these have a share of the limit
	trustedSpoke
	ranks
)

// Shares of the limiter.
const (
	trustedShare = 4  // a quarter is kept for trusted unidentified
	addressShare = 16 // an address with more than a sixteenth makes room for its own
)

// New makes an empty limiter.
func New(limits Limits) *Limiter {
	limits.Unidentified = cmp.Or(limits.Unidentified, 1024)
	limits.Memory = limits.Memory.Or(math.MaxInt64)
	l := &Limiter{limits: limits, addresses: make(map[netip.Addr]*address)}
	l.room = sync.NewCond(&l.mu)
	return l
}

// Front is one way in: a listener, with the places of those who came through it.
type Front struct {
	// set at open
	limiter *Limiter
	places  int
	kept    int
	cost    int64 // of a connection

	// guarded by the limiter's mu
	settled int
	closed  bool
	of      map[netip.Addr]int // settled connections of each address
}

// Front makes a way in with so many places for those who have said who they are, a
// sixteenth of which are kept for addresses and names that have had one before. A connection
// costs so much memory, [memory.TCPCost] or [memory.HTTPCost].
func (l *Limiter) Front(places int, cost int64) *Front {
	return &Front{limiter: l, places: places, kept: places / 16, cost: cost, of: make(map[netip.Addr]int)}
}

// state is where a connection is on its way.
type state uint8

const (
	unidentified state = iota
	settled
	leaving // was told to leave
	left
)

// Place is what one connection holds. Leave gives it back.
type Place struct {
	// set at open
	front *Front
	peer  netip.Addr
	// Meter limits what is sent; nil: nothing does.
	Meter *Meter

	cost int32 // set at open; here it takes no room

	// guarded by the limiter's mu
	state  state
	rank   rank
	number uint64        // the limiter's admitted when it came
	entry  *list.Element // of a unidentified: among those of its rank
	own    *list.Element // of a unidentified: among those of its address
	evict  func()        // nil: not known yet
}

// Refusals.
var (
	errAddress = codes.Errorf(codes.Busy, "this address has as many connections as one may have; close some")
	errClosed  = codes.Errorf(codes.Closed, "the server is stopping")
	errSettled = codes.Errorf(codes.Busy, "the server has as many clients as it may have; try again later")
)

// Admit lets a new connection in, at the cost of another unidentified if the limiter is full. It
// waits while too many of those have not left yet. It is the caller who closes what is
// refused.
func (f *Front) Admit(peer netip.Addr) (*Place, error) { return f.AdmitAt(peer, f.cost) }

// AdmitAt is Admit for a connection that costs so much memory.
func (f *Front) AdmitAt(peer netip.Addr, cost int64) (*Place, error) {
	l := f.limiter
	p := &Place{front: f, peer: peer.Unmap(), cost: int32(cost)}
	victim, err := l.admit(p)
	if victim != nil {
		victim()
	}
	if err != nil {
		return nil, err
	}
	return p, nil
}

func (l *Limiter) admit(p *Place) (victim func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.fullLocked() && l.leaving >= leavingMost && !p.front.closed {
		l.room.Wait()
	}
	switch {
	case p.front.closed:
		return nil, errClosed
	case l.addressLocked(p.peer).connections >= l.limits.PerAddress && l.bounds(p.peer):
		l.Count.Address.Add(1)
		return nil, errAddress
	}
	if l.fullLocked() {
		victim = l.victimLocked(p.peer).leaveLocked()
		l.Count.Evicted.Add(1)
	}
	if l.known.has(p.peer) {
		p.rank = trustedSilent
	}
	p.number = l.admitted
	l.admitted++
	a := l.addressLocked(p.peer)
	l.addresses[p.peer] = a
	a.connections++
	l.limits.Memory.Add(int64(p.cost))
	p.Meter = l.meterLocked(p.peer, a)
	l.enterLocked(p, a)
	return victim, nil
}

func (l *Limiter) fullLocked() bool { return count(l.lists[:]) >= l.limits.Unidentified }

// addressLocked is what an address has; it is not kept if that is nothing yet.
func (l *Limiter) addressLocked(peer netip.Addr) *address {
	if a := l.addresses[peer]; a != nil {
		return a
	}
	return &address{}
}

// enterLocked puts a unidentified behind all others of its rank.
func (l *Limiter) enterLocked(p *Place, a *address) {
	p.entry = l.lists[p.rank].PushBack(p)
	p.own = a.unidentified[p.rank].PushBack(p)
}

// bounds reports whether there are limits for the address.
func (l *Limiter) bounds(peer netip.Addr) bool { return l.limits.PerAddress > 0 && !l.exempt(peer) }

func (l *Limiter) exempt(peer netip.Addr) bool {
	return slices.ContainsFunc(l.limits.Exempt, func(n netip.Prefix) bool { return n.Contains(peer.WithZone("")) })
}

// victimLocked is who has to leave for a newcomer.
func (l *Limiter) victimLocked(newcomer netip.Addr) *Place {
	if own := l.addressLocked(newcomer); own.count() > max(1, l.limits.Unidentified/addressShare) {
		return l.firstLocked(own.unidentified[:])
	}
	if trusted := l.lists[trustedSilent:]; count(trusted) > l.limits.Unidentified/trustedShare {
		return l.firstLocked(trusted)
	}
	return l.firstLocked(l.lists[:])
}

// leaveLocked takes a unidentified out of the limiter and returns what closes it.
func (p *Place) leaveLocked() (evict func()) {
	l := p.front.limiter
	l.forgetLocked(p)
	p.state = leaving
	l.leaving++
	return p.evict
}

// forgetLocked takes a unidentified off its lists.
func (l *Limiter) forgetLocked(p *Place) {
	l.lists[p.rank].Remove(p.entry)
	l.addresses[p.peer].unidentified[p.rank].Remove(p.own)
	p.entry, p.own = nil, nil // which a settled place would keep
	l.room.Signal()
}

// Evictable says how the connection is closed, which Admit could not know yet. It is
// false if that should have happened already: then the caller closes it. evict is called
// at most once, on the goroutine that needs the place, and must not wait.
func (p *Place) Evictable(evict func()) bool {
	l := p.front.limiter
	l.mu.Lock()
	defer l.mu.Unlock()
	p.evict = evict
	return p.state == unidentified
}

// Spoke records that the peer has sent something, if not who it is.
func (p *Place) Spoke() {
	l := p.front.limiter
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.state != unidentified || p.rank == spoke || p.rank == trustedSpoke {
		return
	}
	l.forgetLocked(p)
	p.rank++
	l.enterLocked(p, l.addresses[p.peer])
}

// Settle takes one of the front's places, because the peer has said who it is; name may be
// empty. It fails if there is none left for an unknown peer, or for this address, and then
// the connection stays in the limiter.
func (p *Place) Settle(name string) error { return p.settleOrCount(name, false) }

// SettleAdministrator is Settle for a peer who can help when the server is full: no address has
// too many of them, and there are places beyond the front's limit.
func (p *Place) SettleAdministrator(name string) error { return p.settleOrCount(name, true) }

func (p *Place) settleOrCount(name string, administrator bool) error {
	err := p.settle(name, administrator)
	switch err {
	case errSettled:
		p.front.limiter.Count.Settled.Add(1)
	case errAddress:
		p.front.limiter.Count.Address.Add(1)
	}
	return err
}

// SettleIfRoom is Settle for a peer that is served in any case: nothing is refused, and
// nothing counted, if there is no place.
func (p *Place) SettleIfRoom(name string) bool { return p.settle(name, false) == nil }

func (p *Place) settle(name string, administrator bool) error {
	l, f := p.front.limiter, p.front
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.state != unidentified {
		return nil // settled already, or on its way out
	}
	if f.of[p.peer] >= max(1, f.places/2) && l.bounds(p.peer) && !administrator {
		return errAddress
	}
	room := f.places
	switch {
	case administrator:
		room += administratorsMost
	case !l.known.has(p.peer) && (name == "" || !l.names.has(name)):
		room -= f.kept
	}
	if f.settled >= room {
		return errSettled
	}
	if f.settled >= f.places {
		l.Count.Extra.Add(1)
	}
	l.known.add(p.peer, struct{}{})
	if name != "" && len(name) <= longestName {
		l.names.add(name, struct{}{})
	}
	l.forgetLocked(p)
	p.state, p.evict = settled, nil
	f.settled++
	f.of[p.peer]++
	return nil
}

// Leave gives the place back: the connection is gone. It may be called more than once.
func (p *Place) Leave() {
	l := p.front.limiter
	l.mu.Lock()
	defer l.mu.Unlock()
	switch p.state {
	case unidentified:
		l.forgetLocked(p)
	case settled:
		p.front.settled--
		if p.front.of[p.peer]--; p.front.of[p.peer] == 0 {
			delete(p.front.of, p.peer)
		}
	case leaving:
		l.leaving--
		l.room.Signal()
	case left:
		return
	}
	p.state = left
	l.limits.Memory.Give(int64(p.cost))
	a := l.addresses[p.peer]
	if a.connections--; a.connections == 0 {
		delete(l.addresses, p.peer)
		if a.bucket != nil {
			l.buckets.add(p.peer, a.bucket)
		}
	}
}

// Close lets no one in any more, and has those who are in the limiter leave.
func (f *Front) Close() {
	for _, evict := range f.close() {
		if evict != nil {
			evict()
		}
	}
}

func (f *Front) close() (evict []func()) {
	l := f.limiter
	l.mu.Lock()
	defer l.mu.Unlock()
	f.closed = true
	l.room.Broadcast()
	for i := range l.lists {
		for e := l.lists[i].Front(); e != nil; {
			p := e.Value.(*Place)
			e = e.Next()
			if p.front == f {
				evict = append(evict, p.leaveLocked())
			}
		}
	}
	return evict
}

// Unidentified is how many connections are in the limiter.
func (l *Limiter) Unidentified() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return count(l.lists[:])
}

// Readings are the counters, and how full the limiter is.
func (l *Limiter) Readings() metric.Readings {
	return append(metric.Of(&l.Count),
		metric.Reading{Name: "connections_unidentified", Help: "Connections whose peer has not said who it is.", N: int64(l.Unidentified())},
		metric.Reading{Name: "connections_unidentified_limit", Help: "How many of these there may be.", N: int64(l.limits.Unidentified)})
}

// recent remembers the last of many keys: a new one takes the place of one of an older
// half.
type recent[K comparable, V any] struct {
	fresh, old map[K]V
}

func (m *recent[K, V]) has(key K) bool {
	_, fresh := m.fresh[key]
	_, old := m.old[key]
	return fresh || old
}

// get is the key's value, the zero value if it is not remembered.
func (m *recent[K, V]) get(key K) V {
	if v, fresh := m.fresh[key]; fresh {
		return v
	}
	return m.old[key]
}

func (m *recent[K, V]) add(key K, v V) {
	if len(m.fresh) >= remembered/2 {
		m.old, m.fresh = m.fresh, nil
	}
	if m.fresh == nil {
		m.fresh = make(map[K]V)
	}
	m.fresh[key] = v
}
