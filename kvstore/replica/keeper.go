package replica

import (
	"context"
	"time"

	"confcenter/codes"
	"confcenter/kv"
	"confcenter/kvstore"
)

// LeaseKeeper is a Log that keeps leases itself, as etcd does: it names them, measures
// their time, and deletes their keys when they end. Others write to such a log, if only
// because it ends leases, so it is Shared.
//
// A replica over such a log ends no leases. It learns of grants and ends from Tail, where
// the end of a lease is one commit together with the deletion of all its keys, and its
// Capabilities refuse what such a log cannot do.
//
// This is an interface of its own rather than a part of Log with a capability beside it:
// the two could contradict each other, and logs that leave leases to the replica would
// need methods that do nothing.
//
// The methods fail with codes.LeaseGone for a lease that has ended or never existed. Any
// other error is passed to the caller; the operation may have taken effect.
type LeaseKeeper interface {
	Log
	// Grant reserves a lease, which may last longer than requested. Replicas learn of it
	// from the transaction that grants it, which is proposed next. Without one the lease
	// ends unnoticed.
	Grant(ctx context.Context, ttl time.Duration) (kv.LeaseID, time.Duration, error)
	// Revoke ends a lease and deletes its keys, at the revision returned.
	Revoke(ctx context.Context, id kv.LeaseID) (kv.Revision, error)
	// KeepAlive restarts a lease's time and returns how long that is.
	KeepAlive(ctx context.Context, id kv.LeaseID) (time.Duration, error)
}

// capabilities returns what a store on this log can do.
func capabilities(log Log) kvstore.Capabilities {
	able := log.Capabilities()
	if _, forgets := log.(Forgetter); !forgets || log.Shared() {
		able.Forgets = false
	}
	if _, keeps := log.(LeaseKeeper); keeps {
		able.TxnLeases, able.LeaseIsRevision, able.LeasesInMemory = false, false, false
	}
	return able
}

// leaseAnswer is the log's answer to an operation on a lease. The operation is evaluated
// with it, more than once if the group has to be evaluated again.
type leaseAnswer struct {
	id   kv.LeaseID
	ttl  time.Duration
	keys int64 // that ended with the lease
	err  error
}

// ask has a log that keeps leases carry out the grants and revocations among the
// transactions, one after the other. It returns how many transactions can be evaluated
// now: a revocation has to wait until everything before it is in the log. ok is false
// if the log has failed.
func (c *committer) ask(list []queued) (ready int, ok bool) {
	leases := c.store.leases
	if leases.keeper == nil {
		return len(list), true
	}
	for i := range list {
		txn := list[i].txn
		op := aboutLease(txn)
		if op == nil || op.Kind == kv.OpRevoke && leases.asked[op] != nil || txn.Token != "" && c.store.tokens.find(txn.TokenNS, txn.Token) != nil {
			continue
		}
		said := &leaseAnswer{}
		if op.Kind == kv.OpGrant {
			said.id, said.ttl, said.err = leases.keeper.Grant(c.store.life, op.TTL)
		} else if i > 0 {
			return i, true
		} else if known := leases.byID[op.Lease]; !txn.System && known != nil && !txn.Actor.Has(known.owner) {
			said.err = kv.NoLease(op.Lease)
		} else if !txn.System && known != nil && known.reserved() {
			said.err = errReservedLease(op.Lease)
		} else if err := c.revoke(op.Lease, said); err != nil {
			c.group.answers = append(c.group.answers, answer{to: &list[i], wrote: true})
			c.fail(err, list)
			return 0, false
		}
		leases.asked[op] = said
	}
	return len(list), true
}

// aboutLease returns the one operation of a transaction that grants or revokes a lease,
// nil for any other transaction.
func aboutLease(txn *kv.Txn) *kv.Op {
	if len(txn.Then) == 1 && (txn.Then[0].Kind == kv.OpGrant || txn.Then[0].Kind == kv.OpRevoke) {
		return &txn.Then[0]
	}
	return nil
}

// answerOf returns the log's answer to an operation on a lease; nil if the replica keeps
// the leases.
func (l *leases) answerOf(op *kv.Op) *leaseAnswer {
	said := l.asked[op]
	if said == nil && l.keeper != nil {
		// The log was not asked because the token was known, but it has expired since.
		return &leaseAnswer{err: codes.Errorf(codes.Busy, "the request's token has just been forgotten; ask again")}
	}
	return said
}

// revoke has the log end a lease, and applies the result. No group is under way.
func (c *committer) revoke(id kv.LeaseID, said *leaseAnswer) error {
	rev, err := c.store.leases.keeper.Revoke(c.store.life, id)
	if err != nil {
		said.err = err
		return nil
	}
	if known := c.store.leases.byID[id]; known != nil {
		said.keys = int64(len(known.keys))
	}
	came, err := c.arrivedThrough(c.group.rev, rev)
	if err != nil {
		return err
	}
	for i := range came.tail {
		if came.tail[i].Revision == rev {
			said.keys = int64(len(came.tail[i].Events))
		}
	}
	c.adopt(came)
	c.publish(nil, nil)
	return nil
}

// keepThere has the log restart a lease's time.
func (s *Store) keepThere(ctx context.Context, id kv.LeaseID) (kv.Lease, error) {
	if _, err := s.use(0); err != nil {
		return kv.Lease{}, err
	}
	defer s.reading.RUnlock()
	asked := s.leases.now()
	ttl, err := s.leases.keeper.KeepAlive(ctx, id)
	if err != nil {
		return kv.Lease{}, err
	}
	return s.leases.renewed(id, asked, ttl), nil
}
