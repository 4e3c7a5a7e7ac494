package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"confcenter/client/internal/connection"
	"confcenter/codes"
	"confcenter/kv"
	"confcenter/protocol"
)

// Lock is a lock that is held. A holder may not notice at once that it has lost the
// lock, and a paused program may take long. Use WithFence for writes that must not
// happen then, and watch Lost for work outside the store.
type Lock struct {
	// set at open
	s      *KV
	key    string
	token  kv.Revision
	lease  *Lease                  // ends when the lock is no longer held
	grants chan protocol.KVGranted // capacity 1: for acquire
}

// Lock acquires the lock of that name, a key of the namespace, and waits its turn as
// long as ctx lasts. It is kept alive until Unlock; ttl is how long it stays taken if
// this program dies or is cut off. The key's value is Config.Name, for people who
// look.
//
// If ctx ends first, the place in the line is given up in the background, and so is
// the lock if it has just been granted.
func (s *KV) Lock(ctx context.Context, key string, ttl time.Duration) (*Lock, error) {
	return s.lock(ctx, key, ttl, true)
}

// TryLock is Lock without waiting: the error is codes.Locked if someone else holds
// the lock.
func (s *KV) TryLock(ctx context.Context, key string, ttl time.Duration) (*Lock, error) {
	return s.lock(ctx, key, ttl, false)
}

func (s *KV) lock(ctx context.Context, key string, ttl time.Duration, wait bool) (_ *Lock, err error) {
	ctx, end := s.c.observe(ctx, protocol.KVLock)
	defer func() { end(nil, err) }()
	if err := (kv.Filter{NS: s.ns, Text: key, Exact: true}).Check(); err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	lease, err := s.grant(ctx, ttl)
	if err != nil {
		return nil, fmt.Errorf("lock %s of %s: %w", key, s.ns, err)
	}
	l := &Lock{s: s, key: key, lease: lease, grants: make(chan protocol.KVGranted, 1)}
	s.c.mu.Lock()
	s.c.locks[lease.id] = l
	s.c.mu.Unlock()
	l.token, err = l.acquire(ctx, wait)
	if err == nil && s.c.spawn(l.guard) {
		return l, nil
	}
	if !s.c.spawn(l.giveUp) && (err == nil || ctx.Err() == nil) {
		err = &connection.Error{Text: ErrClosed.Error(), Kind: ErrClosed, Sent: true}
	}
	return nil, fmt.Errorf("lock %s of %s: %w", key, s.ns, err)
}

// WithLock acquires the lock of that name as Lock does, calls fn, and releases the
// lock when fn returns or panics.
//
// fn's context ends when the lock is lost, with an error of codes.FenceLost as its
// cause: fn should then return, because someone else may hold the lock. Use
// WithFence(l) for writes that must not happen after that.
//
// The error is that of Lock, or that of fn joined with that of the release:
// codes.FenceLost if the lock was lost in the meantime, even if fn did not notice.
func (s *KV) WithLock(ctx context.Context, key string, ttl time.Duration, fn func(ctx context.Context, l *Lock) error) (err error) {
	l, err := s.Lock(ctx, key, ttl)
	if err != nil {
		return err
	}
	held, cancel := context.WithCancelCause(ctx)
	defer context.AfterFunc(l.lease.ctx, func() { cancel(l.lostError()) })()
	defer func() {
		cancel(nil)
		err = errors.Join(err, l.Unlock(context.WithoutCancel(ctx)))
	}()
	return fn(held, l)
}

// giveUpLocks revokes the leases of locks when the client is closed, within its time for that.
func (c *Client) giveUpLocks(sess *session, locks []*Lock) {
	timer := c.cfg.Clock.NewTimer(c.cfg.CloseTimeout)
	defer timer.Stop()
	ctx := context.Background()
	for some := range slices.Chunk(locks, c.cfg.MaxInFlight) {
		calls := make([]*connection.Call, len(some))
		for i, l := range some {
			frame, _ := l.lease.revocation()
			calls[i] = sess.Start(protocol.KVRevoke, protocol.FinishFrame(frame, 0))
		}
		for i, cl := range calls {
			body, err := cl.Wait(ctx, timer.C())
			if err == nil && sess.Later(ctx, timer.C(), connection.RetryAfter(body)) {
				frame, _ := some[i].lease.revocation()
				body, err = sess.Request(ctx, timer.C(), protocol.KVRevoke, protocol.FinishFrame(frame, 0))
			}
			if late(err) || connection.RetryAfter(body) > 0 { // there is no time left
				return
			}
		}
	}
}

// forget takes the lock off Close's list.
func (l *Lock) forget() {
	l.s.c.mu.Lock()
	defer l.s.c.mu.Unlock()
	if l.s.c.locks[l.lease.id] == l { // else a server with other data has given the number again
		delete(l.s.c.locks, l.lease.id)
	}
}

// acquire requests the lock on one connection after another until it is granted.
// Requesting it again is harmless, because the lease identifies the holder.
func (l *Lock) acquire(ctx context.Context, wait bool) (kv.Revision, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(l.lease.ctx, func() { cancel(l.lease.Err()) })()
	for patient := wait || l.s.c.cfg.StateWaits; ; patient = true {
		sess, fence, err := l.ask(ctx, wait, patient)
		switch {
		case err == nil && fence == 0:
			if fence, err = l.inLine(ctx, sess); fence != 0 || err != nil {
				return fence, err
			}
		case err == nil, sess == nil && !patient, !lost(err):
			return fence, err
		}
	}
}

