package player

import (
	"runtime/debug"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/kv"
	"confcenter/player/field"
)

// What a read costs beside the store's own, and a write.
func BenchmarkGet(b *testing.B) {
	k := startCold(b, newDatabase())
	k.settle()
	k.update(player, map[string]string{"data": "value"})
	b.Run("store", func(b *testing.B) {
		ns, key := []byte(player.Namespace()), []byte(field.Ref{Owner: player, Name: "data"}.Key())
		b.ReportAllocs()
		for b.Loop() {
			if e, _ := k.engine.Get(ns, key); e == nil {
				b.Fatal("absent")
			}
		}
	})
	for _, n := range []int{1, 8} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			gets := []Get{getOf(player, slices.Repeat([]string{"data"}, n)...)}
			b.ReportAllocs()
			for b.Loop() {
				if k.GetEach(gets); len(gets[0].Fields) != n {
					b.Fatal("absent")
				}
			}
		})
	}
}

func BenchmarkUpdate(b *testing.B) {
	k := startCold(b, newDatabase())
	b.Run("store", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(p *testing.PB) {
			done := make(chan error, 1)
			for p.Next() {
				txn := kv.PutTxn(string([]byte("ns")), string([]byte("user:100:data")), kv.BytesValue([]byte("value")))
				require.NoError(b, k.engine.Commit(txn, func(_ *kv.Result, err error) { done <- err }))
				require.NoError(b, <-done)
			}
		})
	})
	var id atomic.Int64
	b.Run("update", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(p *testing.PB) {
			o, done := player, make(chan error, 1)
			o.ID = strconv.FormatInt(id.Add(1), 10)
			for p.Next() {
				k.Do(&field.Write{Owner: o, Kind: field.Update, Fields: []field.Field{{Name: "data", Value: []byte("value")}}}, func(_ *field.Outcome, err error) { done <- err })
				require.NoError(b, <-done)
			}
		})
	})
}

// A read on the event loop must not allocate: it is asked for as often as KVGET.
func TestAWarmGetAllocatesNothing(t *testing.T) {
	k := startCold(t, newDatabase())
	k.settle()
	k.update(player, map[string]string{"a": "1", "b": "2"})
	other := player
	other.ID = "101"
	k.update(other, map[string]string{":b": "3"})
	gets := []Get{getOf(player, "a", "b", "nope"), getOf(other, "a"), getOf(player, "b")}
	got := testing.AllocsPerRun(1000, func() { k.GetEach(gets) })
	require.Len(t, gets[0].Fields, 2)
	require.Len(t, gets[2].Fields, 1)
	if info, ok := debug.ReadBuildInfo(); ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		return // the detector has pools lose what they are given
	}
	require.Less(t, got, 1.0)
}
