package client

import (
	"context"
	"errors"
	"time"
)

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
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-l.Lost():
			cancel(l.lostError())
		case <-held.Done():
		}
	}()
	defer func() {
		cancel(nil)
		<-ended
		err = errors.Join(err, l.Unlock(context.WithoutCancel(ctx)))
	}()
	return fn(held, l)
}
