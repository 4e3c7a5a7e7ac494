package kvstore

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/access"
	"confcenter/access/policy"
	"confcenter/access/quota"
	"confcenter/codes"
	"confcenter/internal/clock/clocktest"
	"confcenter/kv"
)

func quotas(t *testing.T, text string) *quota.Book {
	role, err := policy.ParseRole("test", []byte(`{"quotas": `+text+`}`))
	require.NoError(t, err)
	b := quota.New(clocktest.NewFake(noon))
	b.Set(policy.New(role))
	return b
}

func TestANamespaceHasNoMoreThanItsQuota(t *testing.T) {
	b := onFake(t, Config{})
	b.Quotas().Obey(quotas(t, `[{"what": ["kv:a"], "keys": 3, "size": 20, "leases": 1}]`))
	other := kv.Op{Kind: kv.OpPut, NS: "other", Key: "k", Value: kv.IntValue(1)}
	refused := func(limit string, ops ...kv.Op) {
		t.Helper()
		_, err := b.do(&kv.Txn{Then: ops})
		require.Equal(t, codes.Quota, codes.Of(err))
		require.ErrorContains(t, err, "quota of "+limit)
		require.Positive(t, codes.RetryAfter(err))
	}
	b.must(put("k1", "1"), put("k2", "2"), other)
	refused("keys", put("k3", "3"), put("k4", "4"), other)
	b.must(put("k3", "3"))
	refused("keys", put("k4", "4"))
	b.must(del("k1"), put("k4", "4")) // what counts is what is left
	refused("size", put("k4", strings.Repeat("x", 20)))
	b.must(put("k4", strings.Repeat("x", 12))) // 2 keys of 3 bytes, and 14
	refused("size", put("k4", strings.Repeat("x", 13)))
	b.must(del("k2"), del("k4"))
	lease := b.must(grant(time.Minute)).Ops[0].Lease.ID
	b.must(leased("k5", lease))
	refused("leases", leased("k6", lease))
	b.must(put("k5", "free"), del("k3"), leased("k6", lease))
	require.Equal(t, kv.Stock{Keys: 2, Bytes: 14, Leased: 1}, b.Quotas().StockOf("a"))
}

// What is there when a quota comes may stay, and become less.
func TestAQuotaThatComesLaterTakesNothingAway(t *testing.T) {
	book := quotas(t, `[]`)
	b := onFake(t, Config{})
	b.Quotas().Obey(book)
	b.must(put("k1", "1234"), put("k2", "2"), put("k3", "3"))
	role, err := policy.ParseRole("test", []byte(`{"quotas": [{"what": ["kv"], "keys": 1, "size": 5}]}`))
	require.NoError(t, err)
	book.Set(policy.New(role))
	b.must(put("k1", "123"))
	b.must(del("k3"))
	_, err = b.do(&kv.Txn{Then: []kv.Op{put("k3", "3")}})
	require.Equal(t, codes.Quota, codes.Of(err))
	_, err = b.do(&kv.Txn{Then: []kv.Op{put("k3", "3")}, System: true})
	require.NoError(t, err, "the server itself")
	b.must(kv.Op{Kind: kv.OpDeletePrefix, NS: "a", Key: "k", Confirm: "a"})
	b.must(put("k3", "3"))
}

// drawOps is what one transaction of a crowd does, in two namespaces.
func drawOps(r *rand.Rand, lease kv.LeaseID) (ops []kv.Op) {
	seen := map[string]bool{}
	for range 1 + r.IntN(3) {
		op := kv.Op{Kind: kv.OpPut, NS: [...]string{"a", "b"}[r.IntN(2)], Key: fmt.Sprint("k", r.IntN(20)), Value: kv.StringValue(strings.Repeat("x", r.IntN(40)))}
		if seen[op.NS+op.Key] {
			continue
		}
		seen[op.NS+op.Key] = true
		switch r.IntN(10) {
		case 0, 1:
			op.Kind, op.Value = kv.OpDelete, kv.Value{}
		case 2:
			op.Kind, op.Key, op.Value, op.Limit, op.Confirm = kv.OpDeletePrefix, "k1", kv.Value{}, 3, op.NS
		case 3:
			op.Lease = lease
		case 4:
			op.TTL = time.Duration(1+r.IntN(1000)) * time.Millisecond
		case 5:
			op.Kind, op.Key, op.Value, op.Delta = kv.OpIncr, fmt.Sprint("n", r.IntN(5)), kv.Value{}, 1
		}
		ops = append(ops, op)
	}
	return ops
}

// recount is what namespaces have, counted from what followers are told.
type recount map[string]map[string]*kv.Entry

func (c recount) take(change *kv.Change) {
	for _, event := range change.Events {
		e := event.Entry
		if c[e.NS] == nil {
			c[e.NS] = map[string]*kv.Entry{}
		}
		if delete(c[e.NS], e.Key); event.Kind == kv.Put {
			c[e.NS][e.Key] = e
		}
	}
}

