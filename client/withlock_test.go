package client

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
)

// free asserts that no one holds the lock.
func free(t *testing.T, n *KV) {
	t.Helper()
	l, err := n.TryLock(t.Context(), "lock", lockTime)
	require.NoError(t, err)
	require.NoError(t, l.Unlock(t.Context()))
}

func TestWithLockGivesTheLockBack(t *testing.T) {
	_, _, n := space(t)
	broken := errors.New("broken")
	var last context.Context
	for _, want := range []error{nil, broken} {
		err := n.WithLock(t.Context(), "lock", lockTime, func(ctx context.Context, l *Lock) error {
			last = ctx
			_, err := n.TryLock(ctx, "lock", lockTime)
			require.ErrorIs(t, err, codes.Locked)
			_, err = n.PutInt(ctx, "k", 1, WithFence(l))
			require.NoError(t, err)
			return want
		})
		require.ErrorIs(t, err, want)
		require.Error(t, last.Err())
		free(t, n)
	}
	require.Panics(t, func() {
		n.WithLock(t.Context(), "lock", lockTime, func(context.Context, *Lock) error { panic("away") })
	})
	free(t, n)
}

// The caller's context ends the work, and not the giving back.
func TestWithLockGivesTheLockBackAfterItsContext(t *testing.T) {
	_, _, n := space(t)
	ctx, cancel := context.WithCancel(t.Context())
	err := n.WithLock(ctx, "lock", lockTime, func(ctx context.Context, _ *Lock) error {
		cancel()
		<-ctx.Done()
		return ctx.Err()
	})
	require.Equal(t, context.Canceled.Error(), err.Error())
	free(t, n)
	require.ErrorIs(t, n.WithLock(ctx, "lock", lockTime, nil), context.Canceled)
}

func TestWithLockEndsTheWorkWhenTheLockIsLost(t *testing.T) {
	_, _, n := space(t)
	for _, ignores := range []bool{false, true} {
		err := n.WithLock(t.Context(), "lock", lockTime, func(ctx context.Context, _ *Lock) error {
			_, err := n.Delete(t.Context(), "lock") // as an operator may
			require.NoError(t, err)
			<-ctx.Done()
			require.ErrorIs(t, context.Cause(ctx), codes.FenceLost)
			if ignores {
				return nil
			}
			return ctx.Err()
		})
		require.ErrorIs(t, err, codes.FenceLost)
	}
}