// inLine waits for the grant. If it returns neither a fence nor an error, the lock must
// be requested again on another connection.
func (l *Lock) inLine(ctx context.Context, sess *session) (kv.Revision, error) {
	for {
		select {
		case g := <-l.grants:
			switch g.Code {
			case 0:
				return g.Fence, nil
			case codes.Closed: // the server is shutting down
				continue
			}
			return 0, refusal(protocol.Result{Code: int32(g.Code), Desc: g.Desc})
		case <-sess.Done():
			return 0, nil
		case <-ctx.Done():
			return 0, connection.ContextError(ctx, true)
		}
	}
}

// ask sends one KVLOCK. The fence is 0 if the request waits in line; the session is nil
// if there was none. If patient is set, ask waits for a session as long as ctx lasts.
func (l *Lock) ask(ctx context.Context, wait, patient bool) (*session, kv.Revision, error) {
	c := l.s.c
	if patient {
		if err := c.WaitConnected(ctx); err != nil {
			return nil, 0, err
		}
	}
	timer := c.cfg.Clock.NewTimer(c.cfg.RequestTimeout)
	defer timer.Stop()
	frame := protocol.AppendKVLock(begin(protocol.KVLock), protocol.KVLockRequest{
		NS: l.s.ns, Key: l.key, Lease: l.lease.id, Value: kv.StringValue(c.cfg.Name), Wait: wait, Raw: true,
	})
	sess, body, err := c.attempt(ctx, timer.C(), protocol.KVLock, protocol.FinishFrame(frame, 0), false)
	if err != nil {
		return sess, 0, err
	}
	locked, holder, err := protocol.ParseKVLocked(body, l.s.ns, l.key)
	switch {
	case holder != nil && holder.Value.Type == kv.String:
		return sess, 0, codes.Errorf(codes.Locked, "held by %q since revision %d", holder.Value.Data, holder.Create)
	case err != nil:
		return sess, 0, unreadable(err)
	case !locked.Granted:
		return sess, 0, nil
	}
	return sess, locked.Fence, nil
}

// Fence is the fencing token: it rises with every holder of the lock. WithFence
// passes it to the store. Other systems can use it too if they remember the greatest
// token they have seen.
func (l *Lock) Fence() kv.Revision { return l.token }

// Key is the lock's name.
func (l *Lock) Key() string { return l.key }

func (l *Lock) isLost() bool { return l.lease.ctx.Err() != nil }

func (l *Lock) lostError() error {
	return codes.Errorf(codes.FenceLost, "lock %s of %s was lost or released; acquire it again", l.key, l.s.ns)
}

// Lost is closed when the lock is no longer held or can no longer be relied on: its
// lease has ended or could not be kept alive for its whole time, someone has deleted
// its key, Unlock or Close. That is final: WithFence is refused from then on, even if
// a paused server still keeps the key.
func (l *Lock) Lost() <-chan struct{} { return l.lease.Lost() }

// Unlock releases the lock and closes Lost. The error is codes.FenceLost if Lost was
// closed before or the server knows that the lock is lost; whatever the server still
// keeps of it is released all the same, so that no one waits for it. While there is
// no connection Unlock waits for one, within ctx and Config.RequestTimeout; if the
// server cannot be told, the lock ends by itself within its time.
func (l *Lock) Unlock(ctx context.Context) error {
	lost := l.isLost()
	r, err := l.unlock(ctx, protocol.KVUnlockRequest{NS: l.s.ns, Key: l.key, Fence: l.token})
	_, err = answer(r.body, err, protocol.ParseKVDone)
	if r.repeated && errors.Is(err, codes.FenceLost) {
		err = nil // the first one did it
	}
	if err == nil && lost {
		err = l.lostError()
	}
	if end := l.lease.Revoke(ctx); err == nil {
		err = end
	}
	return during(err, "unlock %s of %s", l.key, l.s.ns)
}

func (l *Lock) unlock(ctx context.Context, q protocol.KVUnlockRequest) (reply, error) {
	return l.s.c.send(ctx, protocol.KVUnlock, protocol.AppendMessage(begin(protocol.KVUnlock), &q), stubborn)
}

// giveUp withdraws the request for the lock, or releases the lock. Errors do not matter,
// since both end with the lease.
func (l *Lock) giveUp() {
	defer l.forget()
	ctx := l.s.c.ctx
	_, _ = l.unlock(ctx, protocol.KVUnlockRequest{NS: l.s.ns, Key: l.key, Lease: l.lease.id})
	_ = l.lease.Revoke(ctx)
}

// guard ends the lease when the lock is no longer held. It watches the lock's key, which
// others can delete; if that fails, it relies on the lease.
func (l *Lock) guard() {
	defer l.forget()
	defer l.lease.cancel(nil)
	w, err := l.s.Watch(l.lease.ctx, WatchOptions{Key: l.key, From: l.token})
	if err == nil {
		defer w.Stop()
		if l.gone(w) {
			return
		}
	}
	<-l.lease.Lost()
}

// gone waits until the lock's key is gone. It returns false if the watch ends first.
func (l *Lock) gone(w *KVWatch) bool {
	seen := false
	for n, err := range w.Events(l.lease.ctx) {
		switch {
		case err != nil:
			return false
		case n.Kind == kv.Resync:
			seen = false
		case n.Kind == kv.Synced && !seen:
			return true
		}
		for i := range n.Events {
			held := n.Events[i].Kind == kv.Put && n.Events[i].Entry.Create == l.token
			if !held {
				return true
			}
			seen = true
		}
	}
	return false
}

// granted handles a KVGRANT. The connection's reader calls it. If there is no such lock,
// the request was given up in the meantime.
func (c *Client) granted(g protocol.KVGranted) {
	c.mu.Lock()
	l := c.locks[g.Lease]
	c.mu.Unlock()
	if l != nil && l.s.ns == g.NS && l.key == g.Key {
		select {
		case l.grants <- g:
		default: // a second grant adds nothing
		}
	}
}
