package main

import (
	"bytes"
	"context"
	"flag"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"confcenter/internal/servertest"
	"confcenter/protocol"
	"confcenter/tools/ccdump/capture"
	"confcenter/tools/ccdump/stream"
)

var update = flag.Bool("update", false, "capture testdata/*.pcap and *.pcapng anew, which needs root, and write the texts beside them")

func TestMain(m *testing.M) {
	// The pool is gnet's own and lives as long as the process.
	goleak.VerifyTestMain(m,
		goleak.IgnoreTopFunction("github.com/panjf2000/ants/v2.(*poolCommon).purgeStaleWorkers"),
		goleak.IgnoreTopFunction("github.com/panjf2000/ants/v2.(*poolCommon).ticktock"))
}

// said is the output of a run of ccdump.
type said struct {
	code        int
	out, status string
}

func ccdump(t testing.TB, args ...string) said {
	t.Helper()
	var out, status bytes.Buffer
	code := run(context.Background(), args, strings.NewReader(""), &out, &status)
	return said{code, out.String(), status.String()}
}

func golden(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), text)
}

// The captures of a real server's conversations, one for each family of commands,
// decode to the texts beside them.
func TestGoldenCaptures(t *testing.T) {
	for _, one := range recorded {
		t.Run(one.name, func(t *testing.T) {
			file := filepath.Join("testdata", one.file)
			if *update {
				record(t, file, one.talk)
			}
			for suffix, args := range map[string][]string{
				".txt":     {file, "--utc", "--body", "whole"},
				".json":    {file, "-o", "json"},
				".summary": {"summary", file, "--utc"},
			} {
				s := ccdump(t, args...)
				require.Zero(t, s.code, s.status)
				require.Empty(t, s.status)
				golden(t, one.name+suffix, s.out)
			}
		})
	}
}

// record captures a conversation on the loopback interface.
func record(t *testing.T, file string, talk func(*cast)) {
	t.Helper()
	srv := fresh(t)
	port := uint16(srv.Addr().(*net.TCPAddr).Port)
	ctx, cancel := context.WithTimeout(t.Context(), servertest.Patience)
	defer cancel()
	src, err := capture.Listen(ctx, "lo", nil)
	require.NoError(t, err, "capturing needs root")
	defer src.Close()
	save, closeFile, err := saveTo(file, src.Link)
	require.NoError(t, err)
	c := &cast{t: t, addr: srv.Addr().String(), peers: map[string]*servertest.Peer{}}
	talk(c)
	c.leave()
	// The kernel's ring holds everything; the capture is complete when every connection
	// has been seen to end.
	ends := &endings{left: len(c.order), over: cancel}
	v := newView(io.Discard, stream.Config{Ports: []uint16{port}}, ends)
	require.NoError(t, v.read(ctx, src, func(rec *capture.Record, wanted bool) error {
		if !wanted {
			return nil
		}
		return save(rec)
	}))
	require.Zero(t, ends.left)
	require.NoError(t, closeFile())
}

// endings waits for the end of connections.
type endings struct {
	left int
	over func()
}

func (e *endings) Opened(*stream.Conn, int64, bool)   {}
func (e *endings) Frame(*stream.Conn, *stream.Frame)  {}
func (e *endings) Skipped(*stream.Conn, *stream.Skip) {}
func (e *endings) Closed(*stream.Conn, int64, stream.How) {
	if e.left--; e.left == 0 {
		e.over()
	}
}

// A capture replayed against a fresh server is answered as it was, and a planted
// difference is found and named.
func TestReplayOfGoldenCaptures(t *testing.T) {
	for _, one := range recorded {
		t.Run(one.name, func(t *testing.T) {
			srv := fresh(t)
			s := ccdump(t, "replay", filepath.Join("testdata", one.file), "--to", srv.Addr().String())
			require.Zero(t, s.code, s.out+s.status)
			require.Contains(t, s.out, " 0 different")
			require.NotContains(t, s.out, " 0 replies")
		})
	}
}

func TestReplayFindsPlantedDifferences(t *testing.T) {
	for name, plant := range map[string]struct {
		file string
		do   func(srv *servertest.Server, p *servertest.Peer)
		want []string
	}{
		"another document": {"config.pcap", func(_ *servertest.Server, p *servertest.Peer) { p.Set("common.json", `{"c":7,"o":{"c":1}}`) },
			[]string{"! #1 GETCONFIG_RSP seq=2: contents.c is 7, in the capture 1", "! #1 GETCONFIG_RSP seq=6: contents.c is 7"}},
		"another value": {"state.pcapng", func(_ *servertest.Server, p *servertest.Peer) {
			p.Call(protocol.KVPut, `{"ns":"shop","key":"none","value":1}`)
		},
			[]string{"! #1 KVGET_RSP seq=5: ", "! #1 KVMGET_RSP seq=6: entries[1]"}},
		"a server that pushes more": {"push.pcapng", func(srv *servertest.Server, p *servertest.Peer) { p.Set("common.json", `{"c":2}`) },
			[]string{"within 300ms", "! #"}},
	} {
		t.Run(name, func(t *testing.T) {
			srv := fresh(t)
			plant.do(srv, srv.Peer("planter"))
			s := ccdump(t, "replay", filepath.Join("testdata", plant.file), "--to", srv.Addr().String(), "--timeout", "300ms")
			require.Equal(t, exitDifferent, s.code, s.out+s.status)
			for _, want := range plant.want {
				require.Contains(t, s.out, want)
			}
			require.NotContains(t, s.out, " 0 different")
		})
	}
}

