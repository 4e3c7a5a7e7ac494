package server

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"confcenter/protocol"
)

// However requests arrive, they are answered as if each had come alone.
func TestGetsTogetherAreAnsweredLikeGetsAlone(t *testing.T) {
	s, w, state := newStateWire(t)
	s.receive(requests(
		protocol.KVPut, `{"ns":"n","key":"a","value":"`+string(make280())+`"}`,
		protocol.KVPut, `{"ns":"n","key":"é","type":"bytes","value":"AAAA"}`,
		protocol.KVPut, `{"ns":"m","key":"a","type":"int","value":7}`,
	))
	state.finish(3)
	s.loop.turn(wakeBudget, bulkTurn)
	w.got.Reset()
	get := []any{
		`{"ns":"n","key":"a"}`, `{"ns":"m","key":"a"}`, `{"ns":"n","key":"none"}`, `{"ns":"none","key":"a"}`,
		`{"ns":"n","key":"é","raw":1}`, `{"ns":"n","key":"\u0061"}`, `{"ns":"n","key":"a","min_rev":2}`, `{"ns":"n","key":"a","min_rev":99}`,
		`{"ns":"n","key":""}`, `{"ns":"","key":"a"}`, `{"ns":"n"`, `[]`, ``,
	}
	rapid.Check(t, func(t *rapid.T) {
		var pairs []any
		for range rapid.IntRange(1, 80).Draw(t, "requests") {
			if rapid.IntRange(0, 20).Draw(t, "other") == 0 {
				pairs = append(pairs, protocol.KVMGet, `{"ns":"n","keys":["a"]}`)
				continue
			}
			pairs = append(pairs, protocol.KVGet, rapid.SampledFrom(get).Draw(t, "get"))
		}
		burst := requests(pairs...)
		var want []string
		for rest := burst; len(rest) > 0; {
			h, err := protocol.ParseHeader(rest)
			require.NoError(t, err)
			size := protocol.HeaderSize + int(h.BodyLen)
			s.receive(rest[:size])
			want = append(want, frames(t, w)...)
			rest = rest[size:]
		}
		require.Len(t, want, len(pairs)/2)
		cut := rapid.IntRange(0, len(burst)).Draw(t, "cut")

		s.receive(burst[:cut])
		s.receive(burst[cut:])
		require.Equal(t, want, frames(t, w))

	})
}
