package suite

import (
	"time"

	"confcenter/access"
	"confcenter/codes"
	"confcenter/kv"

	"github.com/stretchr/testify/require"
)

var leaseChecks = []check{
	{name: "LeaseEndsItsKeysTogether", run: leaseEndsTogether},
	{name: "KeepAliveBeginsAnew", run: keepAlive},
	{name: "RevokeDeletesKeys", run: revoke},
	{name: "TokensOfLeases", run: tokensOfLeases},
	{name: "LeasesInTransactions", run: leasesInTransactions},
	{name: "LeaseIsNamedByItsRevision", run: leaseIsNamed},
	{name: "LeaseIsLeftByAPut", run: leaseIsLeft},
	{name: "LockIsWrittenByItsHolder", run: lockIsItsHolders},
	{name: "LeaseOutlastsRestart", run: leaseAfterRestart},
	{name: "LeaseBeginsAnewAfterRestart", run: leaseBeginsAnew},
	{name: "LeaseOfAnEndedOneIsGone", run: leaseIsGone},
	{name: "LeaseIsItsOwners", run: func(s *subject) { leaseIsItsOwners(s, func() {}) }},
	{name: "LeaseIsItsOwnersAfterRestart", run: func(s *subject) { leaseIsItsOwners(s, s.restart) }},
	{name: "TokenIsWhoseItWas", run: tokenIsWhoseItWas},
}

func (s *subject) grant(ttl time.Duration) kv.LeaseID {
	s.Helper()
	r := s.then(kv.Op{Kind: kv.OpGrant, TTL: ttl})
	l := r.Ops[0].Lease
	require.NotZero(s, l.ID)
	require.Equal(s, ttl, l.TTL)
	return l.ID
}

func (s *subject) lease(id kv.LeaseID) kv.Lease {
	s.Helper()
	l, err := s.Engine.Lease(id)
	require.NoError(s, err)
	return l
}

func (s *subject) leaseGone(id kv.LeaseID) bool {
	_, err := s.Engine.Lease(id)
	return codes.Of(err) == codes.LeaseGone
}

func leased(ns, key string, id kv.LeaseID) kv.Op {
	return kv.Op{Kind: kv.OpPut, NS: ns, Key: key, Value: kv.StringValue("x"), Lease: id}
}

func leaseEndsTogether(s *subject) {
	feed := s.follow()
	id, other := s.grant(3*time.Second), s.grant(minute)
	s.then(leased("a", "1", id), leased("a", "2", id))
	s.then(leased("b", "1", id), leased("b", "2", other), putOp("b", "3", "x"))
	require.Equal(s, id, s.get("a", "1").Lease)
	require.Equal(s, 3, s.lease(id).Keys)
	before := s.Engine.Revision()
	s.pass(3*time.Second - time.Millisecond)
	require.Equal(s, "x x", s.texts("a", "1", "2"))
	require.Equal(s, "x x x", s.texts("b", "1", "2", "3"))
	s.pass(time.Millisecond)
	s.eventually("the lease ends", func() bool { return s.leaseGone(id) && s.get("a", "1") == nil })
	changes := feed.changesAfter(before)
	require.Len(s, changes, 1, "in one transaction")
	texts := eventTexts(changes[0].Events)
	require.Equal(s, []string{"expire a 1", "expire a 2", "expire b 1"}, texts)
	require.Equal(s, "- x x", s.texts("b", "1", "2", "3"))
	require.False(s, s.leaseGone(other))
}

func keepAlive(s *subject) {
	id := s.grant(2 * time.Second)
	s.then(leased("ns", "key", id))
	for range 4 {
		s.pass(1500 * time.Millisecond)
		require.LessOrEqual(s, s.lease(id).Left, 500*time.Millisecond)
		l, err := s.Engine.KeepAlive(s.Context(), id)
		require.NoError(s, err)
		require.Equal(s, kv.Lease{ID: id, TTL: 2 * time.Second, Left: l.Left, Keys: 1}, l)
		require.Equal(s, 2*time.Second, l.Left)
	}
	require.Equal(s, "x", s.text("ns", "key"))
	s.pass(2 * time.Second)
	s.eventually("the lease ends", func() bool { return s.leaseGone(id) && s.get("ns", "key") == nil })
	_, err := s.Engine.KeepAlive(s.Context(), id)
	require.Equal(s, codes.LeaseGone, codes.Of(err))
}

func revoke(s *subject) {
	feed := s.follow()
	id := s.grant(minute)
	s.then(leased("a", "1", id), leased("b", "1", id), putOp("b", "2", "x"))
	before := s.Engine.Revision()
	r := s.then(kv.Op{Kind: kv.OpRevoke, Lease: id})
	require.Equal(s, int64(2), r.Ops[0].Count)
	require.Greater(s, r.Revision, before)
	require.Equal(s, []string{"delete a 1", "delete b 1"}, eventTexts(feed.changesAfter(before)[0].Events))
	require.True(s, s.leaseGone(id))
	s.refused(&kv.Txn{Then: []kv.Op{leased("a", "1", id)}}, codes.LeaseGone)
	s.refused(&kv.Txn{Then: []kv.Op{{Kind: kv.OpRevoke, Lease: id}}}, codes.LeaseGone)
	require.Equal(s, "x", s.text("b", "2"))

	empty := s.grant(minute)
	before = s.Engine.Revision()
	r = s.then(kv.Op{Kind: kv.OpRevoke, Lease: empty})
	require.Zero(s, r.Ops[0].Count)
	require.Greater(s, r.Revision, before, "that a lease ends is a change")
}

