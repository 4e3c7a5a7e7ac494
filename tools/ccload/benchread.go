package main

import (
	"fmt"
	"time"

	"confcenter/protocol"
)

// rival is one side of a comparison.
type rival struct {
	pid   int // its server
	run   func() (*tally, error)
	rates []float64
	p99   []float64 // µs
	busy  []float64 // part of its core that its server used
}

func (r *rival) measure() error {
	cpu, began := cpuTime(r.pid), time.Now()
	t, err := r.run()
	if err != nil {
		return err
	}
	if err := t.err(); err != nil {
		return err
	}
	r.busy = append(r.busy, float64(cpuTime(r.pid)-cpu)/float64(time.Since(began)))
	r.rates = append(r.rates, t.perSecond())
	r.p99 = append(r.p99, micros(t.latency.ValueAtQuantile(99)))
	return nil
}

// compare measures a and b pair by pair, each first in turn, and returns the
// median of a's rate over b's.
func compare(a, b *rival, pairs int) (float64, error) {
	for i := range pairs {
		first, second := a, b
		if i%2 == 1 {
			first, second = b, a
		}
		if err := first.measure(); err != nil {
			return 0, err
		}
		if err := second.measure(); err != nil {
			return 0, err
		}
	}
	return median(ratios(a.rates, b.rates)), nil
}

func (r *rival) String() string {
	return fmt.Sprintf("%.0f/s (p99 %.0f µs, core %.0f%%)", median(r.rates), median(r.p99), 100*median(r.busy))
}

// gets compares GETCONFIG with the bare server's answers of the same size.
func (b *bench) gets() error {
	real, err := b.serve(benchFiles)
	if err != nil {
		return err
	}
	defer real.stop()
	conns, err := b.loop.identify(dialing{addr: real.addr}, benchConns)
	if err != nil {
		return err
	}
	defer b.loop.closeAll(conns)
	size, err := b.checkDocuments(conns[0])
	if err != nil {
		return err
	}
	bare, err := b.bare(size)
	if err != nil {
		return err
	}
	defer bare.stop()
	bareConns, err := b.loop.identify(dialing{addr: bare.addr}, benchConns)
	if err != nil {
		return err
	}
	defer b.loop.closeAll(bareConns)
	for _, at := range []struct {
		depth  int
		target float64
	}{{1, 0.85}, {16, 0.7}, {64, 0.5}} {
		ours := b.closed(real.pid, conns, at.depth)
		theirs := b.closed(bare.pid, bareConns, at.depth)
		ratio, err := compare(ours, theirs, b.cfg.pairs)
		if err != nil {
			return err
		}
		if err := b.report(figure{
			Name: fmt.Sprintf("GETCONFIG of %d B, depth %d, of ceiling", size, at.depth), Value: ratio, Target: at.target,
			Detail: fmt.Sprintf("%v of %v", ours, theirs),
		}); err != nil {
			return err
		}
	}
	return nil
}

// closed is a rival that asks for small documents at random in a closed loop.
func (b *bench) closed(pid int, conns []*conn, depth int) *rival {
	names := fileNames(benchFiles)
	return &rival{pid: pid, run: func() (*tally, error) {
		return newClosedLoop(b.loop, conns, depth, readTape(newRandom(depth), names)).run(b.cfg.slice)
	}}
}

// checkDocuments asks for every small document once and compares it with what was
// written; it returns the size of the replies' bodies in bytes.
func (b *bench) checkDocuments(c *conn) (int, error) {
	size := 0
	for i, name := range fileNames(benchFiles) {
		body, err := b.loop.ask(c, protocol.GetConfig, protocol.AppendConfigQuery(nil, name, "", 0, false))
		if err != nil {
			return 0, err
		}
		doc, err := protocol.ParseConfig(body)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", name, err)
		}
		if want := smallDocument(name, i, replySize); string(doc.Contents) != string(want) {
			return 0, fmt.Errorf("%s is %.200q, want %.200q", name, doc.Contents, want)
		}
		size = max(size, len(body))
	}
	return size, nil
}

const (
	largeName    = "large0.json" // as long as the names of small documents
	largeMembers = 10_000
)

