package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	jsoniter "github.com/json-iterator/go"

	"confcenter/protocol"
	"confcenter/tools/ccdump/capture"
)

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
	frames, size, err := writeCapture(file, int64(b.cfg.dumpSize)<<20)
	check(err)
	defer os.Remove(file)
	var rates []float64
	var peak int64
	for range b.cfg.pairs {
		rate, resident := b.summarize(file, frames, size)
		rates, peak = append(rates, rate), max(peak, resident)
	}
	b.atLeast(fmt.Sprintf("capture of %d MiB added up, on one core", b.cfg.dumpSize), median(rates), 200, "MB/s",
		"%d frames of %d B on average, by the time the process ran", frames, size/frames)
	b.atMost("peak memory of that", mebibytes(peak), 128, "MiB", "%d connections at work, %d half-open", dumpConns, dumpHalfOpen)
}

// summarize adds up a capture once and checks that every frame was found. The rate counts
// the time for which the process had its core, including start and end.
func (b *bench) summarize(file string, frames, size int64) (rate float64, peak int64) {
	argv := pinned(b.core, []string{b.cfg.dump, "summary", file, "-o", "json"})
	cmd := exec.CommandContext(b.loop.ctx, argv[0], argv[1:]...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	err := cmd.Start()
	if err == nil {
		ended, seen := make(chan struct{}), make(chan int64)
		go func() { seen <- peakUntil(ended, cmd.Process.Pid) }()
		err = cmd.Wait()
		close(ended)
		peak = <-seen
	}
	if err != nil {
		check(fmt.Errorf("%s: %w", b.cfg.dump, err))
	}
	var found struct {
		TCP struct {
			Frames  int64 `json:"frames"`
			Skipped int64 `json:"skipped"`
		} `json:"tcp"`
	}
	check(jsoniter.Unmarshal(out.Bytes(), &found))
	if found.TCP.Frames != frames || found.TCP.Skipped != 0 {
		check(fmt.Errorf("%s found %d frames and skipped %d bytes, the capture has %d frames", b.cfg.dump, found.TCP.Frames, found.TCP.Skipped, frames))
	}
	ran := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return float64(size) / 1e6 / ran.Seconds(), peak
}

// writeCapture writes a capture that begins with the half-open connections, followed
// by at least limit bytes of GETCONFIG requests for small documents with their replies,
// and a push after every fifty.
func writeCapture(name string, limit int64) (frames, size int64, err error) {
	file, err := os.Create(name)
	if err != nil {
		return 0, 0, err
	}
	defer file.Close()
	out := bufio.NewWriterSize(file, 1<<20)
	w, err := capture.NewWriter(out, capture.RawIP)
	if err != nil {
		return 0, 0, err
	}
	server := netip.MustParseAddrPort("10.0.0.1:4800")
	at := time.Unix(1_700_000_000, 0).UnixNano()
	var conns []*capture.Synth
	for i := range dumpHalfOpen + dumpConns {
		client := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 1, byte(i >> 13)}), uint16(20000+i&0x1fff))
		c := capture.NewSynth(client, server, func(rec *capture.Record) error {
			size += int64(len(rec.Data)) + 32
			return w.Write(rec)
		})
		if err := c.Open(at); err != nil {
			return 0, 0, err
		}
		if i >= dumpHalfOpen {
			conns = append(conns, c)
		}
	}
	names := fileNames(benchFiles)
	limit += size
	for i := 0; size < limit; i++ {
		c, seq, name := conns[i%len(conns)], uint16(i/len(conns)), names[i%len(names)]
		at += 20_000
		query := protocol.AppendConfigQuery(nil, name, "", 0, false)
		reply := fmt.Appendf(nil, `{"code":0,"mtime":1700000000,"file_pattern":"%s","contents":%s}`, name, smallDocument(name, i, replySize))
		err = errors.Join(
			c.Data(0, at, protocol.AppendFrame(nil, protocol.GetConfig, seq, query)),
			c.Data(1, at+50_000, protocol.AppendFrame(nil, protocol.GetConfig.Reply(), seq, reply)))
		frames += 2
		if i%50 == 0 {
			push := protocol.AppendChange(nil, protocol.Change{File: name, Mtime: 1_700_000_000})
			err = errors.Join(err, c.Data(1, at+60_000, protocol.AppendFrame(nil, protocol.EvNotify, uint16(i), push)))
			frames++
		}
		if err != nil {
			return 0, 0, err
		}
	}
	return frames, size, errors.Join(w.Flush(), out.Flush(), file.Close())
}

// taps compares the latency of the same requests with and without `ccdump tap`.
func (b *bench) taps() {
	s := b.serve(benchFiles)
	addr := must(freeAddr())
	b.launch("tap", addr, greet, b.cfg.dump, "tap", "--listen", addr, "--to", s.addr)
	reads := readTape(newRandom(0), fileNames(benchFiles), "")
	direct, tapped := b.closed(s.pid, b.dial(s.addr, 1), 1, reads), b.closed(s.pid, b.dial(addr, 1), 1, reads)
	var ofDirect, ofTapped, added []float64
	for i := range 2 * b.cfg.pairs {
		pair := must(measurePair(direct, tapped, i%2 == 1))
		ofDirect, ofTapped = append(ofDirect, pair[0].p50), append(ofTapped, pair[1].p50)
		added = append(added, pair[1].p50-pair[0].p50)
	}
	b.atMost("tap adds to a request, p50", median(added), 60, "µs",
		"%.1f of %.1f µs, one request at a time, each printed", median(ofTapped), median(ofDirect))
}
