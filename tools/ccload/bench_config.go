package main

import (
	"fmt"
	"strconv"
	"time"

	"confcenter/protocol"
)

// gets compares GETCONFIG with a bare server's answers of the same size.
func (b *bench) gets() {
	s := b.serve(benchFiles)
	conns := b.dial(s.addr, benchConns)
	names := fileNames(benchFiles)
	size := b.checkDocuments(conns[0], names)
	b.ofCeiling(s, conns, size, []depthTarget{{1, 0.85}, {16, 0.7}, {64, 0.5}},
		func(depth int) (string, source) {
			return fmt.Sprintf("GETCONFIG of %d B, depth %d, of ceiling", size, depth), readTape(newRandom(depth), names, "")
		})
}

// depthTarget is the ratio to reach with depth requests in flight.
type depthTarget struct {
	depth  int
	target float64
}

// ofCeiling compares reads with a bare server's answers of size bytes.
func (b *bench) ofCeiling(s *served, conns []*conn, size int, targets []depthTarget, reads func(depth int) (name string, src source)) {
	bare := b.bare(size)
	bareConns := b.dial(bare.addr, benchConns)
	for _, at := range targets {
		name, src := reads(at.depth)
		ours, theirs := b.closed(s.pid, conns, at.depth, src), b.closed(bare.pid, bareConns, at.depth, src)
		b.atLeast(name, must(compare(ours, theirs, b.cfg.pairs)), at.target, "", "%v of %v", ours, theirs)
	}
}

// checkDocuments asks once for every small document, compares it with what was written,
// and returns the size of the replies' bodies in bytes.
func (b *bench) checkDocuments(c *conn, names []string) (size int) {
	for i, name := range names {
		body, doc := b.document(c, name, "")
		if want := smallDocument(name, i, replySize); string(doc.Contents) != string(want) {
			check(fmt.Errorf("%s is %.200q, want %.200q", name, doc.Contents, want))
		}
		size = max(size, len(body))
	}
	return size
}

// document asks for the value at path in a document and returns the reply both raw
// and parsed.
func (b *bench) document(c *conn, name, path string) (body []byte, doc protocol.Config) {
	body = must(b.loop.ask(c, protocol.GetConfig, protocol.AppendConfigQuery(nil, name, path, 0, false)))
	doc = must(protocol.ParseConfig(body))
	if doc.Contents == nil {
		check(fmt.Errorf("%s is not on the server", name))
	}
	return body, doc
}

// largeName is as long as the names of small documents.
const largeName = "large0.json"

// paths compares the time for each path of a large document, once, with as many
// paths of small documents. The large document is replaced before each run, so that
// nothing the server has prepared for it helps.
func (b *bench) paths() {
	conns := b.dial(b.serve(benchFiles).addr, benchConns+1)
	writer, conns := conns[0], conns[1:]
	large, small := largePaths(b.cfg.paths), make([]string, b.cfg.paths)
	for i := range small {
		small[i] = partPath
	}
	// A missing path would be answered with code 0 too, and fast.
	check(b.loop.set(writer, largeName, largeDocument(b.cfg.paths, b.cfg.pairs)))
	for _, path := range large {
		b.checkPath(writer, largeName, path)
	}
	names := fileNames(benchFiles)
	b.checkPath(writer, names[0], partPath)
	play := func(names, paths []string) float64 {
		t := counted(newLoad(b.loop, conns, pathTape(newRandom(0), names, paths)).play(16, len(paths)))
		return millis(t.end - t.start)
	}
	var cold, warm, ofSmall []float64
	for i := range b.cfg.pairs {
		check(b.loop.set(writer, largeName, largeDocument(b.cfg.paths, i)))
		cold = append(cold, play([]string{largeName}, large))
		ofSmall = append(ofSmall, play(names, small))
		warm = append(warm, play([]string{largeName}, large))
	}
	b.atMost(fmt.Sprintf("%d paths of a %.1f MB file, once each, of small", b.cfg.paths, float64(len(largeDocument(b.cfg.paths, 0)))/1e6),
		median(ratios(cold, ofSmall)), 1.5, "x", "%.1f ms of %.1f ms; again %.1f ms", median(cold), median(ofSmall), median(warm))
}

func (b *bench) checkPath(c *conn, name, path string) {
	if _, doc := b.document(c, name, path); len(doc.Contents) != partSize {
		check(fmt.Errorf("%s of %s is %.200q, want %d bytes", path, name, doc.Contents, partSize))
	}
}

const (
	// fanoutWarmup is how many changes are made before they count.
	fanoutWarmup = 3
	// controlName is a document nobody subscribes to, changed like the other one.
	controlName = "alone.json"
	// pushPause lets a server finish the work of one change before the next one is
	// timed.
	pushPause = 20 * time.Millisecond
)