func (c recount) of(ns string) (s kv.Stock) {
	for _, e := range c[ns] {
		s.Keys, s.Bytes, s.Leased = s.Keys+1, s.Bytes+int64(e.Size()), s.Leased+oneIf(e.Lease)
	}
	return s
}

// Whatever many writers do at a time, no revision has more of anything than a namespace's quota,
// and what is counted is what is there, also after a restart.
func TestConcurrentWritersNeverExceedAQuota(t *testing.T) {
	most := kv.Stock{Keys: 8, Bytes: 150, Leased: 3}
	text := fmt.Sprintf(`[{"what": ["kv"], "keys": %d, "size": %d, "leases": %d}]`, most.Keys, most.Bytes, most.Leased)
	b := onFake(t, Config{GroupSize: 16})
	b.Quotas().Obey(quotas(t, text))
	lease := b.must(grant(time.Hour)).Ops[0].Lease.ID
	counted := recount{}
	end := b.Follow(func(batch *kv.Batch) {
		for i := range batch.Changes {
			counted.take(&batch.Changes[i])
			for _, ns := range []string{"a", "b"} {
				has := counted.of(ns)
				if has.Keys > most.Keys || has.Bytes > most.Bytes || has.Leased > most.Leased {
					t.Errorf("revision %d: namespace %s has %+v", batch.Changes[i].Revision, ns, has)
				}
			}
		}
	})
	var done, refused atomic.Int64
	var writers sync.WaitGroup
	for n := range 6 {
		r := rand.New(rand.NewPCG(uint64(n), 1))
		writers.Go(func() {
			for i := range 400 {
				switch _, err := b.do(&kv.Txn{Then: drawOps(r, lease)}); codes.Of(err) {
				case codes.OK:
					done.Add(1)
				case codes.Quota:
					refused.Add(1)
				default:
					t.Errorf("%v", err)
				}
				if n == 0 && i%20 == 0 {
					b.clock.Advance(100 * time.Millisecond)
				}
			}
		})
	}
	writers.Wait()
	end()
	require.Positive(t, refused.Load())
	require.Positive(t, done.Load())
	same := func(s *Store) {
		for _, ns := range []string{"a", "b"} {
			require.Equal(t, counted.of(ns), s.Quotas().StockOf(ns), ns)
		}
	}
	same(b.Store)
	same(reopened(t, Config{}, b.disk, b.clock).Store)
}

// Leases belong to the identity they were granted to, no matter who keeps them alive, and also after a restart.
func TestAnIdentityHasNoMoreLeasesThanItsQuota(t *testing.T) {
	book := quotas(t, `[{"who": ["token:game"], "leases": 2}]`)
	b := onFake(t, Config{})
	b.Quotas().Obey(book)
	as := func(b *bench, name string, ops ...kv.Op) (*kv.Result, error) {
		return b.do(&kv.Txn{Then: ops, Actor: &access.Actor{Identity: &access.Identity{Name: name}}})
	}
	first, err := as(b, "token:game", grant(time.Second))
	require.NoError(t, err)
	second, err := as(b, "token:game", grant(time.Hour), put("k", "1"))
	require.NoError(t, err)
	_, err = as(b, "token:game", grant(time.Hour))
	require.Equal(t, codes.Limit, codes.Of(err))
	require.ErrorContains(t, err, "quota of leases")
	game := &access.Actor{Identity: &access.Identity{Name: "token:game"}}
	_, err = b.do(&kv.Txn{Then: []kv.Op{grant(time.Hour)}, Actor: game, System: true})
	require.Equal(t, codes.Limit, codes.Of(err), "whatever of the server's grants it")
	_, err = b.do(&kv.Txn{Then: []kv.Op{grant(time.Hour)}, Actor: &access.Actor{Origin: access.Server}, System: true})
	require.NoError(t, err, "the server itself")
	for range 3 {
		_, err = as(b, "token:other", grant(time.Hour))
		require.NoError(t, err)
	}
	require.Equal(t, 2, b.Quotas().LeasesOf("token:game"))

	b.clock.Advance(2 * time.Second) // the first ends by itself
	b.settled()
	_, err = b.Lease(first.Ops[0].Lease.ID)
	require.Equal(t, codes.LeaseGone, codes.Of(err))
	_, err = as(b, "token:game", grant(time.Hour))
	require.NoError(t, err)
	again := reopened(t, Config{}, b.disk, b.clock)
	again.Quotas().Obey(book)
	require.Equal(t, 2, again.Quotas().LeasesOf("token:game"))
	_, err = as(again, "token:game", grant(time.Hour))
	require.Equal(t, codes.Limit, codes.Of(err))
	_, err = as(again, "token:game", kv.Op{Kind: kv.OpRevoke, Lease: second.Ops[0].Lease.ID})
	require.NoError(t, err)
	require.Equal(t, 1, again.Quotas().LeasesOf("token:game"))
	require.Equal(t, 3, again.Quotas().LeasesOf("token:other"))
}
