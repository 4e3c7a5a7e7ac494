package linear_test

import (
	"context"
	"sync"
	"testing"

	"confcenter/internal/clock/clocktest"
	"confcenter/kv"
	"confcenter/kvstore"
	"confcenter/kvstore/memory"

	"github.com/stretchr/testify/require"
)

// The checks are worth what they find: each defect, by the checks that are for it.
func TestPlantedDefectsAreFound(t *testing.T) {
	for _, d := range []struct {
		name   string
		caught []string
		open   opener
	}{
		{"stale read", []string{"LinearizableKeys"}, planted(func(e kvstore.Engine) kvstore.Engine { return stale{e} })},
		{"compare ignored", []string{"LinearizableKeys", "LinearizableTransactions"}, planted(func(e kvstore.Engine) kvstore.Engine { return unconditional{e} })},
		{"answer before it is durable", []string{"LinearizableKeysUnderKills", "LinearizableTransactionsUnderKills"}, openEarly},
	} {
		t.Run(d.name, func(t *testing.T) {
			found := 0
			for i := range checks {
				for _, name := range d.caught {
					if checks[i].name == name {
						require.ErrorIs(t, checks[i].on(t, d.open), errUnexplained, name)
						found++
					}
				}
			}
			require.Equal(t, len(d.caught), found, "there is no such check")
		})
	}
}

// planted opens engines in memory that have a fault.
func planted(plant func(kvstore.Engine) kvstore.Engine) opener {
	return func(t testing.TB) instance {
		on := openMemory(t)
		kill := on.Kill
		on.Engine, on.Kill = plant(on.Engine), func() kvstore.Engine { return plant(kill()) }
		return on
	}
}

// stale reads what was before the newest revision.
type stale struct{ kvstore.Engine }

func (s stale) Get(ns, key []byte) (*kv.Entry, kv.Revision) {
	rev := s.Revision()
	e, _ := s.GetAt(context.Background(), string(ns), string(key), rev-1)
	return e, rev
}

// unconditional ignores the conditions of transactions.
type unconditional struct{ kvstore.Engine }

func (u unconditional) Commit(txn *kv.Txn, done func(*kv.Result, error)) error {
	again := *txn
	again.If = nil
	return u.Engine.Commit(&again, done)
}

// early answers before it is durable what it answers: a kill leaves what there was a while ago.
type early struct {
	*memory.Store
	mu      sync.Mutex
	asked   int           // guarded by mu: how many transactions
	durable *memory.Store // guarded by mu
}

func newEarly(on *memory.Store) *early { return &early{Store: on, durable: on.Clone()} }

// left opens what a kill leaves.
func (e *early) left() *early {
	e.mu.Lock()
	defer e.mu.Unlock()
	return newEarly(e.durable.Clone())
}

func (e *early) Commit(txn *kv.Txn, done func(*kv.Result, error)) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.asked++; e.asked%20 == 0 {
		if err := e.durable.Close(); err != nil {
			return err
		}
		e.durable = e.Clone()
	}
	return e.Store.Commit(txn, done)
}

func (e *early) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.durable.Close(); err != nil {
		return err
	}
	return e.Store.Close()
}

func openEarly(t testing.TB) instance {
	now := newEarly(memory.New(memory.Config{Clock: clocktest.NewFake(noon)}))
	return killable(t, now, func() func() kvstore.Engine {
		now = now.left()
		return func() kvstore.Engine { return now }
	})
}