// pushes compares a fan-out with a bare loop that writes the same frames, and
// measures its effect on other clients.
func (b *bench) pushes() {
	real := b.serve(benchFiles, "--max-connections", strconv.Itoa(b.cfg.subscribers+100))
	bare := b.bare(replySize)
	ours := newFanout(b.loop, real.addr, b.cfg.subscribers)
	theirs := newFanout(b.loop, bare.addr, b.cfg.subscribers)
	side := func(f *fanout, pid int) *rival {
		return &rival{pid: pid, run: func() (sample, error) {
			r, err := f.change()
			return sample{rate: f.perSecond(r)}, err
		}}
	}
	a, c := side(ours, real.pid), side(theirs, bare.pid)
	for range fanoutWarmup {
		must(measurePair(a, c, false))
	}
	ratio := must(compare(a, c, 2*b.cfg.pairs))
	b.atLeast(fmt.Sprintf("push to %d subscribers, of ceiling", b.cfg.subscribers), ratio, 0.9, "", "%v of %v, first to last", a, c)
	b.firstPush(ours)
	b.reportProbe("GETCONFIG during the pushes", b.probe(real.addr, readTape(newRandom(0), fileNames(benchFiles), ""), func() {
		ours.rounds(0, 10*b.cfg.pairs, 0, b.bar)
	}))
}

// firstPush compares the first push with the reply to a change that nobody follows:
// that reply leaves when the change is durable, so the difference is what came after.
func (b *bench) firstPush(f *fanout) {
	var later, total []float64
	writes := newWrites([]string{controlName}, 200, 0)
	alone := func() int64 {
		frame := writes.next(nil)
		check(b.loop.wait(pushPause))
		begun := b.loop.clock()
		must(b.loop.ask(f.writer, protocol.SetConfig, frame[protocol.HeaderSize:]))
		return b.loop.clock() - begun
	}
	alone()
	for range 4 * b.cfg.pairs {
		durable := alone()
		check(b.loop.wait(pushPause))
		r := must(f.change())
		later = append(later, millis(r.first-durable))
		total = append(total, millis(r.first))
	}
	b.atMost("first push after the change is durable", median(later), 1, "ms",
		"%.2f ms after the request, p90 of the difference %.2f ms", median(total), quantile(later, 0.9))
}

// idleMemory measures the memory of a connection that only identifies itself. The
// server gets a second before each reading to free memory.
func (b *bench) idleMemory() {
	s := b.serve(benchFiles, "--max-connections", strconv.Itoa(b.cfg.idle+100))
	b.idleOver("memory of an idle connection, of %d", s, s.addr, 2.5)
}

// idleOver measures connections to an address of a server.
func (b *bench) idleOver(name string, s *served, addr string, target float64) {
	settled := func() int64 {
		check(b.loop.wait(time.Second))
		return must(memoryOf(s.pid)).now
	}
	b.dial(addr, 1) // pays for what all share
	before := settled()
	b.dial(addr, b.cfg.idle)
	after := settled()
	b.atMost(fmt.Sprintf(name, b.cfg.idle), float64(after-before)/float64(b.cfg.idle)/1024, target, "KiB",
		"resident %.1f MiB", mebibytes(after))
}

// restarts is how often a server is started again.
const restarts = 3

// starts measures from the start of the process to the last file answered: once
// with an empty data directory, then with what the first start left there.
func (b *bench) starts() {
	s := b.prepare(b.cfg.startFiles)
	names := fileNames(b.cfg.startFiles)
	var times []float64
	for range 1 + restarts {
		begun := time.Now()
		b.start(s)
		b.document(b.dial(s.addr, 1)[0], names[len(names)-1], "")
		times = append(times, time.Since(begun).Seconds())
		b.clear()
	}
	const detail = "from exec to the last file answered, on one core"
	b.atMost(fmt.Sprintf("first start with %d files", len(names)), times[0], 0.4, "s", detail)
	b.atMost(fmt.Sprintf("start again with %d files", len(names)), median(times[1:]), 0.4, "s", detail)
}

const stallChanges = 6

// stalls measures what clients that do not read cost in memory, and other clients in
// latency.
func (b *bench) stalls() {
	s := b.serve(benchFiles, "--max-connections", strconv.Itoa(b.cfg.stalled+100))
	st := newStall(b.loop, s.addr, benchFiles, b.cfg.paths)
	out := st.run(stallSetup{clients: b.cfg.stalled, changes: stallChanges, pause: b.cfg.stallPause}, b.bar)
	peak := must(memoryOf(s.pid)).peak
	b.atMost(fmt.Sprintf("peak memory with %d clients not reading", b.cfg.stalled), mebibytes(peak), float64(b.cfg.bound), "MiB",
		"a document of %d members asked for on each of %d changes; %d not closed, the kernel held %.0f MiB", b.cfg.paths, stallChanges, out.left, mebibytes(out.kernel))
	b.atMost("healthy client's p99 among them, of without", out.slowdown(), 2, "x",
		"%.0f of %.0f µs at %d/s, same changes; %d failed",
		micros(out.during.ValueAtQuantile(99)), micros(out.before.ValueAtQuantile(99)), healthyRate, out.failed)
}
