package state

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/kv"
	"confcenter/kvstore/disk"
	"confcenter/protocol"
	"confcenter/server/tcp/gate"
	"confcenter/server/tcp/gate/gatetest"
	"confcenter/server/tcp/loop"
)

// What a get costs among many keys is mostly what their memory costs.
func BenchmarkKVGetAmongMany(b *testing.B) {
	store, err := disk.Open(disk.StoreConfig{Disk: disk.Config{Dir: b.TempDir() + "/state", ReserveBytes: 1}})
	require.NoError(b, err)
	defer func() { require.NoError(b, store.Close()) }()
	const keys = 100_000
	for at := 0; at < keys; {
		txn := &kv.Txn{}
		for ; len(txn.Then) < 2000; at++ {
			txn.Then = append(txn.Then, kv.Op{Kind: kv.OpPut, NS: "bench", Key: fmt.Sprintf("key-%06d", at), Value: kv.StringValue(text200)})
		}
		done := make(chan error, 1)
		require.NoError(b, store.Commit(txn, func(_ *kv.Result, err error) { done <- err }))
		require.NoError(b, <-done)
	}
	for _, depth := range []int{1, 16} {
		b.Run(fmt.Sprintf("depth=%d", depth), func(b *testing.B) {
			s := listener(b, store)
			bursts := make([][]byte, 4096)
			for i := range bursts {
				for range depth {
					bursts[i] = protocol.AppendFrame(bursts[i], protocol.KVGet, uint16(i), fmt.Appendf(nil, `{"ns":"bench","key":"key-%06d"}`, rand.IntN(keys)))
				}
			}
			b.ReportAllocs()
			b.ResetTimer()
			for i := 0; i < b.N; i += depth {
				s.Receive(bursts[i/depth%len(bursts)])
			}
		})
	}
}

// What a put costs is, beside the disk, mostly what is allocated for it.
func BenchmarkKVPut(b *testing.B) {
	store, err := disk.Open(disk.StoreConfig{Disk: disk.Config{Dir: b.TempDir() + "/state", ReserveBytes: 1, AckBeforeDisk: true}})
	require.NoError(b, err)
	defer func() { require.NoError(b, store.Close()) }()
	for _, depth := range []int{1, 16} {
		b.Run(fmt.Sprintf("depth=%d", depth), func(b *testing.B) {
			s := listener(b, store)
			bursts := make([][]byte, 4096)
			for i := range bursts {
				for range depth {
					bursts[i] = protocol.AppendFrame(bursts[i], protocol.KVPut, uint16(i), fmt.Appendf(nil, `{"ns":"bench","key":"key-%06d","value":"%s"}`, rand.IntN(10_000), text200))
				}
			}
			b.ReportAllocs()
			b.ResetTimer()
			replies := &s.Group().Count.Replies
			for i := 0; i < b.N; i += depth {
				before := replies.Load()
				s.Receive(bursts[i/depth%len(bursts)])
				for replies.Load() < before+uint64(depth) {
					s.Loop.Wake()
				}
			}
		})
	}
}

// listener is a session whose peer takes every reply of store and keeps none.
func listener(b *testing.B, store kv.Store) *gate.Session {
	bench := gatetest.NewBench(b, loop.Limits{})
	Add(bench.Gate, store, nil, nil)
	bench.Open()
	d := &gatetest.Deaf{}
	s := gatetest.ConnectBy(b, bench.Local, d, &d.Wire)
	require.NoError(b, s.Identify(0, nil))
	return s
}
