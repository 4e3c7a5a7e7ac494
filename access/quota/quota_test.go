package quota_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/access"
	"confcenter/access/policy"
	"confcenter/access/quota"
	"confcenter/codes"
	"confcenter/internal/clock"
	"confcenter/internal/clock/clocktest"
	"confcenter/kv"
)

func rules(t testing.TB, text string) *policy.Policy {
	role, err := policy.ParseRole("test", []byte(text))
	require.NoError(t, err)
	return policy.New(role)
}

func open(t testing.TB, quotas string) (*quota.Book, *clocktest.Fake) {
	c := clocktest.NewFake(time.Unix(1_000_000, 0))
	b := quota.New(c)
	b.Set(rules(t, `{"quotas": `+quotas+`}`))
	return b, c
}

// refused is a refusal as peers are to get it: with a code, the limit's name and when to try again.
func refused(t *testing.T, err error, code codes.Code, limit policy.Limit) {
	t.Helper()
	require.Equal(t, code, codes.Of(err))
	require.ErrorContains(t, err, "quota of "+limit.String()+": ")
	require.Positive(t, codes.RetryAfter(err))
	x, ok := errors.AsType[*access.Excess](err)
	require.True(t, ok, "the audit knows that it is one")
	require.Equal(t, "quota of "+limit.String(), x.Do)
	if strings.Contains(err.Error(), ": namespace ") {
		require.Len(t, x.What, 1)
		require.Contains(t, err.Error(), strconv.Quote(strings.TrimPrefix(x.What[0], "kv:")))
	}
}

var game = &access.Identity{Name: "token:game-1", Groups: []string{"games"}}

func TestConnectionsOfAnIdentityShareItsQuota(t *testing.T) {
	b, c := open(t, `[{"who": ["token:game-*"], "requests": 10, "bytes": 1000, "connections": 2}]`)
	tcp, web, other := b.Enter(game), b.Enter(game), b.Enter(&access.Identity{Name: "token:game-2"})
	require.NoError(t, tcp.Connect())
	require.NoError(t, web.Connect())
	refused(t, tcp.Connect(), codes.Limit, policy.Connections)
	require.NoError(t, other.Connect(), "each has its own")
	web.Disconnect()
	require.NoError(t, tcp.Connect())

	require.True(t, tcp.Metered())
	for range 5 {
		require.NoError(t, tcp.Take(c.Now(), 1))
		require.NoError(t, web.Take(c.Now(), 1))
	}
	err := web.Take(c.Now(), 1)
	refused(t, err, codes.Busy, policy.Requests)
	require.EqualError(t, err, "quota of requests: token:game-1 may have 10 requests per second; nothing was done, try again later")
	require.Equal(t, 100*time.Millisecond, codes.RetryAfter(err))
	require.NoError(t, other.Take(c.Now(), 1))
	c.Advance(time.Second)
	require.NoError(t, tcp.Take(c.Now(), 5000), "larger than all of it, and paid for afterwards")
	refused(t, tcp.Take(c.Now(), 1), codes.Busy, policy.Bytes)
	tcp.Charge(c.Now(), 100, 0)
	refused(t, tcp.Take(c.Now(), 1), codes.Busy, policy.Requests)

	tcp.Leave()
	web.Leave()
	refused(t, b.Enter(game).Take(c.Now(), 1), codes.Busy, policy.Requests)
	for limit, n := range map[policy.Limit]int64{policy.Requests: 3, policy.Bytes: 1, policy.Connections: 1, policy.Watches: 0} {
		require.Equal(t, n, b.Readings().Get("quota_refused_total", "identity", limit.String()), limit)
	}
}

func TestAdministratorsHaveNoQuotas(t *testing.T) {
	b, c := open(t, `[{"who": ["*"], "requests": 1, "connections": 1, "watches": 1, "leases": 1}]`)
	id := &access.Identity{Name: "token:zoe", Groups: []string{policy.Administrators}}
	a := b.Enter(id)
	require.True(t, a.Administrator())
	require.False(t, a.Metered())
	for range 3 {
		require.NoError(t, a.Connect())
		require.NoError(t, a.Take(c.Now(), 1))
		_, err := b.Watch(a, "")
		require.NoError(t, err)
	}
	require.NoError(t, b.Lease(id, 100))
}