// paths compares the time for each path of a large document, once, with as many
// paths of small documents. Before each time the large document is replaced, so
// that whatever the server has prepared for it is worth nothing.
func (b *bench) paths() error {
	s, err := b.serve(benchFiles)
	if err != nil {
		return err
	}
	defer s.stop()
	conns, err := b.loop.identify(dialing{addr: s.addr}, benchConns+1)
	if err != nil {
		return err
	}
	defer b.loop.closeAll(conns)
	writer, conns := conns[0], conns[1:]
	smallPaths := make([]string, largeMembers)
	for i := range smallPaths {
		smallPaths[i] = partPath
	}
	var cold, warm, small []float64
	play := func(names, paths []string) (float64, error) {
		t, err := newClosedLoop(b.loop, conns, 16, pathTape(newRandom(0), names, paths)).play(len(paths))
		if err == nil {
			err = t.err()
		}
		return millis(t.end - t.start), err
	}
	if err := b.checkPaths(writer); err != nil {
		return err
	}
	for i := range b.cfg.pairs {
		if _, err := b.loop.set(writer, largeName, largeDocument(largeMembers, i)); err != nil {
			return err
		}
		for _, part := range []struct {
			times *[]float64
			names []string
			paths []string
		}{{&cold, []string{largeName}, largePaths(largeMembers)}, {&small, fileNames(benchFiles), smallPaths}, {&warm, []string{largeName}, largePaths(largeMembers)}} {
			ms, err := play(part.names, part.paths)
			if err != nil {
				return err
			}
			*part.times = append(*part.times, ms)
		}
	}
	return b.report(figure{
		Name: "10,000 paths of 1 MB, once each, of small", Value: median(ratios(cold, small)), AtMost: true, Target: 1.5, Unit: "x",
		Detail: fmt.Sprintf("%.1f ms of %.1f ms; again %.1f ms", median(cold), median(small), median(warm)),
	})
}

// checkPaths asks for every path once: a path that is not there would be answered
// with code 0 too, and fast.
func (b *bench) checkPaths(c *conn) error {
	if _, err := b.loop.set(c, largeName, largeDocument(largeMembers, b.cfg.pairs)); err != nil {
		return err
	}
	check := func(name, path string) error {
		body, err := b.loop.ask(c, protocol.GetConfig, protocol.AppendConfigQuery(nil, name, path, 0, false))
		if err != nil {
			return err
		}
		if doc, err := protocol.ParseConfig(body); err != nil || len(doc.Contents) != partSize {
			return fmt.Errorf("%s of %s is %.200q (%v), want %d bytes", path, name, doc.Contents, err, partSize)
		}
		return nil
	}
	for _, path := range largePaths(largeMembers) {
		if err := check(largeName, path); err != nil {
			return err
		}
	}
	return check(fileNames(1)[0], partPath)
}

// changesPerSecond is how often another file changes while files are read.
const changesPerSecond = 100

// changes compares reading with reading while another file changes.
func (b *bench) changes() error {
	s, err := b.serve(benchFiles)
	if err != nil {
		return err
	}
	defer s.stop()
	conns, err := b.loop.identify(dialing{addr: s.addr}, benchConns)
	if err != nil {
		return err
	}
	defer b.loop.closeAll(conns)
	writer, err := b.loop.identify(dialing{addr: s.addr, urgent: true}, 1)
	if err != nil {
		return err
	}
	defer b.loop.closeAll(writer)
	quiet := b.closed(s.pid, conns, 16)
	busy := b.closed(s.pid, conns, 16)
	writes := newOpenLoop(b.loop, writer, newWrites([]string{"w00000.json"}, 200, 0))
	var made []float64
	read := busy.run
	busy.run = func() (*tally, error) {
		writes.begin(changesPerSecond)
		t, err := read()
		if err != nil {
			return nil, err
		}
		done, err := writes.end()
		if err == nil {
			err = done.err()
		}
		made = append(made, done.perSecond())
		return t, err
	}
	ratio, err := compare(busy, quiet, b.cfg.pairs)
	if err != nil {
		return err
	}
	return b.report(figure{
		Name: "reads while a file changes 100/s, of without", Value: ratio, Target: 0.9,
		Detail: fmt.Sprintf("%v of %v, %.0f changes/s", busy, quiet, median(made)),
	})
}
