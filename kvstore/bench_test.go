package kvstore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/internal/clock"
	"confcenter/internal/health"
	"confcenter/kv"
)

// nowhere is a log that keeps nothing of what it gets and begins with load: what
// remains is the committer's work.
type nowhere struct {
	fakeLog
	load func(Loader)
}

func (n *nowhere) Load(_ context.Context, load Loader) (kv.Revision, error) {
	n.load(load)
	return 1, nil
}

func (n *nowhere) Append([]Commit) error { return nil }

func (*nowhere) Writable(Room) error      { return nil }
func (*nowhere) Trouble() *health.Trouble { return nil }

// loaded is a store with n keys, without its committer running.
func loaded(t testing.TB, n int) (*Store, [][]byte) {
	cfg := Config{Clock: clock.Real()}
	keys := make([][]byte, n)
	s, err := load(t.Context(), cfg.withDefaults(), &nowhere{load: func(l Loader) {
		for i := range n {
			keys[i] = fmt.Appendf(nil, "some/prefix/key-%08d", i)
			l.Entry(&kv.Entry{NS: "bench", Key: string(keys[i]), Value: kv.BytesValue(make([]byte, 256)), Create: 1, Mod: 1, Version: 1})
		}
	}})
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
	put := func(keys [][]byte, i int) *kv.Txn {
		return kv.PutTxn("bench", string(keys[i*7919%len(keys)]), kv.BytesValue(make([]byte, 256)))
	}
	for name, txn := range map[string]func(keys [][]byte, i int) *kv.Txn{
		"put":  put,
		"each": put,
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
			writes, caller := make([]kv.Write, size), make(desk, 1)
			b.ReportAllocs()
			for i := 0; i < b.N; {
				b.StopTimer()
				list := make([]queued, min(size, b.N-i))
				for j := range list {
					list[j] = queued{txn: txn(keys, i), done: done}
					if list[j].txn.Token != "" {
						list[j].digest = digestOf(list[j].txn)
					}
					if name == "each" {
						list[j].write, list[j].caller = &writes[j], caller
					}
					i++
				}
				b.StartTimer()
				if !s.committer.commit(list) {
					b.Fatal("failed")
				}
				s.committer.tend()
				select {
				case <-caller:
				default:
				}
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