func TestWithoutABookNothingIsCounted(t *testing.T) {
	var b *quota.Book
	a := b.Enter(game)
	require.NoError(t, a.Connect())
	require.NoError(t, a.Take(time.Time{}, 1))
	a.Charge(time.Time{}, 1, 1)
	require.False(t, a.Metered())
	w, err := b.Watch(a, "match")
	require.NoError(t, err)
	w.End()
	require.NoError(t, b.Spend([]byte("match"), time.Time{}, 1))
	require.NoError(t, b.Namespace("match", kv.Stock{}, kv.Stock{Keys: 1}))
	require.NoError(t, b.Lease(game, 1))
	b.Set(nil)
	b.MeasureBy(nil)
	a.Disconnect()
	a.Leave()
	require.Zero(t, b.Readings().Get("quota_refused_total"))
	require.Nil(t, quota.New(clock.Real()).Enter(nil))
}

func TestNamespacesAreLimitedEachForItself(t *testing.T) {
	b, c := open(t, `[{"what": ["kv:ma*"], "requests": 2, "keys": 10, "size": 100, "leases": 3, "watches": 1}]`)
	a := b.Enter(game)
	for _, ns := range []string{"match", "map"} {
		for range 2 {
			require.NoError(t, b.Spend([]byte(ns), c.Now(), 1))
		}
		refused(t, b.Spend([]byte(ns), c.Now(), 1), codes.Busy, policy.Requests)
		w, err := b.Watch(a, ns)
		require.NoError(t, err)
		_, err = b.Watch(a, ns)
		refused(t, err, codes.Limit, policy.Watches)
		w.End()
		_, err = b.Watch(a, ns)
		require.NoError(t, err)
	}
	require.NoError(t, b.Spend([]byte("other"), c.Now(), 1))
	require.EqualValues(t, 2, use(b.Use(game), policy.Watches).N, "those that were refused do not count")

	had := kv.Stock{Keys: 10, Bytes: 100, Leased: 3}
	for limit, has := range map[policy.Limit]kv.Stock{
		policy.Keys:   {Keys: 11, Bytes: 100, Leased: 3},
		policy.Size:   {Keys: 10, Bytes: 101, Leased: 3},
		policy.Leases: {Keys: 10, Bytes: 100, Leased: 4},
	} {
		refused(t, b.Namespace("match", had, has), codes.Quota, limit)
		require.NoError(t, b.Namespace("match", has, has), "what is there may stay")
		require.NoError(t, b.Namespace("match", has, had), "and become less")
		require.NoError(t, b.Namespace("other", had, has))
	}
	require.EqualError(t, b.Namespace("match", had, kv.Stock{Keys: 12}), `quota of keys: namespace "match" has 10 of 10 keys and would have 12; delete some`)
}

func TestWhatTheServerKeepsHasNoQuota(t *testing.T) {
	b, _ := open(t, `[{"what": ["kv"], "keys": 1, "watches": 1}]`)
	for _, ns := range []string{kv.AccessNamespace, kv.ConfigNamespace, kv.BenchNamespace, kv.FlowPrefix + "a"} {
		require.NoError(t, b.Namespace(ns, kv.Stock{Keys: 1}, kv.Stock{Keys: 2}), ns)
		for range 2 {
			_, err := b.Watch(nil, ns)
			require.NoError(t, err)
		}
	}
}

// Tables of player storage, scopes of cluster state and the bench are namespaces with rates.
func TestWhatTheServerKeepsForOthersPaysAsRolesCallIt(t *testing.T) {
	b, c := open(t, `[{"what": ["storage:1/2", "flow:blue", "bench"], "requests": 1}, {"what": ["kv"], "keys": 1}]`)
	require.True(t, b.Limiting())
	for ns, name := range map[string]string{"@storage/1_2": "storage:1/2", "@flow/blue": "flow:blue", "@bench": "bench"} {
		require.NoError(t, b.Spend([]byte(ns), c.Now(), 1))
		err := b.Spend([]byte(ns), c.Now(), 1)
		refused(t, err, codes.Busy, policy.Requests)
		require.ErrorContains(t, err, ": "+name+" may have 1 requests per second")
		x, _ := errors.AsType[*access.Excess](err)
		require.Equal(t, []string{name}, x.What)
		require.NoError(t, b.Namespace(ns, kv.Stock{Keys: 1}, kv.Stock{Keys: 2}))
		got, err := quota.NamespaceOf(name)
		require.NoError(t, err)
		require.Equal(t, ns, got)
		require.Len(t, b.UseOf(ns), 2)
		require.EqualValues(t, 1, use(b.UseOf(ns), policy.Requests).Most)
	}
	for _, ns := range []string{"@storage/1_3", "@storage/odd", "@flow/red", "@flow/.index", "@landing", "@conf/x", "@access", "@audit"} {
		require.NoError(t, b.Spend([]byte(ns), c.Now(), 1))
		require.NoError(t, b.Spend([]byte(ns), c.Now(), 1))
	}
	for _, name := range []string{"kv:@bench", "kv:@flow%2Fblue", "flow:.index", "kv:@landing"} {
		_, err := quota.NamespaceOf(name)
		require.Equal(t, codes.BadRequest, codes.Of(err), name)
	}
	require.False(t, (*quota.Book)(nil).Limiting())
}

