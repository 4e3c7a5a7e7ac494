package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"confcenter/codes"
	"confcenter/internal/clock"
	"confcenter/kv"
	"confcenter/protocol"
)

// Lease gives keys of any namespace a common end: keys written WithLease end together
// with it. It is kept alive until Revoke or Close, also across connections, so it
// ends by itself only if this program dies or is cut off for longer than its time.
type Lease struct {
	// set at open
	s      *KV
	id     kv.LeaseID
	ttl    time.Duration
	ctx    context.Context         // ends with the lease
	cancel context.CancelCauseFunc // nil: it was given up
}

// Lease grants a lease of that time, at least kv.MinLease and at most
// kv.MaxLease, and keeps it alive; ctx limits the granting only.
func (s *KV) Lease(ctx context.Context, ttl time.Duration) (*Lease, error) {
	l, err := s.grant(ctx, ttl)
	return l, during(err, "lease")
}

func (s *KV) grant(ctx context.Context, ttl time.Duration) (*Lease, error) {
	txn := &kv.Txn{Then: []kv.Op{{Kind: kv.OpGrant, TTL: ttl}}, Token: s.c.tokens.next(), TokenNS: s.ns}
	if err := txn.Check(); err != nil {
		return nil, err
	}
	if s.c.cfg.StateWaits {
		if err := s.c.WaitConnected(ctx); err != nil {
			return nil, err
		}
	}
	asked := s.c.cfg.Clock.Now() // the lease begins no earlier
	id, err := s.askLease(ctx, txn, again)
	if err != nil {
		if unanswered(err) {
			s.c.spawn(func() { s.ungrant(txn) })
		}
		return nil, err
	}
	l := s.newLease(id, ttl)
	if !s.c.spawn(func() { l.cancel(l.keep(asked)) }) {
		l.cancel(nil)
		return nil, closedError()
	}
	return l, nil
}

func (s *KV) newLease(id kv.LeaseID, ttl time.Duration) *Lease {
	l := &Lease{s: s, id: id, ttl: ttl}
	l.ctx, l.cancel = context.WithCancelCause(s.c.ctx)
	return l
}

func (s *KV) askLease(ctx context.Context, txn *kv.Txn, how manner) (kv.LeaseID, error) {
	frame := protocol.AppendKVWrite(begin(protocol.KVLease), protocol.KVLease, txn, true, false)
	res, err := s.c.commit(ctx, protocol.KVLease, frame, txn, how)
	if err == nil && (len(res.Ops) != 1 || res.Ops[0].Lease.ID == 0) {
		err = unreadable(&protocol.ReplyError{Member: "lease"})
	}
	if err != nil {
		return 0, err
	}
	return res.Ops[0].Lease.ID, nil
}

// ungrant revokes a lease that may have been granted after the caller gave up; the
// token identifies it. If the server cannot be reached, the lease ends by itself.
func (s *KV) ungrant(txn *kv.Txn) {
	if id, err := s.askLease(s.c.ctx, txn, stubborn); err == nil {
		_ = s.newLease(id, txn.Then[0].TTL).Revoke(s.c.ctx)
	}
}

// ID is the lease's number.
func (l *Lease) ID() kv.LeaseID { return l.id }

// TTL is the lease's time.
func (l *Lease) TTL() time.Duration { return l.ttl }

// Lost is closed when the lease has ended, for whatever reason: the server says
// so, it could not be kept alive for its whole time, Revoke or Close. In the
// second case the server may keep it a little longer; it does not end it earlier.
func (l *Lease) Lost() <-chan struct{} { return l.ctx.Done() }

// Err is why the lease has ended, nil while it has not: codes.LeaseGone,
// codes.Timeout if it could not be kept alive, ErrClosed after Revoke and Close.
func (l *Lease) Err() error {
	err := context.Cause(l.ctx)
	if err == context.Canceled {
		return notSent(ErrClosed, "the lease was given up")
	}
	return err
}

// keep keeps the lease alive and returns why that ended. Time is counted from the
// request, not from the answer, so that the lease never lasts longer here than on the
// server.
func (l *Lease) keep(asked time.Time) error {
	c, next := l.s.c, l.ttl/3
	now := c.cfg.Clock.Now
	for {
		if clock.Within(c.cfg.Clock, next-now().Sub(asked), l.ctx.Done()) {
			return nil
		}
		left := l.ttl - now().Sub(asked)
		if left <= 0 {
			return codes.Errorf(codes.Timeout, "the lease could not be kept alive for %v", l.ttl)
		}
		began := now()
		frame := protocol.FinishFrame(protocol.AppendKVLeaseID(begin(protocol.KVAlive), l.id), 0)
		r, err := c.insist(l.ctx, left, protocol.KVAlive, frame, stubborn)
		_, err = answer(r.body, err, protocol.ParseReply[kv.Lease])
		switch {
		case err == nil:
			asked, next = began, l.ttl/3
		case errors.Is(err, codes.LeaseGone):
			return err
		default:
			next = min(now().Sub(asked)+l.ttl/10, l.ttl)
		}
	}
}

// Revoke ends the lease and deletes its keys. Revoking an ended lease is not an
// error. While there is no connection Revoke waits for one, within ctx and
// Config.RequestTimeout; if the server cannot be told, the lease ends by itself
// within its time.
func (l *Lease) Revoke(ctx context.Context) error {
	l.cancel(nil)
	frame, txn := l.revocation()
	_, err := l.s.c.commit(ctx, protocol.KVRevoke, frame, txn, stubborn)
	if err != nil && !errors.Is(err, codes.LeaseGone) {
		return fmt.Errorf("revoke: %w", err)
	}
	return nil
}

// revocation returns the transaction that ends the lease, and its request, which is not
// finished yet.
func (l *Lease) revocation() (frame []byte, txn *kv.Txn) {
	txn = &kv.Txn{Then: []kv.Op{{Kind: kv.OpRevoke, Lease: l.id}}, Token: l.s.c.tokens.next(), TokenNS: l.s.ns}
	return protocol.AppendKVWrite(begin(protocol.KVRevoke), protocol.KVRevoke, txn, true, false), txn
}

// KeepLease gives any lease its full time again, by number; a Lease of this client
// renews itself. The error is codes.LeaseGone if the lease has ended.
func (c *Client) KeepLease(ctx context.Context, id kv.LeaseID) (kv.Lease, error) {
	return c.aboutLease(ctx, protocol.KVAlive, id)
}

// LeaseInfo describes any lease, by number. The error is codes.LeaseGone if it has
// ended.
func (c *Client) LeaseInfo(ctx context.Context, id kv.LeaseID) (kv.Lease, error) {
	return c.aboutLease(ctx, protocol.KVLeaseInfo, id)
}

func (c *Client) aboutLease(ctx context.Context, cmd protocol.Command, id kv.LeaseID) (kv.Lease, error) {
	l, err := ask(ctx, c, cmd, protocol.AppendKVLeaseID(begin(cmd), id), asking, protocol.ParseReply[kv.Lease])
	return l, during(err, "lease %d", id)
}
