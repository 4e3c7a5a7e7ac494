package client

import (
	"context"
	"errors"
	"time"
)

// WithLock calls fn while it holds the lock of that name, for which it waits as Lock
// does, and gives the lock back when fn returns or panics.
//
// fn's context ends when the lock is lost, with an error of codes.FenceLost as its
// cause: fn should then return, since somebody else may hold the lock. What must not
// be written after that is written WithFence(l).
//
// The error is that of Lock, or fn's joined with that of giving the lock back:
// codes.FenceLost if it was lost meanwhile, also when fn has not noticed.
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
