package main

import (
	"bytes"
	"context"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/protocol"
	"confcenter/tools/ccdump/capture"
)

// aConversation returns the packets of a client that identifies itself and reads a file.
func aConversation(t *testing.T) []capture.Record {
	t.Helper()
	var list []capture.Record
	client, server := netip.MustParseAddrPort("10.0.0.1:50000"), netip.MustParseAddrPort("10.0.0.2:4800")
	s := capture.NewSynth(client, server, func(r *capture.Record) error {
		one := *r
		one.Data = bytes.Clone(r.Data)
		list = append(list, one)
		return nil
	})
	at := int64(1_700_000_000_000_000_000)
	require.NoError(t, s.Open(at))
	for i, one := range []struct {
		from int
		cmd  protocol.Command
		body string
	}{
		{0, protocol.Whoami, `{"svrid":0,"svrname":"app1","clitype":20}`},
		{1, protocol.Whoami.Reply(), `{"code":0,"svrid":2001,"epoch":"f86cac6f910559258ee08cf498eb9623"}`},
		{0, protocol.GetConfig, `{"file_pattern":"app1-dev.json"}`},
		{1, protocol.GetConfig.Reply(), `{"code":0,"mtime":5,"file_pattern":"app1-dev.json","contents":{}}`},
	} {
		at += 1000
		require.NoError(t, s.Data(one.from, at, protocol.AppendFrame(nil, one.cmd, uint16(i/2+1), []byte(one.body))))
	}
	require.NoError(t, s.Close(at+1000))
	return list
}

func pcapOf(t *testing.T, list []capture.Record) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := capture.NewWriter(&b, list[0].Link)
	require.NoError(t, err)
	for i := range list {
		require.NoError(t, w.Write(&list[i]))
	}
	require.NoError(t, w.Flush())
	return b.Bytes()
}

func fileOf(t *testing.T, list []capture.Record) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "odd.pcap")
	require.NoError(t, os.WriteFile(name, pcapOf(t, list), 0o600))
	return name
}

// Missing bytes do not mean another protocol: only bytes that are not a frame do.
func TestWhatIsMissingIsNotAnotherProtocol(t *testing.T) {
	cut := aConversation(t)
	for i := range cut {
		cut[i].Data = cut[i].Data[:min(len(cut[i].Data), 60)]
	}
	s := ccdump(t, fileOf(t, cut))
	require.Zero(t, s.code)
	require.NotContains(t, s.out, "not this protocol")
	require.Contains(t, s.out, "10.0.0.1:50000 > ! skipped 31 bytes at offset 20: the capture has only the beginning of the packet (snap length)\n")

	joined := aConversation(t)[3:]
	joined[0].Data = append(bytes.Clone(joined[0].Data[:40]), bytes.Repeat([]byte("x"), len(joined[0].Data)-40)...)
	s = ccdump(t, fileOf(t, joined))
	require.NotContains(t, s.out, "not this protocol")
	require.Contains(t, s.out, "> ! skipped 51 bytes at offset 0: the capture begins in the middle of the connection\n")

	ended := aConversation(t)[:4]
	ended[3].Data = ended[3].Data[:60]
	ended[3].Length = 60
	ended[3].Data[2], ended[3].Data[3] = 0, 60
	s = ccdump(t, fileOf(t, ended))
	require.NotContains(t, s.out, "not this protocol")
	require.Contains(t, s.out, "> ! skipped 20 bytes at offset 0: WHOAMI seq=1 41B ends here: 31 of the body's bytes are missing\n")
}

// TLS cannot be read: ccdump says so, and what can.
func TestTLSIsLeftToOtherTools(t *testing.T) {
	list := aConversation(t)
	for i, rec := range list {
		if len(rec.Data) > 40 {
			copy(list[i].Data[40:], "\x16\x03\x01\x02\x00")
		}
	}
	file := fileOf(t, list)
	for _, args := range [][]string{{file}, {"summary", file}, {"replay", file, "--to", "127.0.0.1:1"}} {
		s := ccdump(t, args...)
		require.Zero(t, s.code, s.status)
		require.Contains(t, s.out+s.status, "1 connections are TLS, which ccdump does not read; tshark does: see docs/debugging.md")
	}
	s := ccdump(t, file)
	require.Contains(t, s.out, "> ! not this protocol: 51 bytes at offset 0: this is TLS, which ccdump does not read; tshark does, given its keys: see docs/debugging.md\n")
	require.Equal(t, 1, strings.Count(s.out, "!"))
}

// A capture on several interfaces repeats packets, out of order: a batch from each.
func TestSecondInterfaceSeesTheSameConnection(t *testing.T) {
	list := aConversation(t)
	for _, again := range aConversation(t) {
		again.At += 300
		list = append(list, again)
	}
	s := ccdump(t, fileOf(t, list))
	require.Zero(t, s.code)
	require.Equal(t, 1, strings.Count(s.out, "# opened"), s.out)
	require.Equal(t, 2, strings.Count(s.out, "app1-dev.json"), s.out)
	require.NotContains(t, s.out, " ! ")

	// Later another client has the same port.
	list = aConversation(t)
	for _, later := range aConversation(t) {
		later.At += 60_000_000_000
		list = append(list, later)
	}
	s = ccdump(t, fileOf(t, list))
	require.Equal(t, 2, strings.Count(s.out, "# opened"), s.out)
}

// told is a writer that sends what is written to a channel.
type told chan string

func (c told) Write(p []byte) (int, error) {
	c <- string(p)
	return len(p), nil
}

// ccdump can be interrupted while the program it reads from goes on.
func TestInterruptedWhileStandardInputIsSilent(t *testing.T) {
	file := pcapOf(t, aConversation(t)[:5])
	for _, args := range [][]string{{"-"}, {"summary", "-"}} {
		ctx, cancel := context.WithCancel(t.Context())
		stdin, packets := io.Pipe()
		out, status := make(told, 100), &bytes.Buffer{}
		code := make(chan int)
		go func() { code <- run(ctx, args, stdin, out, status) }()
		for _, part := range [][]byte{file[:50], file[50 : len(file)-10]} { // the second is read when the first has been
			_, err := packets.Write(part)
			require.NoError(t, err)
		}
		if len(args) == 1 {
			require.Contains(t, <-out, "app1")
		}
		cancel()
		require.Zero(t, <-code, status.String())
		require.NotEmpty(t, <-out)
		require.NoError(t, packets.Close())
	}
}

// A replay writes, so ccdump must not guess where to.
func TestReplayMustBeToldWhereTo(t *testing.T) {
	s := ccdump(t, "replay", fileOf(t, aConversation(t)))
	require.Equal(t, exitUsage, s.code, s.status)
	require.Contains(t, s.status, "--to")
}

func TestImpossibleFlags(t *testing.T) {
	file := fileOf(t, aConversation(t))
	for _, args := range [][]string{
		{file, "--slower", "-1s"},
		{"replay", file, "--to", "nowhere"},
		{"tap", "--to", "nowhere"},
	} {
		s := ccdump(t, args...)
		require.Equal(t, exitUsage, s.code, "%v: %s", args, s.status)
		require.Contains(t, s.status, args[len(args)-2], "%v", args)
	}
}

// An empty result must be distinguishable from a mistyped name.
func TestNothingFits(t *testing.T) {
	s := ccdump(t, fileOf(t, aConversation(t)), "--client", "ap1")
	require.Zero(t, s.code)
	require.Empty(t, s.out)
	require.Equal(t, "ccdump: none of 4 frames fits the filters\n", s.status)
}
