package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"confcenter/protocol"
	"confcenter/tools/ccdump/capture"
)

const (
	// dumpConns is how many connections the capture that is added up has.
	dumpConns = 64
	// dumpHalfOpen is how many more only begin.
	dumpHalfOpen = 10_000
)

// dumps measures `ccdump summary` on one core: on a capture of small documents, a
// frame in nearly every packet, which is the hardest there is.
func (b *bench) dumps() error {
	file := filepath.Join(b.work, "bench.pcap")
	frames, size, err := writeCapture(file, int64(b.cfg.dumpSize)<<20)
	if err != nil {
		return err
	}
	defer os.Remove(file)
	var rates []float64
	var peak int64
	for range b.cfg.pairs {
		rate, resident, err := b.summarize(file, frames, size)
		if err != nil {
			return err
		}
		rates, peak = append(rates, rate), max(peak, resident)
	}
	name := fmt.Sprintf("capture of %d MiB added up, on one core", b.cfg.dumpSize)
	if err := b.report(figure{
		Name: name, Value: median(rates), Target: 200, Unit: "MB/s",
		Detail: fmt.Sprintf("%d frames of %d B on average, by the time the process ran", frames, size/frames),
	}); err != nil {
		return err
	}
	return b.report(figure{
		Name: "peak memory of that", Value: mebibytes(peak), AtMost: true, Target: 128, Unit: "MiB",
		Detail: fmt.Sprintf("%d connections at work, %d half-open", dumpConns, dumpHalfOpen),
	})
}

// summarize adds a capture up once and checks that all of it was found. The rate is
// that of the time the process had its core, start and end included.
func (b *bench) summarize(file string, frames, size int64) (rate float64, peak int64, err error) {
	argv := pinned(b.core, []string{b.cfg.dump, "summary", file, "-o", "json"})
	cmd := exec.CommandContext(b.loop.ctx, argv[0], argv[1:]...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return 0, 0, fmt.Errorf("%s: %w", b.cfg.dump, err)
	}
	var found struct {
		TCP struct {
			Frames  int64 `json:"frames"`
			Skipped int64 `json:"skipped"`
		} `json:"tcp"`
	}
	if err := json.Unmarshal(out, &found); err != nil {
		return 0, 0, err
	}
	if found.TCP.Frames != frames || found.TCP.Skipped != 0 {
		return 0, 0, fmt.Errorf("%s found %d frames and skipped %d bytes, the capture has %d frames", b.cfg.dump, found.TCP.Frames, found.TCP.Skipped, frames)
	}
	ran := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	if usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		peak = usage.Maxrss << 10
	}
	return float64(size) / 1e6 / ran.Seconds(), peak, nil
}

// writeCapture makes a capture of at least limit bytes of GETCONFIG of small documents,
// their replies and a push for each fifty, behind the half-open connections.
func writeCapture(name string, limit int64) (frames, size int64, err error) {
	file, err := os.Create(name)
	if err != nil {
		return 0, 0, err
	}
	defer file.Close()
	out := bufio.NewWriterSize(file, 1<<20)
	w, err := capture.NewWriter(out, capture.RawIP, false)
	if err != nil {
		return 0, 0, err
	}
	packet := func(rec *capture.Record) error {
		size += int64(len(rec.Data)) + 16
		return w.Write(rec)
	}
	begun := int64(-1) // where the half-open ones end
	more := func() bool {
		if begun < 0 {
			begun = size
		}
		return size < begun+limit
	}
	if frames, err = converse(packet, more); err != nil {
		return 0, 0, err
	}
	if err := w.Flush(); err != nil {
		return 0, 0, err
	}
	if err := out.Flush(); err != nil {
		return 0, 0, err
	}
	return frames, size, file.Close()
}

// converse makes the packets of the capture as long as more says so.
func converse(packet func(*capture.Record) error, more func() bool) (frames int64, err error) {
	server := capture.EndpointOf(netip.MustParseAddrPort("10.0.0.1:4800"))
	at := time.Unix(1_700_000_000, 0).UnixNano()
	var conns []*capture.Synth
	for i := range dumpHalfOpen + dumpConns {
		client := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 1, byte(i >> 13)}), uint16(20000+i&0x1fff))
		c := capture.NewSynth(capture.EndpointOf(client), server, packet)
		if err := c.Open(at); err != nil {
			return 0, err
		}
		if i >= dumpHalfOpen {
			conns = append(conns, c)
		}
	}
	names := fileNames(benchFiles)
	for i := 0; more(); i++ {
		c, seq, name := conns[i%len(conns)], uint16(i/len(conns)), names[i%len(names)]
		at += 20_000
		if err := c.Data(0, at, protocol.AppendFrame(nil, protocol.GetConfig, seq, protocol.AppendConfigQuery(nil, name, "", 0, false))); err != nil {
			return 0, err
		}
		reply := fmt.Appendf(nil, `{"code":0,"mtime":1700000000,"file_pattern":"%s","contents":%s}`, name, smallDocument(name, i, replySize))
		if err := c.Data(1, at+50_000, protocol.AppendFrame(nil, protocol.GetConfig.Reply(), seq, reply)); err != nil {
			return 0, err
		}
		frames += 2
		if i%50 == 0 {
			push := protocol.AppendChange(nil, protocol.Change{File: name, Mtime: 1_700_000_000})
			if err := c.Data(1, at+60_000, protocol.AppendFrame(nil, protocol.EvNotify, uint16(i), push)); err != nil {
				return 0, err
			}
			frames++
		}
	}
	return frames, nil
}

// taps compares the latency of requests through `ccdump tap` with that of the same
// requests without it.
func (b *bench) taps() error {
	s, err := b.serve(benchFiles)
	if err != nil {
		return err
	}
	defer s.stop()
	addr, err := freeAddr()
	if err != nil {
		return err
	}
	tap, err := startProcess(b.core, b.work, "tap", []string{b.cfg.dump, "tap", "--listen", addr, "--to", s.addr})
	if err != nil {
		return err
	}
	defer tap.stop()
	tap.addr = addr
	if err := tap.ready(b.loop.ctx, time.Minute); err != nil {
		return err
	}
	var sides [2]*rivalLatency
	for i, to := range []string{s.addr, addr} {
		conns, err := b.loop.identify(dialing{addr: to}, 1)
		if err != nil {
			return err
		}
		defer b.loop.closeAll(conns)
		sides[i] = &rivalLatency{conns: conns}
	}
	for i := range 2 * b.cfg.pairs {
		for j := range sides {
			if err := sides[(i+j)%2].measure(b); err != nil {
				return err
			}
		}
	}
	var added []float64
	for i, direct := range sides[0].p50 {
		added = append(added, sides[1].p50[i]-direct)
	}
	return b.report(figure{
		Name: "tap adds to a request, p50", Value: median(added), AtMost: true, Target: 60, Unit: "µs",
		Detail: fmt.Sprintf("%.1f of %.1f µs, one request at a time, each printed", median(sides[1].p50), median(sides[0].p50)),
	})
}

// rivalLatency is one side of a comparison by latency.
type rivalLatency struct {
	conns []*conn
	p50   []float64 // µs, of each measurement
}

func (r *rivalLatency) measure(b *bench) error {
	t, err := newClosedLoop(b.loop, r.conns, 1, readTape(newRandom(0), fileNames(benchFiles))).run(b.cfg.slice)
	if err == nil {
		err = t.err()
	}
	if err != nil {
		return err
	}
	r.p50 = append(r.p50, micros(t.latency.ValueAtQuantile(50)))
	return nil
}