// tokensOfLeases: a repeated grant returns the same lease, and a reused token ends no lease.
func tokensOfLeases(s *subject) {
	grant := func() *kv.Txn { return tokened("grant", kv.Op{Kind: kv.OpGrant, TTL: minute}) }
	granted := s.must(grant())
	id := granted.Ops[0].Lease.ID
	requireReplay(s, granted, s.must(grant()))
	s.then(leased("ns", "key", id))
	s.refused(tokened("grant", kv.Op{Kind: kv.OpRevoke, Lease: id}), codes.TokenReused)
	require.Equal(s, 1, s.lease(id).Keys)

	revoke := func() *kv.Txn { return tokened("revoke", kv.Op{Kind: kv.OpRevoke, Lease: id}) }
	revoked := s.must(revoke())
	require.Equal(s, int64(1), revoked.Ops[0].Count)
	for _, again := range []func(){func() {}, s.restart} {
		again()
		requireReplay(s, revoked, s.must(revoke()))
		requireReplay(s, granted, s.must(grant()))
		require.True(s, s.leaseGone(id))
	}
}

func leasesInTransactions(s *subject) {
	r := s.then(putOp("a", "1", "x"), kv.Op{Kind: kv.OpGrant, TTL: minute}, getOp("a", "1"))
	require.Equal(s, minute, s.lease(r.Ops[1].Lease.ID).TTL)
	require.Equal(s, "x", string(r.Ops[2].Entry.Value.Data))
	busy := s.grant(minute)
	r = s.then(leased("a", "3", busy), kv.Op{Kind: kv.OpRevoke, Lease: busy})
	require.Equal(s, int64(1), r.Ops[1].Count, "sees the operations before it")
	require.Equal(s, "-", s.text("a", "3"))
}

func leaseIsNamed(s *subject) {
	for range 3 {
		r := s.then(kv.Op{Kind: kv.OpGrant, TTL: minute})
		require.Equal(s, kv.LeaseID(r.Revision), r.Ops[0].Lease.ID)
	}
}

func leaseIsLeft(s *subject) {
	id := s.grant(2 * time.Second)
	s.then(leased("ns", "stays", id), leased("ns", "again", id), leased("ns", "gone", id))
	require.Zero(s, s.put("ns", "stays", "x").Lease)
	s.then(deleteOp("ns", "again"))
	s.put("ns", "again", "x")
	require.Equal(s, 1, s.lease(id).Keys)
	s.pass(2 * time.Second)
	s.eventually("the lease ends", s.gone("gone"))
	require.Equal(s, "x x", s.texts("ns", "stays", "again"))
}

// lockIsItsHolders: a put by others would take a lock out of its lease, and it would never end.
func lockIsItsHolders(s *subject) {
	id, other := s.grant(2*time.Second), s.grant(minute)
	make := leased("ns", "lock", id)
	make.Lock = true
	fence := s.then(make).Ops[0].Entry.Create
	fenced := func(ops ...kv.Op) *kv.Txn {
		return &kv.Txn{Fences: []kv.Fence{{NS: "ns", Key: "lock", Token: fence}}, Then: ops}
	}
	for _, again := range []func(){func() {}, s.restart, s.kill} {
		again()
		for _, op := range []kv.Op{putOp("ns", "lock", "y"), leased("ns", "lock", other), incrOp("ns", "lock", 1)} {
			_, err := s.commit(&kv.Txn{Then: []kv.Op{op}})
			require.Equal(s, codes.Locked, codes.Of(err))
			var taken *kv.Taken
			require.ErrorAs(s, err, &taken)
			require.Equal(s, s.get("ns", "lock"), taken.Holder)
		}
		require.True(s, s.get("ns", "lock").Lock())
		require.Equal(s, id, s.must(fenced(putOp("ns", "lock", "mine"))).Ops[0].Entry.Lease, "the fence alone leaves it the lease")
		s.then(leased("ns", "lock", id))
	}
	s.refused(&kv.Txn{Then: []kv.Op{{Kind: kv.OpPut, NS: "ns", Key: "free", Value: kv.StringValue("x"), Lock: true}}}, codes.BadRequest)
	_, err := s.Engine.KeepAlive(s.Context(), id)
	require.NoError(s, err)
	s.pass(2 * time.Second)
	s.eventually("the lease ends", s.gone("lock"))
	s.put("ns", "lock", "free")
}