func TestLeasesOfAnIdentityAreLimited(t *testing.T) {
	b, _ := open(t, `[{"who": ["group:games"], "leases": 2}]`)
	require.NoError(t, b.Lease(game, 1))
	refused(t, b.Lease(game, 2), codes.Limit, policy.Leases)
	require.NoError(t, b.Lease(nil, 2))
	require.NoError(t, b.Lease(&access.Identity{Name: "token:x"}, 2))
}

// A peer that is connected gets new quotas at once, and keeps what it has.
func TestChangedQuotasAreForThoseWhoAreThere(t *testing.T) {
	b, c := open(t, `[]`)
	a := b.Enter(game)
	for range 3 {
		require.NoError(t, a.Connect())
		_, err := b.Watch(a, "match")
		require.NoError(t, err)
	}
	require.False(t, a.Metered())
	require.NoError(t, b.Spend([]byte("match"), c.Now(), 1))
	b.Set(rules(t, `{"quotas": [{"who": ["token:game-1"], "connections": 2, "requests": 1}, {"what": ["kv:match"], "requests": 1, "watches": 2}]}`))
	require.True(t, a.Metered())
	refused(t, a.Connect(), codes.Limit, policy.Connections)
	_, err := b.Watch(a, "match")
	refused(t, err, codes.Limit, policy.Watches)
	require.NoError(t, b.Spend([]byte("match"), c.Now(), 1))
	refused(t, b.Spend([]byte("match"), c.Now(), 1), codes.Busy, policy.Requests)
	b.Set(rules(t, `{}`))
	require.NoError(t, b.Spend([]byte("match"), c.Now(), 1))
	require.NoError(t, a.Connect())
	require.False(t, a.Metered())
}

type measured struct{}

func (measured) StockOf(ns string) kv.Stock {
	return kv.Stock{Keys: int64(len(ns)), Bytes: 50, Leased: 1}
}
func (measured) LeasesOf(name string) int { return len(name) }

func use(list []quota.Use, limit policy.Limit) quota.Use {
	for _, u := range list {
		if u.Limit == limit {
			return u
		}
	}
	return quota.Use{}
}

func TestWhatIsUsedCanBeSeen(t *testing.T) {
	b, _ := open(t, `[{"name": "q", "who": ["token:game-1"], "connections": 5}, {"what": ["kv:match"], "keys": 9}]`)
	b.MeasureBy(measured{})
	one, two := b.Enter(game), b.Enter(&access.Identity{Name: game.Name})
	require.NoError(t, one.Connect())
	require.NoError(t, two.Connect())
	_, err := b.Watch(two, "match")
	require.NoError(t, err)
	require.Equal(t, []quota.Use{
		{Limit: policy.Connections, N: 2, Most: 5, By: `test, quota 1 "q"`},
		{Limit: policy.Requests}, {Limit: policy.Bytes},
		{Limit: policy.Watches, N: 1}, {Limit: policy.Leases, N: int64(len(game.Name))},
	}, b.Use(game))
	require.Equal(t, []quota.Use{
		{Limit: policy.Requests}, {Limit: policy.Bytes}, {Limit: policy.Watches, N: 1}, {Limit: policy.Leases, N: 1},
		{Limit: policy.Keys, N: 5, Most: 9, By: "test, quota 2"}, {Limit: policy.Size, N: 50},
	}, b.UseOf("match"))
}

