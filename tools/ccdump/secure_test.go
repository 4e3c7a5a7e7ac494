package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/internal/authority"
	"confcenter/internal/servertest"
	"confcenter/server"
	"confcenter/tools/ccdump/capture"
)

// wiretap makes packets of what connections carry.
type wiretap struct {
	mu   sync.Mutex
	at   int64
	list []capture.Record
}

// tapped is a connection under a wiretap.
type tapped struct {
	net.Conn
	of    *wiretap
	synth *capture.Synth
}

func (w *wiretap) dial(t *testing.T, addr net.Addr) net.Conn {
	c, err := net.Dial("tcp", addr.String())
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	one := &tapped{Conn: c, of: w}
	one.synth = capture.NewSynth(endpoint(c.LocalAddr()), endpoint(addr), func(r *capture.Record) error {
		r.Data = bytes.Clone(r.Data)
		w.list = append(w.list, *r)
		return nil
	})
	one.see(one.synth.Open)
	return one
}

func (c *tapped) see(do func(at int64) error) {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	c.of.at += int64(time.Millisecond)
	_ = do(c.of.at) // what the list takes
}

func (c *tapped) Write(b []byte) (int, error) {
	c.see(func(at int64) error { return c.synth.Data(0, at, b) })
	return c.Conn.Write(b)
}

func (c *tapped) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.see(func(at int64) error { return c.synth.Data(1, at, b[:n]) })
	return n, err
}

func (c *tapped) Close() error {
	c.see(c.synth.Close)
	return c.Conn.Close()
}

// trust is a server's certificate and who believes it.
func trust(t *testing.T) (client, srv *tls.Config) {
	from, err := authority.New()
	require.NoError(t, err)
	pair, err := from.Issue("server", time.Now().Add(time.Hour))
	require.NoError(t, err)
	cert, err := pair.Certificate()
	require.NoError(t, err)
	return &tls.Config{RootCAs: from.Pool(), ServerName: "localhost"}, &tls.Config{Certificates: []tls.Certificate{cert}}
}

// overheard is the capture of a conversation, over TLS if there is a client's configuration.
func overheard(t *testing.T, talk func(*cast), client, srv *tls.Config) []capture.Record {
	cfg := server.Config{TLS: srv}
	if client != nil {
		cfg.TLSListen = "127.0.0.1:0"
	}
	s := freshWith(t, cfg)
	w := &wiretap{at: 1_700_000_000_000_000_000}
	c := &cast{t: t, peers: map[string]*servertest.Peer{}}
	c.dial = func() *servertest.Peer {
		if client == nil {
			return servertest.Over(t, w.dial(t, s.Addr()))
		}
		return servertest.Over(t, tls.Client(w.dial(t, s.TLSAddr()), client))
	}
	talk(c)
	c.leave()
	return w.list
}

// frames are the lines of a text that show frames, without what differs from run to run.
func frames(text string) (lines []string) {
	changes := regexp.MustCompile(`^\S+ |in [0-9.]+[µm]?s$|127\.0\.0\.1:\d+|EVNOTIFY seq=\d+|"(epoch|addr|begin|fd|mtime|t|updated|expires|left)":("[^"]*"|\d+)`)
	for line := range strings.Lines(text) {
		if strings.Contains(line, " seq=") {
			lines = append(lines, changes.ReplaceAllString(strings.TrimSpace(line), "~"))
		}
	}
	return lines
}

// A conversation over TLS is shown as the same one without, given its keys.
func TestWithAKeyLogTLSIsShownAsIfItWereNone(t *testing.T) {
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		client, srv := trust(t)
		client.MaxVersion = version
		for _, one := range recorded {
			t.Run(one.name, func(t *testing.T) {
				plain := ccdump(t, fileOf(t, overheard(t, one.talk, nil, nil)), "--body", "whole")
				require.Zero(t, plain.code, plain.status)
				keys := filepath.Join(t.TempDir(), "keys.log")
				log, err := os.Create(keys)
				require.NoError(t, err)
				defer log.Close()
				client := client.Clone()
				client.KeyLogWriter = log
				file := fileOf(t, overheard(t, one.talk, client, srv))
				read := ccdump(t, file, "--body", "whole", "--key-log", keys)
				require.Zero(t, read.code, read.status)
				require.Empty(t, read.status)
				require.Equal(t, frames(plain.out), frames(read.out))
				require.Equal(t, strings.Count(plain.out, " opened"), strings.Count(read.out, tls.VersionName(version)+" with TLS_"))
				require.NotContains(t, read.out, "! skipped")

				s := ccdump(t, "summary", file, "--key-log", keys)
				require.Contains(t, s.out, "WHOAMI")
				require.Empty(t, s.status)
				s = ccdump(t, "replay", file, "--key-log", keys, "--to", fresh(t).Addr().String())
				require.Zero(t, s.code, s.out+s.status)
				require.Contains(t, s.out, " 0 different")

				sealed := ccdump(t, file)
				require.Contains(t, sealed.out, "! this is TLS: only with --key-log can it be read")
				require.Contains(t, sealed.status, "are TLS and their keys are not known")
				require.Empty(t, frames(sealed.out))
			})
		}
	}
}

