// Package quota counts what identities and namespaces use, and refuses what is more than the quotas
// in the roles allow, see [policy.Quota]. A refusal has a code, names the limit, and says when to
// try again.
//
// There is one [Book] for all ways into a server. An [Account] is what one identity uses, over all
// its connections; namespaces are counted likewise. Keys, sizes and leases are judged where the store
// commits, which asks the Book: it implements [kv.Quotas].
//
// Quotas can change at any time. What is more than they allow by then stays; nothing is added.
package quota

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"confcenter/access"
	"confcenter/access/policy"
	"confcenter/codes"
	"confcenter/internal/admission"
	"confcenter/internal/clock"
	"confcenter/internal/metric"
	"confcenter/kv"
)

// kinds are how metrics call what the quotas are of.
var kinds = [2]string{"identity", "namespace"}

const (
	ofIdentity = iota
	ofNamespace
)

// Book has all that is counted. All its methods may be called from any goroutine, and none waits.
// The nil Book, of a server without access control, counts and refuses nothing.
type Book struct {
	clock   clock.Clock                     // set at open
	refused [2][policy.Limits]atomic.Uint64 // of identities, of namespaces

	rules   atomic.Pointer[policy.Policy]
	measure atomic.Pointer[Measure]
	// limited finds namespaces; nil: none has a quota. It is replaced, never modified.
	limited atomic.Pointer[map[string]*counted]

	mu sync.Mutex
	// guarded by mu
	accounts map[string]*Account // by identity, see keyOf
	spaces   map[string]*counted
	swept    time.Time // when unused accounts were last looked for
}

// New makes an empty Book, with no quotas in force.
func New(c clock.Clock) *Book {
	b := &Book{clock: c, accounts: map[string]*Account{}, spaces: map[string]*counted{}}
	b.rules.Store(policy.New())
	return b
}

// Set puts the quotas of p in force, for those that are there as well.
func (b *Book) Set(p *policy.Policy) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rules.Store(p)
	for _, a := range b.accounts {
		a.quota.Store(p.Quota(a.who))
	}
	for ns, s := range b.spaces {
		s.quota.Store(quotaOf(p, ns))
	}
	b.limited.Store(nil)
	if p.LimitsNamespaces() {
		b.limited.Store(&map[string]*counted{})
	}
}

// How many accounts, and how many namespaces, are kept of those who have nothing open, and how many
// namespaces are found without a lock.
const (
	keptMost    = 8192
	limitedMost = 512
)

// sweepEvery is how often unused accounts are looked for, at most: to look at all of them takes time.
const sweepEvery = time.Second

// counted is what is counted of an identity or a namespace.
type counted struct {
	// set at open
	book   *Book
	kind   int
	name   string   // as texts call it
	what   []string // of a namespace: as roles and the audit call it
	bucket *admission.Bucket

	quota   atomic.Pointer[policy.Quota] // nil: there is no limit
	watches atomic.Int64
}

// Account is what one identity uses: those who have the same name and groups share it. The nil
// Account, without access control, is no one's and unlimited.
type Account struct {
	counted

	// set at open
	who           *access.Identity
	refusals      *admission.Bucket // what all its connections may be refused before they wait
	administrator bool

	connections atomic.Int64

	users int // guarded by the book's mu: connections and streams that have it
}

func keyOf(id *access.Identity) string {
	return strings.Join(append([]string{id.Name}, id.Groups...), "\x00")
}

// Enter returns the account of an identity, for a peer that comes in and will [Account.Leave].
func (b *Book) Enter(id *access.Identity) *Account {
	if b == nil || id == nil {
		return nil
	}
	key := keyOf(id)
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.accounts[key]
	if a == nil {
		b.sweepLocked(len(b.accounts))
		a = &Account{counted: counted{book: b, name: id.Name, bucket: admission.NewBucket()}, who: id, administrator: id.Administrator(), refusals: admission.NewBucket()}
		a.quota.Store(b.rules.Load().Quota(id))
		b.accounts[key] = a
	}
	a.users++
	return a
}

// Is reports whether it is an identity's.
func (a *Account) Is(id *access.Identity) bool {
	return a != nil && a.who.Name == id.Name && slices.Equal(a.who.Groups, id.Groups)
}

// Administrator reports whether it is an administrator's, who is never refused for what they send,
// and for whom there are places when all others are taken.
func (a *Account) Administrator() bool { return a != nil && a.administrator }

// Leave is called once for each Enter. A peer that comes back soon finds the bucket as it was.
func (a *Account) Leave() {
	if a == nil {
		return
	}
	a.book.mu.Lock()
	defer a.book.mu.Unlock()
	a.users--
}

