package player

import (
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/kv"
	"confcenter/kvstore/disk"
	"confcenter/kvstore/memory"
	"confcenter/player"
	"confcenter/player/field"
	"confcenter/protocol"
	"confcenter/server/tcp/gate"
	"confcenter/server/tcp/gate/gatetest"
	"confcenter/server/tcp/loop"
)

// owners is a session on player storage whose peer takes every reply and keeps none; n owners
// have a field of 200 bytes each.
func owners(t testing.TB, store kv.Store, n int) *gate.Session {
	players, err := player.Open(player.Config{Store: store})
	require.NoError(t, err)
	done := make(chan error, n)
	for i := range n {
		o := field.Owner{App: "1", Region: "1", Logic: "player", ID: fmt.Sprintf("key-%06d", i)}
		players.Do(&field.Write{Owner: o, Kind: field.Update, Fields: []field.Field{{Name: "state", Value: []byte(strings.Repeat("x", 200))}}},
			func(_ *field.Outcome, err error) { done <- err })
		if i%1000 == 999 || i == n-1 {
			for range i%1000 + 1 {
				require.NoError(t, <-done)
			}
		}
	}
	bench := gatetest.NewBench(t, loop.Limits{})
	Add(bench.Gate, players)
	bench.Open()
	d := &gatetest.Deaf{}
	s := gatetest.ConnectBy(t, bench.Local, d, &d.Wire)
	require.NoError(t, s.Identify(0, nil))
	return s
}

func onDisk(b *testing.B) kv.Store {
	store, err := disk.Open(disk.StoreConfig{Disk: disk.Config{Dir: b.TempDir() + "/state", ReserveBytes: 1, AckBeforeDisk: true}})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, store.Close()) })
	return store
}

// bursts are pipelines of that many requests.
func bursts(cmd protocol.Command, depth, owners int, rest string) [][]byte {
	list := make([][]byte, 4096)
	for i := range list {
		for range depth {
			list[i] = protocol.AppendFrame(list[i], cmd, uint16(i), fmt.Appendf(nil, `{"logicType":"player","ownerId":"key-%06d",%s}`, rand.IntN(owners), rest))
		}
	}
	return list
}

// Compare with BenchmarkKVGetAmongMany.
func BenchmarkGetAmongMany(b *testing.B) {
	const many = 100_000
	s := owners(b, onDisk(b), many)
	for _, depth := range []int{1, 16} {
		b.Run(fmt.Sprintf("depth=%d", depth), func(b *testing.B) {
			list := bursts(protocol.StGet, depth, many, `"names":["state"]`)
			b.ReportAllocs()
			b.ResetTimer()
			for i := 0; i < b.N; i += depth {
				s.Receive(list[i/depth%len(list)])
			}
		})
	}
}

// Compare with BenchmarkKVPut.
func BenchmarkUpdate(b *testing.B) {
	const some = 10_000
	s := owners(b, onDisk(b), some)
	for _, depth := range []int{1, 16} {
		b.Run(fmt.Sprintf("depth=%d", depth), func(b *testing.B) {
			list := bursts(protocol.StUpdate, depth, some, `"fields":{"state":"`+strings.Repeat("x", 200)+`"}`)
			b.ReportAllocs()
			b.ResetTimer()
			replies := &s.Group().Count.Replies
			for i := 0; i < b.N; i += depth {
				before := replies.Load()
				s.Receive(list[i/depth%len(list)])
				for replies.Load() < before+uint64(depth) {
					s.Loop.Wake()
				}
			}
		})
	}
}

// Players are read as often as keys are, see TestKVGetDoesNotAllocate.
func TestAWarmGetDoesNotAllocate(t *testing.T) {
	memory := memory.New(memory.Config{})
	defer func() { require.NoError(t, memory.Close()) }()
	s := owners(t, memory, 2)
	for _, rest := range []string{`"names":["state"]`, `"names":["state","nope","state"],"versions":1`, `"names": ["state"]`, `"names":[]`} {
		frames := gatetest.Requests(protocol.StGet, `{"logicType":"player","ownerId":"key-000000",`+rest+`}`, protocol.StGet, `{"logicType":"player","ownerId":"key-000001",`+rest+`}`)
		s.Receive(frames)
		if info, ok := debug.ReadBuildInfo(); ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
			continue // the detector has pools lose what they are given
		}
		require.Less(t, gatetest.Allocations(func() { s.Receive(frames) }), 1.0, rest)
	}
}