func TestReplayToNobody(t *testing.T) {
	s := ccdump(t, "replay", filepath.Join("testdata", "config.pcap"), "--to", "127.0.0.1:1")
	require.Equal(t, exitFailed, s.code)
	require.Contains(t, s.status, "cannot be reached")
}

// The other tests read whole captures; this is the same file as people may find it.
func TestDamagedCaptures(t *testing.T) {
	whole, err := os.ReadFile(filepath.Join("testdata", "config.pcap"))
	require.NoError(t, err)
	dir := t.TempDir()
	write := func(b []byte) string {
		name := filepath.Join(dir, "damaged")
		require.NoError(t, os.WriteFile(name, b, 0o644))
		return name
	}
	s := ccdump(t, write(whole[:3000]))
	require.Equal(t, exitFailed, s.code)
	require.Contains(t, s.out, "WHOAMI")
	require.Contains(t, s.status, "the capture ends in the middle of a record")
	s = ccdump(t, "summary", write(whole[:3000]))
	require.Equal(t, exitFailed, s.code)
	require.Contains(t, s.out, "WHOAMI")

	s = ccdump(t, write([]byte("{}")))
	require.Equal(t, exitFailed, s.code)
	require.Contains(t, s.status, "neither a pcap nor a pcapng")

	other := bytes.Clone(whole)
	other[20] = 147
	s = ccdump(t, write(other))
	require.Zero(t, s.code)
	require.Contains(t, s.status, "link type 147 is not known")
	require.Contains(t, s.status, "no frame was found")

	s = ccdump(t, write(whole), "--port", "9")
	require.Contains(t, s.status, "is --port right?")
}

func TestFilters(t *testing.T) {
	for line, want := range map[string]int{
		"config.pcap":                                 31,
		"config.pcap --command WHOAMI":                4,
		"config.pcap -c whoami,0x10":                  8,
		"config.pcap --client ops*":                   10,
		"config.pcap --client 2001 -c GETCONFIG":      12,
		"config.pcap --client 127.0.0.1 -c KEEPALIVE": 2,
		"config.pcap --file app":                      6,
		"config.pcap --file app.json -c SETCONFIG":    6,
		"config.pcap --file *.json":                   16,
		"config.pcap --errors":                        9,
		"state.pcapng --key shop/n":                   12,
		"state.pcapng --key shop/g* -c KVGET,KVPUT":   4,
		"state.pcapng --errors --key shop/*":          6,
		"push.pcapng --key shop/cart/*":               8,
		"push.pcapng --file dev":                      7,
		"push.pcapng --file nothing":                  0,
		"push.pcapng --slower 1h":                     0,
	} {
		args := strings.Fields(line)
		args[0] = filepath.Join("testdata", args[0])
		s := ccdump(t, append(args, "--body", "none")...)
		require.Zero(t, s.code, s.status)
		shown := 0
		for text := range strings.Lines(s.out) {
			if strings.Contains(text, "seq=") {
				shown++
			}
		}
		assert.Equal(t, want, shown, "%s\n%s", line, s.out)
	}
}

func TestWrongUsage(t *testing.T) {
	for line, want := range map[string]string{
		"":                                   "FILE is missing",
		"a b":                                `"b" is one argument too many`,
		"a --body fancy":                     "--body fancy",
		"a -o xml":                           "--output xml",
		"a --command NOSUCH":                 "there is no such command",
		"a --port 70000":                     "--port 70000",
		"a --file [":                         "syntax error in pattern",
		"a --nothing":                        "unknown flag",
		"live extra":                         `"extra" is one argument too many`,
		"replay a --pace slow":               "--pace slow",
		"replay a --pace -1x":                "--pace -1x",
		"replay a --timeout 0s":              "--timeout 0s",
		"summary":                            "FILE is missing",
		"tap --listen 127.0.0.1:0 --port -1": "--port -1",
	} {
		s := ccdump(t, strings.Fields(line)...)
		require.Equal(t, exitUsage, s.code, line)
		require.Contains(t, s.status, want, line)
	}
	s := ccdump(t, filepath.Join(t.TempDir(), "missing"))
	require.Equal(t, exitFailed, s.code)
	require.Contains(t, s.status, "no such file")
	require.Contains(t, ccdump(t, "live", "--interface", "nosuch0").status, "interface nosuch0")
}
