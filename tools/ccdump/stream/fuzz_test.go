package stream

import (
	"bytes"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"confcenter/protocol"
	"confcenter/tools/ccdump/capture"
)

// However a direction is cut into segments, delayed, repeated and overlapped, the frames
// are those that were sent, in order.
func TestAnyOrderGivesTheSameFrames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all []byte
		n := rapid.IntRange(1, 20).Draw(t, "frames")
		for i := range n {
			body := bytes.Repeat([]byte{'x'}, rapid.IntRange(0, 300).Draw(t, "body"))
			all = protocol.AppendFrame(all, protocol.GetConfig, uint16(i), append(append([]byte(`{"a":"`), body...), '"', '}'))
		}
		r := &recorder{}
		a := New(Config{}, r)
		w := newWire(a, rapid.Uint32().Draw(t, "isn"), 7)
		w.open()
		// Neighbouring segments change places, as in networks.
		var cuts [][2]int
		for at := 0; at < len(all); {
			end := min(len(all), at+rapid.IntRange(1, 200).Draw(t, "length"))
			from := max(0, at-rapid.IntRange(0, 30).Draw(t, "overlap"))
			cuts = append(cuts, [2]int{from, end})
			if rapid.IntRange(0, 5).Draw(t, "again") == 0 {
				cuts = append(cuts, [2]int{from, end})
			}
			at = end
		}
		for i := range cuts {
			j := min(len(cuts)-1, i+rapid.IntRange(0, 3).Draw(t, "swap"))
			cuts[i], cuts[j] = cuts[j], cuts[i]
		}
		for _, c := range cuts {
			w.at = 0
			a.Segment(w.segment(FromClient, c[0], 0, string(all[c[0]:c[1]])))
		}
		require.Equal(t, n, r.frames, r.text())
		require.EqualValues(t, len(all), r.bytes[FromClient])
		require.NotContains(t, r.text(), "skipped")
		require.Zero(t, a.held)
	})
}

// FuzzReassembly makes segments from any bytes: nothing in them breaks the bounds or the
// counts.
func FuzzReassembly(f *testing.F) {
	f.Add([]byte("\x02\x00\x00\x00\x10\x00\x01\x04" + get(1) + got(1)))
	f.Add([]byte("\x13\x00\x20\x08\x10\x30\x01\x04" + get(1) + "\x04\x01\x02\x03\x04\x05\x06\x07" + get(2)))
	f.Fuzz(func(t *testing.T, script []byte) {
		const memory = 64 << 10
		r := &recorder{quiet: true}
		a := New(Config{Memory: memory, Conns: 4, KeepBody: 1000}, r)
		at := int64(0)
		for len(script) >= 8 {
			op := script[:8]
			script = script[8:]
			n := min(int(op[6]), len(script))
			s := &capture.Segment{
				At: at, Src: client, Dst: server, Flags: capture.Flags(op[0]), Payload: script[:n], Missing: int(op[5]) % 20,
				Seq: uint32(int32(int8(op[1]))) * 64, Ack: uint32(op[2]) * 64,
			}
			s.Seq += uint32(op[3]) << 24
			s.Src = netip.AddrPortFrom(client.Addr(), client.Port()+uint16(op[4]&7))
			if op[4]&8 != 0 {
				s.Src, s.Dst = s.Dst, s.Src
			}
			script = script[n:]
			at += int64(op[7]) << 24
			a.Segment(s)
			require.LessOrEqual(t, len(a.conns), 4)
			require.LessOrEqual(t, a.held, memory+4096)
			require.GreaterOrEqual(t, a.held, 0)
		}
		a.Finish()
		require.Zero(t, a.held)
		require.Zero(t, r.open)
		require.Empty(t, a.conns)
	})
}

// FuzzFrames cuts any bytes into frames, in pieces: every byte is part of one frame or
// skipped once.
func FuzzFrames(f *testing.F) {
	f.Add([]byte(get(1)+got(1)), uint8(3))
	f.Add([]byte(get(1)+"garbage\x01\x0a"+get(2)), uint8(7))
	f.Add([]byte(get(1)[5:]+frame(protocol.KVPut, 1, `{"raw":2}`+"\x01\x0a")+get(2)), uint8(200))
	f.Fuzz(func(t *testing.T, b []byte, split uint8) {
		for _, size := range []int{int(split)%64 + 1, len(b) + 1} {
			r := &recorder{}
			a := New(Config{KeepBody: 50}, r)
			w := newWire(a, 1, 2)
			w.open()
			for rest := b; len(rest) > 0; {
				n := min(size, len(rest))
				w.says(FromClient, string(rest[:n]))
				rest = rest[n:]
			}
			a.Finish()
			require.EqualValues(t, len(b), r.bytes[0]+r.bytes[1], r.text())
			require.Zero(t, a.held)
		}
	})
}