// sweepLocked forgets unused accounts that would be the same if they were made again, if there are
// many; and if that is not enough, also those with a bucket that is not full.
func (b *Book) sweepLocked(n int) {
	now := b.clock.Now()
	if n < keptMost || now.Sub(b.swept) < sweepEvery && n < 2*keptMost {
		return
	}
	b.swept = now
	for _, whatever := range []bool{false, true} {
		for key, a := range b.accounts {
			if a.users == 0 && (whatever || a.bucket.Full(now)) {
				delete(b.accounts, key)
			}
		}
		for name, s := range b.spaces {
			if s.watches.Load() == 0 && (whatever || s.bucket.Full(now)) {
				delete(b.spaces, name)
			}
		}
		if len(b.accounts) < keptMost && len(b.spaces) < keptMost {
			break
		}
	}
	if b.limited.Load() != nil {
		b.limited.Store(&map[string]*counted{})
	}
}

// spaceLocked makes a namespace known.
func (b *Book) spaceLocked(ns string) *counted {
	s := b.spaces[ns]
	if s == nil {
		b.sweepLocked(len(b.spaces))
		what := shown(ns)
		s = &counted{book: b, kind: ofNamespace, name: strings.TrimPrefix(what, "kv:"), what: []string{what}, bucket: admission.NewBucket()}
		s.quota.Store(quotaOf(b.rules.Load(), ns))
		b.spaces[ns] = s
	}
	return s
}

