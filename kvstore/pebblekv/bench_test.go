package pebblekv

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"confcenter/internal/clock"
	"confcenter/kv"
	"confcenter/kvstore/pebblekv/disk"

	"github.com/stretchr/testify/require"
)

// nowhere is a storage that keeps nothing: what remains is the committer's work.
type nowhere struct{ *fakeDisk }

func (nowhere) Append([]disk.Commit) error { return nil }

func (nowhere) Writable(bool) error { return nil }

// loaded is a store with n keys, without its committer running.
func loaded(t testing.TB, n int) (*Store, [][]byte) {
	cfg := Config{Clock: clock.Real()}
	keys := make([][]byte, n)
	s, err := load(cfg.withDefaults(), func(l disk.Loader) (storage, kv.Revision, error) {
		for i := range n {
			keys[i] = fmt.Appendf(nil, "some/prefix/key-%08d", i)
			l.Entry(&kv.Entry{NS: "bench", Key: string(keys[i]), Value: kv.BytesValue(make([]byte, 256)), Create: 1, Mod: 1, Version: 1})
		}
		return nowhere{&fakeDisk{}}, 1, nil
	})
	require.NoError(t, err)
	return s, keys
}

func BenchmarkGet(b *testing.B) {
	s, keys := loaded(b, 100_000)
	ns := []byte("bench")
	random := rand.New(rand.NewPCG(1, 1))
	random.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		if e, _ := s.Get(ns, keys[i%len(keys)]); e == nil {
			b.Fatal("absent")
		}
	}
}

func BenchmarkPutGroup(b *testing.B) {
	for name, txn := range map[string]func(keys [][]byte, i int) *kv.Txn{
		"put": func(keys [][]byte, i int) *kv.Txn {
			return kv.PutTxn("bench", string(keys[i*7919%len(keys)]), kv.BytesValue(make([]byte, 256)))
		},
		"new": func(keys [][]byte, i int) *kv.Txn {
			return kv.PutTxn("bench", fmt.Sprintf("new/%x", uint32(i)*2654435761), kv.BytesValue(make([]byte, 256)))
		},
		"token": func(keys [][]byte, i int) *kv.Txn {
			t := kv.PutTxn("bench", string(keys[i*7919%len(keys)]), kv.BytesValue(make([]byte, 256)))
			t.TokenNS, t.Token = "bench", fmt.Sprintf("client-token-%d", i)
			return t
		},
		"incr": func([][]byte, int) *kv.Txn {
			return &kv.Txn{Then: []kv.Op{{Kind: kv.OpIncr, NS: "bench", Key: "counter", Delta: 1}}}
		},
	} {
		b.Run(name, func(b *testing.B) {
			const size = 256
			s, keys := loaded(b, 100_000)
			done := func(*kv.Result, error) {}
			b.ReportAllocs()
			for i := 0; i < b.N; {
				b.StopTimer()
				list := make([]queued, min(size, b.N-i))
				for j := range list {
					list[j] = queued{txn: txn(keys, i), done: done}
					if list[j].txn.Token != "" {
						list[j].digest = digestOf(list[j].txn)
					}
					i++
				}
				b.StartTimer()
				if !s.committer.commit(list) {
					b.Fatal("failed")
				}
				s.committer.tend()
			}
		})
	}
}

func BenchmarkDigest(b *testing.B) {
	txn := kv.PutTxn("bench", "some/prefix/key-00000001", kv.BytesValue(make([]byte, 256)))
	b.ReportAllocs()
	for range b.N {
		digestOf(txn)
	}
}

// BenchmarkCommit is 64 callers, each of whom waits for its answer.
func BenchmarkCommit(b *testing.B) {
	for name, sync := range map[string]bool{"durable": false, "ackBeforeDisk": true} {
		b.Run(name, func(b *testing.B) {
			s, err := Open(Config{Disk: disk.Config{Dir: b.TempDir() + "/data", AckBeforeDisk: sync}})
			require.NoError(b, err)
			defer s.Close()
			b.SetParallelism(64 / runtime.GOMAXPROCS(0))
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				answer := make(chan error)
				random := rand.New(rand.NewPCG(rand.Uint64(), 1))
				for pb.Next() {
					txn := kv.PutTxn("bench", fmt.Sprint(random.IntN(100_000)), kv.BytesValue(make([]byte, 256)))
					if err := s.Commit(txn, func(_ *kv.Result, err error) { answer <- err }); err != nil {
						b.Error(err)
					}
					if err := <-answer; err != nil {
						b.Error(err)
					}
				}
			})
			b.ReportMetric(float64(s.Stats().Commits)/float64(s.Stats().Groups), "txn/group")
		})
	}
}

// BenchmarkOpenMillion opens a store with a million keys of 256 bytes. Run it with
// -benchtime 1x.
func BenchmarkOpenMillion(b *testing.B) {
	dir := b.TempDir() + "/data"
	cfg := Config{Disk: disk.Config{Dir: dir, AckBeforeDisk: true}, MaxQueue: 1 << 20, MaxQueueBytes: 1 << 30}
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