// However many come and go, or are named, what is kept of them is bounded.
func TestWhatIsKeptOfThoseWhoLeftIsBounded(t *testing.T) {
	b, c := open(t, `[{"who": ["*"], "requests": 1}, {"what": ["kv"], "requests": 1}]`)
	stays := b.Enter(game)
	require.NoError(t, stays.Connect())
	w, err := b.Watch(stays, "watched")
	require.NoError(t, err)
	for i := range 20_000 {
		a := b.Enter(&access.Identity{Name: fmt.Sprint("cert:", i)})
		require.NoError(t, a.Take(c.Now(), 1))
		a.Leave()
		require.NoError(t, b.Spend([]byte(fmt.Sprint(i)), c.Now(), 1))
		if i%10 == 0 {
			c.Advance(time.Millisecond)
		}
	}
	all := b.Readings()
	require.LessOrEqual(t, all.Get("quota_identities"), int64(2*8192))
	require.LessOrEqual(t, all.Get("quota_namespaces"), int64(2*8192))
	require.EqualValues(t, 1, use(b.Use(game), policy.Connections).N)
	require.EqualValues(t, 1, use(b.UseOf("watched"), policy.Watches).N)
	w.End()
	require.Zero(t, use(b.UseOf("watched"), policy.Watches).N)
	require.Zero(t, use(b.Use(game), policy.Watches).N)
}

func TestManyCountAtATime(t *testing.T) {
	b, c := open(t, `[{"who": ["*"], "connections": 10, "watches": 10, "requests": 50}, {"what": ["kv"], "watches": 10, "requests": 50}]`)
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			a := b.Enter(game)
			defer a.Leave()
			for range 200 {
				if a.Connect() == nil {
					defer a.Disconnect()
				}
				if w, err := b.Watch(a, "match"); err == nil {
					defer w.End()
				}
				_ = b.Spend([]byte("match"), c.Now(), 1)
				if i == 0 {
					b.Set(rules(t, `{"quotas": [{"who": ["*"], "connections": 10, "watches": 10}, {"what": ["kv"], "watches": 10, "requests": 50}]}`))
				}
			}
		})
	}
	all.Wait()
	require.Zero(t, use(b.Use(game), policy.Connections).N)
	require.Zero(t, use(b.UseOf("match"), policy.Watches).N)
}

func TestPayingAllocatesNothing(t *testing.T) {
	b, c := open(t, `[{"who": ["*"], "requests": 1000000, "bytes": 1000000000}, {"what": ["kv"], "requests": 1000000}]`)
	a, ns, now := b.Enter(game), []byte("match"), c.Now()
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		_ = a.Take(now, 10)
		_ = b.Spend(ns, now, 10)
	}))
}

func BenchmarkSpend(b *testing.B) {
	book, c := open(b, `[{"what": ["kv"], "requests": 1000000000}]`)
	ns, now := []byte("match"), c.Now()
	for b.Loop() {
		_ = book.Spend(ns, now, 10)
	}
}

// However many connections an identity has, together they are refused some tens of times a second.
func TestConnectionsOfAnIdentityAreRefusedTogether(t *testing.T) {
	b, c := open(t, `[{"who": ["token:game-*"], "requests": 1}]`)
	one, two, other := b.Enter(game), b.Enter(game), b.Enter(&access.Identity{Name: "token:game-2"})
	var refusals quota.Refusals
	at := time.Duration(0)
	for i := range 50 {
		require.Zero(t, refusals.Backoff([]*quota.Account{one, two}[i%2], c.Now()))
	}
	for i := range 20 {
		before := at
		at = refusals.Backoff([]*quota.Account{one, two}[i%2], c.Now())
		require.Equal(t, 20*time.Millisecond, at-before)
	}
	require.Zero(t, refusals.Backoff(other, c.Now()))
	for range 1000 {
		require.LessOrEqual(t, refusals.Backoff(one, c.Now()), time.Second, "not longer than a peer waits for an answer")
	}
	c.Advance(2 * time.Second)
	require.Zero(t, refusals.Backoff(two, c.Now()))
}

func TestConnectionsOfNobodyAreRefusedEachForItself(t *testing.T) {
	_, c := open(t, `[]`)
	var one, other quota.Refusals
	for range 50 {
		require.Zero(t, one.Backoff(nil, c.Now()))
	}
	require.Equal(t, 20*time.Millisecond, one.Backoff(nil, c.Now()))
	require.Zero(t, other.Backoff(nil, c.Now()))
}