// Whichever packet is missing after the handshake, no more than its own frames are unknown.
func TestTLSThatMissesAPacket(t *testing.T) {
	client, srv := trust(t)
	keys := filepath.Join(t.TempDir(), "keys.log")
	log, err := os.Create(keys)
	require.NoError(t, err)
	defer log.Close()
	client.KeyLogWriter = log
	all := overheard(t, talkState, client, srv)
	whole := ccdump(t, fileOf(t, all), "--key-log", keys)
	total := len(frames(whole.out))
	missed := 0
	var opened capture.Segment
	require.Zero(t, opened.Decode(&all[0]))
	shaken := map[netip.AddrPort]bool{} // clients whose handshake has ended; a server's may come in several packets
	for i := range all {
		var seg capture.Segment
		require.Zero(t, seg.Decode(&all[i]))
		peer := seg.Src
		if peer == opened.Dst {
			peer = seg.Dst
		} else if len(seg.Payload) > 0 && seg.Payload[0] == 20 {
			shaken[peer] = true
			continue
		}
		if len(seg.Payload) == 0 || seg.Payload[0] != 23 || !shaken[peer] {
			continue
		}
		s := ccdump(t, without(t, all, i), "--key-log", keys)
		require.Zero(t, s.code, s.status)
		left := len(frames(s.out)) - strings.Count(s.out, "# the reply to") - strings.Count(s.out, "was never answered")
		require.GreaterOrEqual(t, left, total-2, "without packet %d\n%s", i, s.out)
		require.LessOrEqual(t, left, total)
		if missed++; left < total {
			require.Contains(t, s.out, "lost")
		}
	}
	require.Greater(t, missed, 40)
}

// A connection that was there before the capture is named.
func TestTLSThatBeganBeforeTheCapture(t *testing.T) {
	client, srv := trust(t)
	all := overheard(t, talkState, client, srv)
	at := 0
	for i := range all {
		var seg capture.Segment
		require.Zero(t, seg.Decode(&all[i]))
		if at = i; i > 10 && len(seg.Payload) > 0 && seg.Payload[0] == 23 {
			break
		}
	}
	s := ccdump(t, fileOf(t, all[at:]))
	require.Contains(t, s.out, "! this is TLS that began before the capture did")
	require.Contains(t, s.status, "are TLS")
}

func TestKeyLogsThatAreNone(t *testing.T) {
	file := filepath.Join("testdata", "config.pcap")
	s := ccdump(t, file, "--key-log", filepath.Join(t.TempDir(), "missing"))
	require.Equal(t, exitFailed, s.code)
	require.Contains(t, s.status, "no such file")
	s = ccdump(t, file, "--key-log", filepath.Join("testdata", "config.txt"))
	require.Equal(t, exitFailed, s.code)
	require.Contains(t, s.status, "is no key log")
}

// lines are those that a program prints, one after the other.
type printed struct {
	io.Writer
	text chan string
}

func (p printed) Write(b []byte) (int, error) {
	p.text <- string(b)
	return len(b), nil
}

// A tap shows what programs say over TLS while they say it, with keys that come meanwhile.
func TestATapReadsTLSWhileItGoesOn(t *testing.T) {
	client, srv := trust(t)
	s := freshWith(t, server.Config{TLSListen: "127.0.0.1:0", TLS: srv})
	keys := filepath.Join(t.TempDir(), "keys.log")
	log, err := os.Create(keys)
	require.NoError(t, err)
	defer log.Close()
	client.KeyLogWriter = log
	ctx, stop := context.WithTimeout(t.Context(), servertest.Patience)
	defer stop()
	out, status := printed{text: make(chan string, 100)}, printed{text: make(chan string, 100)}
	done := make(chan int, 1)
	go func() {
		done <- run(ctx, []string{"tap", "--listen", "127.0.0.1:0", "--to", s.TLSAddr().String(), "--key-log", keys, "--body", "whole"}, strings.NewReader(""), out, status)
	}()
	first := <-status.text
	addr := strings.Fields(strings.SplitN(first, "listening on ", 2)[1])[0]
	raw, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	p := servertest.Over(t, tls.Client(raw, client))
	p.Identify(`{"svrid":0,"svrname":"tapped"}`)
	for text := ""; !strings.Contains(text, "< WHOAMI_RSP"); {
		select {
		case more := <-out.text:
			text += more
		case <-ctx.Done():
			require.Fail(t, "not shown while the connection is open", text)
		}
	}
	p.Close()
	stop()
	for range out.text {
		if len(out.text) == 0 {
			break
		}
	}
	require.Zero(t, <-done)
}