func leaseAfterRestart(s *subject) {
	for _, again := range []func(){s.restart, s.kill} {
		id := s.grant(2 * time.Second)
		s.then(leased("ns", "key", id))
		again()
		require.Equal(s, kv.Lease{ID: id, TTL: 2 * time.Second, Left: s.lease(id).Left, Keys: 1}, s.lease(id))
		s.pass(1900 * time.Millisecond)
		_, err := s.Engine.KeepAlive(s.Context(), id)
		require.NoError(s, err)
		s.pass(1900 * time.Millisecond)
		require.Equal(s, "x", s.text("ns", "key"))
		s.pass(2 * time.Second)
		s.eventually("the lease ends", func() bool { return s.leaseGone(id) && s.get("ns", "key") == nil })
	}
}

// leaseBeginsAnew: if keep-alives are kept in memory, it is unknown after a restart how much time
// a lease had left. Its holder gets all of it.
func leaseBeginsAnew(s *subject) {
	for _, again := range []func(){s.restart, s.kill} {
		id := s.grant(2 * time.Second)
		s.then(leased("ns", "key", id))
		s.pass(1900 * time.Millisecond)
		again()
		require.Equal(s, kv.Lease{ID: id, TTL: 2 * time.Second, Left: s.lease(id).Left, Keys: 1}, s.lease(id))
		s.pass(1900 * time.Millisecond)
		require.Equal(s, "x", s.text("ns", "key"))
		_, err := s.Engine.KeepAlive(s.Context(), id)
		require.NoError(s, err)
		s.pass(2 * time.Second)
		s.eventually("the lease ends", func() bool { return s.leaseGone(id) && s.get("ns", "key") == nil })
	}
}

func leaseIsGone(s *subject) {
	id := s.grant(kv.MinLease)
	s.pass(kv.MinLease + time.Millisecond)
	s.eventually("the lease ends", func() bool { return s.leaseGone(id) })
	for _, again := range []func(){func() {}, s.restart, s.kill} {
		again()
		require.True(s, s.leaseGone(id), "it does not come back")
		s.refused(&kv.Txn{Then: []kv.Op{leased("ns", "key", id)}}, codes.LeaseGone)
		require.True(s, s.leaseGone(12345))
	}
}

// actor is an actor that was proved to be name.
func actor(name string, groups ...string) *access.Actor {
	return &access.Actor{Identity: &access.Identity{Name: name, Groups: groups}}
}

func leaseIsItsOwners(s *subject, meanwhile func()) {
	id := s.must(&kv.Txn{Actor: actor("token:a", "g"), Then: []kv.Op{{Kind: kv.OpGrant, TTL: minute}}}).Ops[0].Lease.ID
	nobodys := s.grant(minute)
	s.must(&kv.Txn{Actor: actor("token:a"), Then: []kv.Op{leased("ns", "key", id)}})
	meanwhile()
	require.Equal(s, &access.Identity{Name: "token:a", Groups: []string{"g"}}, s.lease(id).Owner)
	require.Nil(s, s.lease(nobodys).Owner)
	revoke := func(id kv.LeaseID) kv.Op { return kv.Op{Kind: kv.OpRevoke, Lease: id} }
	for _, other := range []*access.Actor{actor("token:b"), actor("token:b", "g"), actor("cert:a")} {
		for _, id := range []kv.LeaseID{id, nobodys} {
			for _, op := range []kv.Op{leased("ns", "other", id), revoke(id)} {
				_, err := s.commit(&kv.Txn{Actor: other, Then: []kv.Op{op}})
				require.Equal(s, kv.NoLease(id), err, "as if there was none")
			}
		}
	}
	require.Nil(s, s.get("ns", "other"))
	s.must(&kv.Txn{Actor: actor("token:root", access.Administrators), Then: []kv.Op{leased("ns", "other", id)}})
	s.must(&kv.Txn{Actor: actor("token:b"), System: true, Then: []kv.Op{leased("ns", "third", id)}})
	require.EqualValues(s, 3, s.must(&kv.Txn{Actor: actor("token:a"), Then: []kv.Op{revoke(id)}}).Ops[0].Count)
	s.must(&kv.Txn{Then: []kv.Op{revoke(nobodys)}})
}

// Who asks is part of what was asked.
func tokenIsWhoseItWas(s *subject) {
	ask := func(by *access.Actor, asked string) *kv.Txn {
		return &kv.Txn{Actor: by, Then: []kv.Op{{Kind: kv.OpIncr, NS: "ns", Key: "key", Delta: 1}}, Token: "t" + asked, TokenNS: "ns", Asked: []byte(asked)}
	}
	for _, asked := range []string{"", "some"} {
		first := s.must(ask(actor("token:a"), asked))
		require.True(s, s.must(ask(actor("token:a", "g"), asked)).Replayed)
		require.Equal(s, first.Revision, s.must(ask(actor("token:a"), asked)).Revision)
		for _, other := range []*access.Actor{actor("token:b"), actor("token:root", access.Administrators), nil, {Name: "token:a"}} {
			s.refused(ask(other, asked), codes.TokenReused)
		}
	}
	unknown := s.must(ask(nil, "other"))
	require.Equal(s, unknown.Revision, s.must(ask(nil, "other")).Revision)
	s.refused(ask(actor("token:a"), "other"), codes.TokenReused)
}
