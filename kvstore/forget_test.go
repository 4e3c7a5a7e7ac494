package kvstore

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/internal/clock"
	"confcenter/internal/clock/clocktest"
	"confcenter/internal/memory"
	"confcenter/kv"
)

const fields = "@storage/1_1"

func field(key string) *kv.Txn {
	txn := kv.PutTxn(fields, key, kv.IntValue(1))
	txn.System = true
	return txn
}

// forgetting is a call of Forget whose answer comes through the channel.
func (b *bench) forget(list []kv.Held) (<-chan outcome, error) {
	c := make(chan outcome, 1)
	return c, b.Forget(list, func(n int, err error) { c <- outcome{&kv.Result{Revision: kv.Revision(n)}, err} })
}

func (b *bench) field(key string) kv.Held {
	b.Helper()
	r, err := b.do(field(key))
	require.NoError(b, err)
	return kv.Held{NS: fields, Key: key, Mod: r.Revision}
}

func TestTheLogForgetsWhatIsForgotten(t *testing.T) {
	b := onFake(t, Config{})
	h := b.field("key")
	c, err := b.forget([]kv.Held{h, h})
	require.NoError(t, err)
	require.EqualValues(t, 1, (<-c).result.Revision)
	require.Equal(t, 1, b.disk.forgot)
}

func TestWhatWaitsToBeForgottenIsBounded(t *testing.T) {
	f := &fakeLog{gate: make(chan struct{}), entered: make(chan struct{}, 1)}
	pool := memory.NewPool(1 << 30)
	b := reopened(t, Config{Queues: pool}, f, clocktest.NewFake(noon))
	written := b.begin(field("key"))
	<-f.entered
	before := pool.Held()
	large := make([]kv.Held, mostForgetting+1)
	for i := range large {
		large[i] = kv.Held{NS: fields, Key: "k"}
	}
	first, err := b.forget(large)
	require.NoError(t, err, "a list by itself may be as long as it likes")
	require.Greater(t, pool.Held()-before, int64(40*mostForgetting))
	_, err = b.forget(large[:1])
	require.ErrorIs(t, err, codes.Busy)
	require.ErrorContains(t, err, fmt.Sprint(mostForgetting))
	require.ErrorIs(t, b.Forget([]kv.Held{{NS: "a", Key: "k"}}, nil), codes.BadRequest)
	f.gate <- struct{}{}
	require.NoError(t, (<-written).err)
	require.Zero(t, (<-first).result.Revision)
	second, err := b.forget(large[:1])
	require.NoError(t, err)
	<-second
	require.Zero(t, b.forgets.waiting)
	require.Zero(t, pool.Held()-b.index.keptBytes)
}

// The caller is told, also when the store ends before it gets to the request.
func TestForgettingIsAnsweredWhenTheStoreEnds(t *testing.T) {
	for what, end := range map[string]func(b *bench){
		"closed":      func(b *bench) { require.NoError(b, b.Store.Close()) },
		"a dead disk": func(b *bench) { b.disk.set(codes.Storage, nil, nil); _, _ = b.do(field("other")) },
	} {
		t.Run(what, func(t *testing.T) {
			b := onFake(t, Config{})
			h := b.field("key")
			var all []<-chan outcome
			for range 3 {
				c, err := b.forget(append(make([]kv.Held, 3*forgetAtOnce), h)[3*forgetAtOnce:])
				require.NoError(t, err)
				all = append(all, c)
			}
			end(b)
			n := kv.Revision(0)
			for _, c := range all {
				o := <-c
				n += o.result.Revision
			}
			require.LessOrEqual(t, n, kv.Revision(1), "nothing is forgotten twice")
			require.Zero(t, b.forgets.waiting)
		})
	}
}

// BenchmarkForget forgets a hundred thousand of a million entries, and tells for how long
// that holds the committer up at a time.
func BenchmarkForget(b *testing.B) {
	const n, part = 1_000_000, 100_000
	cfg := Config{Clock: clock.Real()}
	s, err := load(b.Context(), cfg.withDefaults(), &nowhere{load: func(l Loader) {
		for i := range n {
			l.Entry(&kv.Entry{NS: fields, Key: fmt.Sprintf("owner:%08d:field", i), Value: kv.BytesValue(make([]byte, 64)), Create: 1, Mod: 1, Version: 1})
		}
	}})
	require.NoError(b, err)
	list := make([]kv.Held, part)
	var steps []time.Duration
	b.ReportAllocs()
	for round := 0; b.Loop(); round++ {
		b.StopTimer()
		left := s.index.keysOf(fields)
		if left < part {
			break
		}
		for i := range list {
			list[i] = kv.Held{NS: fields, Key: fmt.Sprintf("owner:%08d:field", (round+10*i)%n), Mod: 1}
		}
		require.NoError(b, s.forgets.add(&forgetting{list: list, done: func(int, error) {}}))
		s.forgets.waiting = part
		b.StartTimer()
		for more := true; more; {
			began := time.Now()
			more = s.committer.forget()
			steps = append(steps, time.Since(began))
		}
	}
	slices.Sort(steps)
	b.ReportMetric(float64(steps[len(steps)/2].Microseconds()), "median-µs")
	b.ReportMetric(float64(steps[len(steps)*99/100].Microseconds()), "p99-µs")
	b.ReportMetric(float64(steps[len(steps)-1].Microseconds()), "most-µs")
}
