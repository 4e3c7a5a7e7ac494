package disk

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/kv"
)

// TestFaultsAtRandom has the disk fail at random operations while many write, each an
// increment with a token. Whatever fails: what was acknowledged is there, once; what was
// refused is not there; and a caller that is told it is not known finds out by asking again. That
// holds for readers, for followers, and after a loss of power.
func TestFaultsAtRandom(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) { faultsAtRandom(t, seed) })
	}
}

func faultsAtRandom(t *testing.T, seed uint64) {
	dice := rand.New(rand.NewPCG(seed, 7))
	p := newPatient(t, func(c *Config) {
		c.TableBytes, c.MemTableBytes = 2<<10, 64<<10
	})
	w := witness(p)
	for range 4 {
		after := atomic.Int64{}
		after.Store(dice.Int64N(60))
		err := []error{syscall.EIO, syscall.EROFS, syscall.ENOSPC}[dice.IntN(3)]
		most := dice.Int64N(40) + 1
		p.sick(func(errorfs.Op) error {
			if n := after.Add(-1); n < 0 && n >= -most {
				return err
			}
			return nil
		})
		var writers sync.WaitGroup
		for i := range 4 {
			writers.Go(func() {
				for n := range 8 {
					w.increment(fmt.Sprint("k", (i+n)%3))
				}
			})
		}
		done := make(chan struct{})
		go func() { defer close(done); writers.Wait() }()
		p.until(func() bool {
			select {
			case <-done:
				return true
			default:
				return false
			}
		})
		p.sick(nil)
		if p.healed() {
			w.follow()
		}
		p.until(p.well)
		w.settle()
	}
	w.check()
	lost := p.fs.Lose(vfs.CrashCloneCfg{})
	require.NoError(t, p.Close())
	p.cfg.Disk.FS = lost
	p.open()
	w.check()
}

// counting knows how often each key must have been incremented.
type counting struct {
	*patient
	mu      sync.Mutex
	tokens  int
	sure    map[string]int64
	unknown []*kv.Txn
	told    map[string]int64 // by the changes that a follower has seen
	seen    kv.Revision      // the newest of them
}

func witness(p *patient) *counting {
	w := &counting{patient: p, sure: map[string]int64{}, told: map[string]int64{}}
	w.follow()
	return w
}

// follow goes on, behind what was told, when the store is open.
func (w *counting) follow() {
	stop := w.Follow(func(b *kv.Batch) { w.tell(b.Changes) })
	w.Cleanup(stop)
	w.mu.Lock()
	from := w.seen
	w.mu.Unlock()
	list, err := w.Changes(w.Context(), from, 1<<30)
	require.NoError(w, err)
	w.tell(list)
}

func (w *counting) tell(changes []kv.Change) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range changes {
		if changes[i].Revision <= w.seen {
			continue
		}
		w.seen = changes[i].Revision
		for j := range changes[i].Events {
			w.told[changes[i].Events[j].Entry.Key]++
		}
	}
}

func (w *counting) increment(key string) {
	w.mu.Lock()
	w.tokens++
	txn := &kv.Txn{TokenNS: "ns", Token: fmt.Sprint("t", w.tokens), Then: []kv.Op{{Kind: kv.OpIncr, NS: "ns", Key: key, Delta: 1}}}
	w.mu.Unlock()
	w.try(txn)
}

// try says a transaction, and notes what became of it.
func (w *counting) try(txn *kv.Txn) {
	done := make(chan error, 1)
	err := w.Commit(txn, func(_ *kv.Result, err error) { done <- err })
	if err == nil {
		err = <-done
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case err == nil:
		w.sure[txn.Then[0].Key]++
	case errors.Is(err, codes.Timeout):
		w.unknown = append(w.unknown, txn)
	case !errors.Is(err, codes.Storage):
		w.Errorf("%v", err)
	}
}

// settle asks again until nothing is unknown.
func (w *counting) settle() {
	w.mu.Lock()
	open := w.unknown
	w.unknown = nil
	w.Logf("%d increments so far, %d of them unknown now", w.tokens, len(open))
	w.mu.Unlock()
	for _, txn := range open {
		w.try(txn)
	}
	require.Empty(w, w.unknown, "the disk is well")
}

func (w *counting) check() {
	w.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for key, n := range w.sure {
		require.Equal(w, fmt.Sprint(n), w.text(key))
		require.Equal(w, n, w.told[key])
	}
}
