package main

import (
	"bytes"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/protocol"
	"confcenter/tools/ccdump/capture"
	"confcenter/tools/ccdump/stream"
	"confcenter/tools/ccdump/talk"
)

// traffic is a capture of 16 connections that ask for documents whose replies are
// about size bytes long, with a push now and then.
func traffic(tb testing.TB, requests, size int) []byte {
	tb.Helper()
	var file bytes.Buffer
	w, err := capture.NewWriter(&file, capture.RawIP)
	require.NoError(tb, err)
	var conns []*capture.Synth
	at := int64(1_700_000_000_000_000_000)
	for i := range 16 {
		client := netip.AddrPortFrom(netip.MustParseAddr("10.0.0.1"), uint16(50000+i))
		server := netip.MustParseAddrPort("10.0.0.2:4800")
		c := capture.NewSynth(client, server, w.Write)
		require.NoError(tb, c.Open(at))
		conns = append(conns, c)
	}
	contents := strings.Repeat("x", size)
	for i := range requests {
		c := conns[i%len(conns)]
		name := fmt.Sprintf("dir/file%04d.json", i%1000)
		at += 10_000
		require.NoError(tb, c.Data(0, at, protocol.AppendFrame(nil, protocol.GetConfig, uint16(i), fmt.Appendf(nil, `{"file_pattern":%q}`, name))))
		at += 50_000
		require.NoError(tb, c.Data(1, at, protocol.AppendFrame(nil, protocol.GetConfig.Reply(), uint16(i),
			fmt.Appendf(nil, `{"code":0,"mtime":1700000000,"file_pattern":%q,"contents":{"k":%q}}`, name, contents))))
		if i%50 == 0 {
			require.NoError(tb, c.Data(1, at, protocol.AppendFrame(nil, protocol.EvNotify, uint16(i),
				fmt.Appendf(nil, `{"notify":"cfg_change","filename":%q,"mtime":1700000000}`, name))))
		}
	}
	for _, c := range conns {
		require.NoError(tb, c.Close(at))
	}
	require.NoError(tb, w.Flush())
	return file.Bytes()
}

func BenchmarkSummary(b *testing.B) {
	for _, size := range []int{64, 200, 1000, 30000, 300000} {
		b.Run(fmt.Sprintf("reply=%d", size), func(b *testing.B) {
			file := traffic(b, 20_000_000/(size+200), size)
			b.SetBytes(int64(len(file)))
			b.ReportAllocs()
			for b.Loop() {
				src, err := capture.Open(bytes.NewReader(file))
				require.NoError(b, err)
				v := newView(io.Discard, stream.Config{KeepBody: keepSummary}, talk.New(talk.Config{Summary: talk.NewSummary()}))
				require.NoError(b, v.read(b.Context(), src, nil))
				v.asm.Finish()
			}
		})
	}
}

func BenchmarkLines(b *testing.B) {
	file := traffic(b, 20_000, 1000)
	b.SetBytes(int64(len(file)))
	for b.Loop() {
		src, err := capture.Open(bytes.NewReader(file))
		require.NoError(b, err)
		v := newLines(&options{body: "cut", utc: true}, io.Discard)
		require.NoError(b, v.pump(b.Context(), src, nil))
	}
}
