package disk

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/access"
	"confcenter/internal/memory"
	"confcenter/kv"
	"confcenter/kvstore"
)

// BenchmarkCommit is 64 callers, each of whom waits for its answer.
func BenchmarkCommit(b *testing.B) {
	for name, sync := range map[string]bool{"durable": false, "ackBeforeDisk": true} {
		b.Run(name, func(b *testing.B) {
			commitEach(b, StoreConfig{Disk: Config{Dir: b.TempDir() + "/data", AckBeforeDisk: sync}}, nil)
		})
	}
}

// commitEach writes keys by 64 callers.
func commitEach(b *testing.B, cfg StoreConfig, by *access.Actor) {
	s, err := Open(cfg)
	require.NoError(b, err)
	defer s.Close()
	b.SetParallelism(64 / runtime.GOMAXPROCS(0))
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		answer := make(chan error)
		random := rand.New(rand.NewPCG(rand.Uint64(), 1))
		for pb.Next() {
			txn := kv.PutTxn("bench", fmt.Sprint(random.IntN(100_000)), kv.BytesValue(make([]byte, 256)))
			txn.Actor = by
			if err := s.Commit(txn, func(_ *kv.Result, err error) { answer <- err }); err != nil {
				b.Error(err)
			}
			if err := <-answer; err != nil {
				b.Error(err)
			}
		}
	})
	b.ReportMetric(float64(s.Stats().Commits)/float64(s.Stats().Groups), "txn/group")
}

// BenchmarkOpenMillion opens a store with a million keys of 256 bytes. Run it with
// -benchtime 1x.
func BenchmarkOpenMillion(b *testing.B) {
	dir := b.TempDir() + "/data"
	cfg := StoreConfig{Disk: Config{Dir: dir, AckBeforeDisk: true}, Engine: kvstore.Config{MaxQueue: 1 << 20, Queues: memory.NewPool(3 << 30)}}
	s, err := Open(cfg)
	require.NoError(b, err)
	const keys, perTxn = 1_000_000, 1000
	done := make(chan error, keys/perTxn)
	for i := 0; i < keys; i += perTxn {
		txn := &kv.Txn{}
		for j := range perTxn {
			value := make([]byte, 256)
			for k := range value {
				value[k] = byte(rand.Uint32())
			}
			txn.Then = append(txn.Then, kv.Op{Kind: kv.OpPut, NS: "bench", Key: fmt.Sprintf("some/key-%08d", i+j), Value: kv.BytesValue(value)})
		}
		require.NoError(b, s.Commit(txn, func(_ *kv.Result, err error) { done <- err }))
	}
	for range cap(done) {
		require.NoError(b, <-done)
	}
	require.NoError(b, s.Close())
	s = nil
	b.ResetTimer()
	for range b.N {
		s, err = Open(cfg)
		require.NoError(b, err)
		b.StopTimer()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		b.ReportMetric(float64(m.HeapAlloc)/(1<<20), "MiB")
		began := time.Now()
		v := s.View()
		page, err := v.List(kv.List{NS: "bench", Prefix: "some/key-0050", MaxBytes: 1 << 30})
		require.NoError(b, err)
		b.ReportMetric(float64(time.Since(began).Microseconds()), "us/list")
		require.Len(b, page.Entries, kv.MaxList)
		v.Close()
		require.NoError(b, s.Close())
		b.StartTimer()
	}
}
