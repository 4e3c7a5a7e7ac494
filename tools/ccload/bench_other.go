package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"confcenter/internal/authority"
	"confcenter/internal/flood"
	"confcenter/protocol"
	"confcenter/tools/ccdump/capture"
)

// secured measures TLS: reads against the same ones without it, a push, and an idle connection.
func (b *bench) secured() {
	cert, key := filepath.Join(b.work, "cert.pem"), filepath.Join(b.work, "key.pem")
	from := must(authority.New())
	pair := must(from.Issue("server", time.Now().Add(24*time.Hour)))
	check(errors.Join(os.WriteFile(cert, pair.Cert, 0o600), os.WriteFile(key, pair.Key, 0o600)))
	addr := freeAddr()
	s := b.serve(benchFiles, append(limit("--max-connections", max(b.of(subscribers), b.of(idle))), "--tls-cert", cert, "--tls-key", key, "--tls-listen", addr)...)
	trust := &tls.Config{RootCAs: from.Pool(), ServerName: "localhost"}
	b.loop.tls = trust
	defer func() { b.loop.tls = nil }()
	b.idleOver("memory of an idle connection over TLS, of %d", s, addr, 24)
	b.hangUp()
	conns := b.dial(addr, benchConns)
	b.loop.tls = nil
	plain := b.dial(s.addr, benchConns)
	for _, depth := range []int{1, 16} {
		b.versus(fmt.Sprintf("GETCONFIG over TLS, depth %d, of without", depth), b.closed(s.pid, conns, depth, benchReads(depth)), b.closed(s.pid, plain, depth, benchReads(depth)), 0.5)
	}
	b.loop.tls = trust
	took := each(newConfigFanout(b.loop, addr, b.of(secureOnes)).rounds(fanoutWarmup, 4*b.pairs, pushPause), round.allTold)
	b.atMost(fmt.Sprintf("push to %d subscribers over TLS", b.of(secureOnes)), median(took), 150, "ms", "from the change to the last one, p90 %.1f ms", quantile(took, 0.9))
}

// builds compares the server with an earlier build of it. It tells what the changes since
// then cost those who do not use what they brought.
func (b *bench) builds() {
	start := func(binary string) (pid int, conns []*conn) {
		b.binary = binary
		s := b.serve(benchFiles)
		conns = b.dial(s.addr, benchConns)
		b.checkDocuments(conns[0])
		b.loadForGets(conns)
		return s.pid, conns
	}
	defer func() { b.binary = b.server }()
	pid, conns := start(b.server)
	before, connsBefore := start(b.before)
	for _, what := range []struct {
		name string
		side func(pid int, conns []*conn, depth int, requests *tape) *rival
		tape func(depth int) *tape
		deep int // of the depths
	}{{"GETCONFIG", b.closed, benchReads, 3}, {"KVGET", b.closed, b.keyReads, 3}, {"durable KVPUT", b.durable, b.keyWrites, 2}} {
		for _, depth := range depths[:what.deep] {
			b.versus(fmt.Sprintf("%s, depth %d, of the build before", what.name, depth), what.side(pid, conns, depth, what.tape(depth)), what.side(before, connsBefore, depth, what.tape(depth)), 0.95)
		}
	}
}

// The besieged server's limits: the flood holds more than any of them allows.
const (
	siegeFiles  = "4096"
	siegeBudget = 512 // MiB
	siegeHold   = 8000
	siegeTime   = time.Minute
)

// attack is a flood on the loop, as fast as it can. It makes few connects before it looks at
// what has arrived, as their time counts towards the latency.
type attack struct{ *flood.Flood }

func (a *attack) tick(at int64) int64 {
	for range 4 {
		check(a.Connect())
	}
	return at
}

// newcomers come one after the other and say how many seconds it took each.
func newcomers(ctx context.Context, addr string, every time.Duration, in chan<- float64) {
	defer close(in)
	for ctx.Err() == nil {
		begun := now()
		for greet(addr) != nil && now()-begun < int64(readyLimit) {
			// turned away: at once again, as the worst of clients do
		}
		in <- seconds(now() - begun)
		select {
		case <-ctx.Done():
		case <-time.After(every):
		}
	}
}

// sieges measures what others notice of connects without end, over TCP and HTTP, from
// several addresses.
func (b *bench) sieges() {
	s := b.prepare(benchFiles, "--exempt-networks", "192.0.2.0/24", "--memory", fmt.Sprintf("%dMiB", siegeBudget))
	s.under = []string{"prlimit", "--nofile=" + siegeFiles}
	s.web = freeAddr()
	b.start(s)
	lasts := siegeTime / time.Duration(b.part)
	f := must(flood.New(s.addr, s.web, siegeHold))
	defer f.Close()
	came, a := make(chan float64, siegeHold), &attack{f}
	t := b.probe(s.addr, benchReads(0), func() {
		ctx, stop := context.WithTimeout(b.ctx, lasts)
		defer stop()
		go newcomers(ctx, s.addr, lasts/60, came)
		b.every(a)
		b.wait(lasts)
		b.stop(a)
	})
	var in []float64
	for one := range came {
		in = append(in, one)
	}
	b.atLeast("connects made under siege", float64(f.Begun)/lasts.Seconds(), 6000, "/s",
		"over TCP and HTTP from %d addresses for %v, up to %d held; the server has %s files and sent %d away, %d were not answered",
		flood.Sources, lasts, siegeHold, siegeFiles, f.Evicted, f.Ignored)
	b.atMost("p99 of GETCONFIG under siege", t.millis(99), 20, "ms", "p50 %.2f ms, max %.2f ms of %d requests at %d/s", t.millis(50), t.millis(100), t.done, proberRate)
	b.atMost("newcomer under siege is in, at worst", quantile(in, 1), 2, "s", "median %.4f s of %d, from a known address", median(in), len(in))
	b.atMost("peak memory under siege, of the budget", s.peak()/siegeBudget, 1.15, "x", "%.0f MiB of %d MiB", s.peak(), siegeBudget)
}