// find is a namespace; nil: none has a quota. It takes no lock and allocates
// nothing for those asked for lately.
func find[T string | []byte](b *Book, ns T) *counted {
	if b == nil {
		return nil
	}
	all := b.limited.Load()
	if all == nil {
		return nil
	}
	if s, known := (*all)[string(ns)]; known {
		return s
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.spaceLocked(string(ns))
	if all = b.limited.Load(); all == nil {
		return nil
	}
	more := make(map[string]*counted, len(*all)+1)
	if len(*all) < limitedMost {
		maps.Copy(more, *all)
	}
	more[string(ns)] = s
	b.limited.Store(&more)
	return s
}

// rateOf is what a quota says of requests.
func rateOf(q *policy.Quota) admission.Rate {
	if q == nil {
		return admission.Rate{}
	}
	return admission.Rate{Requests: q.Most[policy.Requests], Bytes: q.Most[policy.Bytes]}
}

// Metered reports whether requests are limited.
func (a *Account) Metered() bool {
	return a != nil && rateOf(a.quota.Load()) != admission.Rate{}
}

// Take charges a request of so many bytes, or returns a refusal that says when to try again.
func (a *Account) Take(now time.Time, bytes int64) error {
	if a == nil {
		return nil
	}
	return a.take(now, bytes)
}

// patience is how often per second a peer is refused at once; longestRest is for how long at most the
// next refusal of the same connection is put off.
var patience = admission.Rate{Requests: 50}

const longestRest = time.Second

// Refusals counts those of one connection, for one goroutine at a time. The zero value is ready to use.
type Refusals struct {
	bucket *admission.Bucket // of a connection without an account; nil: it was not refused yet
}

// Backoff is called after a refusal, for each, and returns how long the connection has to wait until its
// next request is looked at; 0: not at all. To refuse a request costs nearly as much as to answer it:
// however many connections an account has, they are refused so often together. A connection of the nil
// Account stands for itself.
func (r *Refusals) Backoff(a *Account, now time.Time) time.Duration {
	bucket := r.bucket
	switch {
	case a != nil:
		bucket = a.refusals
	case bucket == nil:
		bucket = admission.NewBucket()
		r.bucket = bucket
	}
	return bucket.Queue(now, patience, longestRest)
}

// Charge charges what is not refused.
func (a *Account) Charge(now time.Time, requests, bytes int64) {
	if a != nil {
		a.bucket.Charge(now, rateOf(a.quota.Load()), requests, bytes)
	}
}

// Limiting reports whether any namespace has a quota.
func (b *Book) Limiting() bool { return b != nil && b.limited.Load() != nil }

// Spend charges the namespace of a request of so many bytes, or returns a refusal that says when to
// try again. It is for the namespaces that peers name, as the state store calls them.
func (b *Book) Spend(ns []byte, now time.Time, bytes int64) error {
	s := find(b, ns)
	if s == nil {
		return nil
	}
	return s.take(now, bytes)
}

// take charges a bucket, or refuses.
func (c *counted) take(now time.Time, bytes int64) error {
	q := c.quota.Load()
	rate := rateOf(q)
	if rate == (admission.Rate{}) {
		return nil
	}
	wait := c.bucket.Take(now, rate, bytes)
	if wait == 0 {
		return nil
	}
	limit, unit := policy.Requests, "requests"
	if rate.Requests == 0 || c.bucket.Wait(now, admission.Rate{Requests: rate.Requests}, 0) == 0 {
		limit, unit = policy.Bytes, "bytes of requests"
	}
	return c.refuse(limit, codes.Busy, wait, "%s may have %d %s per second; nothing was done, try again later", c.name, q.Most[limit], unit)
}

// soon is when something that others may give up at any time is worth asking for again.
const soon = time.Second

// names are how texts and the audit call the quotas.
var names = func() (list [policy.Limits]string) {
	for limit := range list {
		list[limit] = "quota of " + policy.Limit(limit).String()
	}
	return list
}()

// refuse makes a refusal. Its text begins with the limit's name.
func (c *counted) refuse(limit policy.Limit, code codes.Code, after time.Duration, format string, args ...any) error {
	c.book.refused[c.kind][limit].Add(1)
	return &codes.Error{
		Code: code, Text: names[limit] + ": " + fmt.Sprintf(format, args...), After: after,
		Err: &access.Excess{Do: names[limit], What: c.what},
	}
}

// most is a limit; 0: there is none.
func most(q *policy.Quota, limit policy.Limit) int64 {
	if q == nil {
		return 0
	}
	return q.Most[limit]
}

// takeOne counts one more of something, unless there are most of them already.
func takeOne(n *atomic.Int64, most int64) bool {
	for {
		have := n.Load()
		if most > 0 && have >= most {
			return false
		}
		if n.CompareAndSwap(have, have+1) {
			return true
		}
	}
}

// Connect counts a connection, until [Account.Disconnect].
func (a *Account) Connect() error {
	if a == nil {
		return nil
	}
	if n := most(a.quota.Load(), policy.Connections); !takeOne(&a.connections, n) {
		return a.refuse(policy.Connections, codes.Limit, soon, "%s may have %d connections; close some", a.name, n)
	}
	return nil
}

// Disconnect ends what Connect began.
func (a *Account) Disconnect() {
	if a != nil {
		a.connections.Add(-1)
	}
}

// Watch is a watch, subscription or stream that is counted until it ends. The zero Watch is none.
type Watch struct {
	account, space *counted
}

// Watch counts a watch of an account on a namespace, which is empty for what is not in one.
func (b *Book) Watch(a *Account, ns string) (w Watch, err error) {
	if b == nil {
		return w, nil
	}
	if a != nil {
		if n := most(a.quota.Load(), policy.Watches); !takeOne(&a.watches, n) {
			return w, a.refuse(policy.Watches, codes.Limit, soon, "%s may have %d watches, subscriptions and streams; end some", a.name, n)
		}
		w.account = &a.counted
	}
	if err = w.In(b, ns); err != nil {
		w.End()
		w = Watch{}
	}
	return w, err
}

// In counts it on a namespace as well, unless that is empty.
func (w *Watch) In(b *Book, ns string) error {
	if b == nil || ns == "" {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.spaceLocked(ns)
	if n := most(s.quota.Load(), policy.Watches); !takeOne(&s.watches, n) {
		return s.refuse(policy.Watches, codes.Limit, soon, "namespace %.200q may have %d watches; end some", ns, n)
	}
	w.space = s
	return nil
}

// End is called once when the watch has ended.
func (w Watch) End() {
	for _, c := range [...]*counted{w.account, w.space} {
		if c != nil {
			c.watches.Add(-1)
		}
	}
}

// Namespace implements [kv.Quotas].
func (b *Book) Namespace(ns string, had, has kv.Stock) error {
	s := find(b, ns)
	if s == nil {
		return nil
	}
	q := s.quota.Load()
	if q == nil {
		return nil
	}
	for _, one := range [...]struct {
		limit    policy.Limit
		had, has int64
		what     string
	}{
		{policy.Keys, had.Keys, has.Keys, "keys"},
		{policy.Size, had.Bytes, has.Bytes, "bytes of keys and values"},
		{policy.Leases, had.Leased, has.Leased, "keys with a lease"},
	} {
		if n := q.Most[one.limit]; n > 0 && one.has > n && one.has > one.had {
			return s.refuse(one.limit, codes.Quota, soon, "namespace %.200q has %d of %d %s and would have %d; delete some", ns, one.had, n, one.what, one.has)
		}
	}
	return nil
}

// Lease implements [kv.Quotas].
func (b *Book) Lease(who *access.Identity, have int) error {
	if b == nil || who == nil {
		return nil
	}
	n := most(b.rules.Load().Quota(who), policy.Leases)
	if n == 0 || int64(have) < n {
		return nil
	}
	return (&counted{book: b}).refuse(policy.Leases, codes.Limit, soon, "%s has %d leases, of %d; revoke some, or let them end", who.Name, have, n)
}

// Readings are what is counted, and how much of it.
func (b *Book) Readings() metric.Readings {
	if b == nil {
		b = new(Book) // the numbers are there, and 0
	}
	var list metric.Readings
	for kind, name := range kinds {
		for limit := range policy.Limits {
			list = append(list, metric.Reading{
				Name: "quota_refused_total", Help: "Requests refused because an identity or a namespace has what its quota allows.",
				Labels: []metric.Label{{Name: "kind", Value: name}, {Name: "limit", Value: limit.String()}}, N: int64(b.refused[kind][limit].Load()),
			})
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return append(list,
		metric.Reading{Name: "quota_identities", Help: "Identities that are counted: those with connections, and some that had some lately.", N: int64(len(b.accounts))},
		metric.Reading{Name: "quota_namespaces", Help: "Namespaces that are counted: those with watches, and some of those that were used lately if their requests are limited.", N: int64(len(b.spaces))})
}
