package protocol_test

import (
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"confcenter/protocol"
)

// Bytes as they go over the wire, taken from PROTOCOL.md's table.
func TestHeaderBytes(t *testing.T) {
	for _, c := range []struct {
		name string
		hex  string
		want protocol.Header
	}{
		{"WHOAMI", "010a0000001100010001", protocol.Header{Command: protocol.Whoami, Seq: 1, BodyLen: 17}},
		{"its reply", "010a0000003a10010001", protocol.Header{Command: protocol.Whoami.Reply(), Seq: 1, BodyLen: 58}},
		{"no body", "010a00000000000900ff", protocol.Header{Command: protocol.KeepAlive, Seq: 255}},
		{"largest of everything", "010affffffffffffffff", protocol.Header{Command: 0xFFFF, Seq: 0xFFFF, BodyLen: 0xFFFFFFFF}},
	} {
		t.Run(c.name, func(t *testing.T) {
			raw, err := hex.DecodeString(c.hex)
			require.NoError(t, err)
			got, err := protocol.ParseHeader(raw)
			require.NoError(t, err)
			require.Equal(t, c.want, got)
			require.Equal(t, raw, protocol.AppendHeader(nil, c.want.Command, c.want.Seq, int(c.want.BodyLen)))
		})
	}
}

func TestHeaderVersionIsIgnored(t *testing.T) {
	for version := range 256 {
		raw := protocol.AppendHeader(nil, protocol.Whoami, 7, 3)
		raw[0] = byte(version)
		got, err := protocol.ParseHeader(raw)
		require.NoError(t, err)
		require.Equal(t, protocol.Header{Command: protocol.Whoami, Seq: 7, BodyLen: 3}, got)
	}
}

func TestHeaderLengthMustBeTen(t *testing.T) {
	for length := range 256 {
		raw := protocol.AppendHeader(nil, protocol.Whoami, 7, 3)
		raw[1] = byte(length)
		_, err := protocol.ParseHeader(raw)
		if length == protocol.HeaderSize {
			require.NoError(t, err)
			continue
		}
		var wrong *protocol.HeaderError
		require.True(t, errors.As(err, &wrong))
		require.EqualValues(t, length, wrong.Got)
		require.Contains(t, wrong.Error(), "must be 10")
	}
}

func TestHTTPWhereAHeaderShouldBe(t *testing.T) {
	for text, want := range map[string]bool{
		"HTTP/1.1 400 Bad Request": true, "GET / HTTP/1.1": true, "PUT /v1/kv/a/b": true, "POST /v1/kv": true, "HEAD /livez": true,
		"DELETE /v1/": true, "OPTIONS * HTTP/1.1": true, "PATCH /v1/kv/": true, "PRI * HTTP/2.0": true,
		"GETCONFIG app1": false, "SSH-2.0-OpenSSH": false, "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03": false,
	} {
		_, err := protocol.ParseHeader([]byte(text))
		var wrong *protocol.HeaderError
		require.ErrorAs(t, err, &wrong, text)
		require.Equal(t, want, wrong.HTTP, text)
		require.Equal(t, want, strings.Contains(err.Error(), "speaks HTTP"), text)
		require.EqualValues(t, text[1], wrong.Got)
	}
}

func TestHeaderNeedsTenBytes(t *testing.T) {
	require.Panics(t, func() { _, _ = protocol.ParseHeader(make([]byte, protocol.HeaderSize-1)) })
}

func TestFrameIsBuiltInPlace(t *testing.T) {
	earlier := []byte("what stands before")
	body := []byte(`{"svrid":0}`)
	whole := protocol.AppendFrame(append([]byte(nil), earlier...), protocol.Whoami, 9, body)

	open := protocol.BeginFrame(append([]byte(nil), earlier...), protocol.Whoami, 9)
	open = append(open, body...)
	require.Equal(t, whole, protocol.FinishFrame(open, len(earlier)))

	// The body may be sent from elsewhere, the sequence be decided last.
	head := protocol.BeginFrame(nil, protocol.Whoami, 0)
	protocol.SetBodyLen(head, len(body))
	protocol.SetSeq(head, 9)
	require.Equal(t, whole[len(earlier):], append(head, body...))
}

func TestHeaderRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := protocol.Header{
			Command: protocol.Command(rapid.Uint16().Draw(t, "command")),
			Seq:     rapid.Uint16().Draw(t, "seq"),
			BodyLen: rapid.Uint32().Draw(t, "length"),
		}
		got, err := protocol.ParseHeader(protocol.AppendHeader(nil, h.Command, h.Seq, int(h.BodyLen)))
		require.NoError(t, err)
		require.Equal(t, h, got)
	})
}

func FuzzParseHeader(f *testing.F) {
	f.Add(protocol.AppendHeader(nil, protocol.GetConfig, 1, 80))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Add([]byte{0, 10, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF})
	f.Fuzz(func(t *testing.T, raw []byte) {
		if len(raw) < protocol.HeaderSize {
			return
		}
		h, err := protocol.ParseHeader(raw)
		if err != nil {
			require.NotEqual(t, byte(protocol.HeaderSize), raw[1])
			require.Zero(t, h)
			return
		}
		again := protocol.AppendHeader(nil, h.Command, h.Seq, int(h.BodyLen))
		require.Equal(t, raw[1:protocol.HeaderSize], again[1:], "all but the version")
		require.LessOrEqual(t, protocol.BodyLimit(h.Command, false), protocol.BodyLimit(h.Command, true))
	})
}

// deframe is the least a reader of a stream does: it keeps what is not whole yet.
type deframe struct {
	kept   []byte
	frames []frame
	err    error
}

type frame struct {
	head protocol.Header
	body string
}

func (d *deframe) take(part []byte) {
	d.kept = append(d.kept, part...)
	for d.err == nil && len(d.kept) >= protocol.HeaderSize {
		var h protocol.Header
		if h, d.err = protocol.ParseHeader(d.kept); d.err != nil {
			return
		}
		size := uint64(protocol.HeaderSize) + uint64(h.BodyLen)
		if uint64(len(d.kept)) < size {
			return
		}
		d.frames = append(d.frames, frame{h, string(d.kept[protocol.HeaderSize:size])})
		d.kept = d.kept[size:]
	}
}

// However a stream is cut, the same frames come out, and the same rest.
func FuzzFramesUnderSplits(f *testing.F) {
	three := protocol.AppendFrame(nil, protocol.Whoami, 1, []byte(`{"svrid":0}`))
	three = protocol.AppendFrame(three, protocol.KeepAlive, 2, nil)
	three = protocol.AppendFrame(three, protocol.GetConfig, 3, []byte(`{"file_pattern":"a.json"}`))
	f.Add(three, []byte{1})
	f.Add(three, []byte{10, 1, 200})
	f.Add(three[:len(three)-1], []byte{9, 2})
	f.Add(append(three, "garbage that is no header"...), []byte{0, 3})
	f.Fuzz(func(t *testing.T, stream, cuts []byte) {
		var whole, cut deframe
		whole.take(stream)
		rest := stream
		for i := 0; len(rest) > 0; i++ {
			n := len(rest)
			if len(cuts) > 0 {
				n = min(int(cuts[i%len(cuts)])+1, n)
			}
			cut.take(rest[:n])
			rest = rest[n:]
		}
		require.Equal(t, whole.frames, cut.frames)
		require.Equal(t, whole.err, cut.err)
		if whole.err == nil {
			require.Equal(t, string(whole.kept), string(cut.kept))
		}
		var again []byte
		for _, fr := range whole.frames {
			again = protocol.AppendFrame(again, fr.head.Command, fr.head.Seq, []byte(fr.body))
		}
		require.Equal(t, len(stream)-len(whole.kept), len(again))
	})
}