const (
	// dumpConns is how many connections of the capture exchange frames.
	dumpConns = 64
	// dumpHalfOpen is how many more only send their SYN.
	dumpHalfOpen = 10_000
)

// dumps measures `ccdump summary` on one core, with the hardest kind of capture: small
// documents, with a frame in nearly every packet.
func (b *bench) dumps() {
	file := filepath.Join(b.work, "bench.pcap")
	frames, size := writeCapture(file, int64(b.of(dumpSize))<<20)
	defer os.Remove(file)
	var rates []float64
	for range b.pairs {
		rates = append(rates, b.summarize(file, frames, size))
	}
	b.atLeast(fmt.Sprintf("capture of %d MiB added up, on one core", b.of(dumpSize)), median(rates), 200, "MB/s",
		"%d frames of %d B on average, by the time the process ran; %d connections at work, %d half-open", frames, size/frames, dumpConns, dumpHalfOpen)
}

// summarize adds up a capture once and checks that every frame was found. The rate counts
// the time for which the process had its core, including start and end.
func (b *bench) summarize(file string, frames, size int64) (rate float64) {
	p := startProcess(b.ctx, b.core, []string{b.dump, "summary", file, "-o", "json"})
	<-p.gone
	var found struct {
		TCP struct{ Frames, Skipped int64 }
	}
	check(json.Unmarshal(p.printed(), &found))
	if found.TCP.Frames != frames || found.TCP.Skipped != 0 {
		check(fmt.Errorf("%s found %d frames and skipped %d bytes, the capture has %d frames", b.dump, found.TCP.Frames, found.TCP.Skipped, frames))
	}
	return float64(size) / 1e6 / (p.ProcessState.UserTime() + p.ProcessState.SystemTime()).Seconds()
}

// writeCapture writes a capture that begins with the half-open connections, followed
// by at least limit bytes of GETCONFIG requests for small documents with their replies,
// and a push after every fifty.
func writeCapture(name string, limit int64) (frames, size int64) {
	file := must(os.Create(name))
	defer file.Close()
	out := bufio.NewWriterSize(file, 1<<20)
	w := must(capture.NewWriter(out, capture.RawIP))
	server := netip.MustParseAddrPort("10.0.0.1:4800")
	at := time.Unix(1_700_000_000, 0).UnixNano()
	var conns []*capture.Synth
	for i := range dumpHalfOpen + dumpConns {
		client := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 1, byte(i >> 13)}), uint16(20000+i&0x1fff))
		c := capture.NewSynth(client, server, func(rec *capture.Record) error {
			size += int64(len(rec.Data)) + 16
			return w.Write(rec)
		})
		check(c.Open(at))
		conns = append(conns, c)
	}
	conns = conns[dumpHalfOpen:]
	names := fileNames(benchFiles)
	limit += size
	for i := 0; size < limit; i++ {
		c, seq, name := conns[i%dumpConns], uint16(i/dumpConns), names[i%benchFiles]
		at += 20_000
		say := func(from int, after int64, cmd protocol.Command, seq uint16, body []byte) {
			check(c.Data(from, at+after, protocol.AppendFrame(nil, cmd, seq, body)))
			frames++
		}
		say(0, 0, protocol.GetConfig, seq, protocol.AppendConfigQuery(nil, name, "", 0, false))
		say(1, 50_000, protocol.GetConfig.Reply(), seq, fmt.Appendf(nil, `{"code":0,"mtime":1700000000,"file_pattern":"%s","contents":%s}`, name, smallDocument(name, i%benchFiles)))
		if i%50 == 0 {
			say(1, 60_000, protocol.EvNotify, uint16(i), protocol.AppendChange(nil, protocol.Change{File: name, Mtime: 1_700_000_000}))
		}
	}
	check(errors.Join(w.Flush(), out.Flush()))
	return frames, size
}

// taps compares the latency of the same requests with and without `ccdump tap`.
func (b *bench) taps() {
	s := b.serve(benchFiles)
	addr := freeAddr()
	b.launch(addr, greet, b.dump, "tap", "--listen", addr, "--to", s.addr)
	direct, tapped := b.closed(s.pid, b.dial(s.addr, 1), 1, benchReads(0)), b.closed(s.pid, b.dial(addr, 1), 1, benchReads(0))
	var ofDirect, ofTapped, added []float64
	for i := range 2 * b.pairs {
		pair := measurePair(direct, tapped, i%2 == 1)
		ofDirect, ofTapped = append(ofDirect, pair[0].p50), append(ofTapped, pair[1].p50)
		added = append(added, pair[1].p50-pair[0].p50)
	}
	b.atMost("tap adds to a request, p50", median(added), 60, "µs",
		"%.1f of %.1f µs, one request at a time, each printed", median(ofTapped), median(ofDirect))
}
