package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"confcenter/confstore/log"
	"confcenter/kv"
	"confcenter/kvstore/disk"
	"confcenter/protocol"
)

// gets compares GETCONFIG with a bare server's answers of the same size.
func (b *bench) gets() {
	s := b.serve(benchFiles)
	conns := b.dial(s.addr, benchConns)
	b.checkDocuments(conns[0])
	b.ofCeiling(s.pid, conns, replySize, fmt.Sprintf("GETCONFIG of %d B", replySize), benchReads, 0.85, 0.7, 0.5)
}

// depths are how many requests are in flight on each connection.
var depths = []int{1, 16, 64}

// ofCeiling compares reads, with a target for each depth, with a bare server's answers of size bytes.
func (b *bench) ofCeiling(pid int, conns []*conn, size int, name string, reads func(depth int) *tape, targets ...float64) {
	bare := b.bareOf(size)
	bareConns := b.dial(bare.addr, benchConns)
	for i, target := range targets {
		depth := depths[i]
		b.versus(fmt.Sprintf("%s, depth %d, of ceiling", name, depth), b.closed(pid, conns, depth, reads(depth)), b.closed(bare.pid, bareConns, depth, reads(depth)), target)
	}
}

// checkDocuments asks once for every small document and compares it with what was written.
func (b *bench) checkDocuments(c *conn) {
	for i, name := range fileNames(benchFiles) {
		if got, want := document(c, name, ""), smallDocument(name, i); !bytes.Equal(got, want) {
			check(fmt.Errorf("%s is %.200q, want %.200q", name, got, want))
		}
	}
}

// document asks for the value at path in a document.
func document(c *conn, name, path string) []byte {
	doc := must(protocol.ParseConfig(c.ask(protocol.GetConfig, protocol.AppendConfigQuery(nil, name, path, 0, false))))
	if doc.Contents == nil {
		check(fmt.Errorf("%s is not on the server", name))
	}
	return doc.Contents
}

// largeName is as long as the names of small documents.
const largeName = "large0.json"

// paths compares the time for each path of a large document, once, with as many
// paths of small documents. The large document is replaced before each run, so that
// nothing the server has prepared for it helps.
func (b *bench) paths() {
	conns := b.dial(b.serve(benchFiles).addr, benchConns+1)
	writer, conns := conns[0], conns[1:]
	large, names := numbered("/k%05d", b.of(members)), fileNames(benchFiles)
	small := slices.Repeat([]string{partPath}, len(large))
	writer.set(largeName, largeDocument(len(large), b.pairs))
	play := func(names, paths []string) float64 {
		// A missing path would be answered with code 0 too, and fast.
		if value := document(writer, names[0], paths[0]); len(value) != partSize {
			check(fmt.Errorf("%s of %s is %.200q, want %d bytes", paths[0], names[0], value, partSize))
		}
		t := newLoad(conns, pathTape(names, paths)).play(16, len(paths))
		return millis(t.stop - t.start)
	}
	var cold, warm, ofSmall []float64
	for i := range b.pairs {
		writer.set(largeName, largeDocument(len(large), i))
		cold = append(cold, play([]string{largeName}, large))
		ofSmall = append(ofSmall, play(names, small))
		warm = append(warm, play([]string{largeName}, large))
	}
	b.atMost(fmt.Sprintf("%d paths of a %.1f MB file, once each, of small", len(large), float64(len(largeDocument(len(large), 0)))/1e6),
		median(ratios(cold, ofSmall)), 1.5, "x", "%.1f ms of %.1f ms; again %.1f ms", median(cold), median(ofSmall), median(warm))
}

const (
	// fanoutWarmup is how many changes are made before they count.
	fanoutWarmup = 3
	// pushPause lets a server finish the work of one change before the next one is
	// timed.
	pushPause = 20 * time.Millisecond
)

// limit is a flag for connections, with some to spare.
func limit(flag string, n int) []string { return []string{flag, strconv.Itoa(n + 100)} }

// pushes compares a fan-out with a bare loop that writes the same frames, and
// measures its effect on other clients.
func (b *bench) pushes() {
	real, bare := b.serve(benchFiles, limit("--max-connections", b.of(subscribers))...), b.bareOf(replySize)
	ours, theirs := newConfigFanout(b.loop, real.addr, b.of(subscribers)), newConfigFanout(b.loop, bare.addr, b.of(subscribers))
	side := func(f *fanout, pid int) *rival {
		return &rival{pid: pid, run: func() sample { return sample{rate: f.perSecond(f.change())} }}
	}
	ours.rounds(fanoutWarmup, 0, 0)
	theirs.rounds(fanoutWarmup, 0, 0)
	a, c := side(ours, real.pid), side(theirs, bare.pid)
	b.atLeast(fmt.Sprintf("push to %d subscribers, of ceiling", b.of(subscribers)), compare(a, c, 2*b.pairs), 0.9, "", "%v of %v, first to last", a, c)
	b.firstPush(ours)
	t := b.probe(real.addr, benchReads(0), func() { ours.rounds(0, 10*b.pairs, 0) })
	b.atMost("p99 of GETCONFIG during the pushes", t.millis(99), 5, "ms", "p50 %.2f ms, max %.2f ms of %d requests at %d/s", t.millis(50), t.millis(100), t.done, proberRate)
}

// firstPush compares the first push with the reply to a change that no one follows:
// that reply leaves when the change is durable, so the difference is what came after.
func (b *bench) firstPush(f *fanout) {
	var later, total []float64
	for i := range 4 * b.pairs {
		b.wait(pushPause)
		begun := now()
		f.writer.set("alone.json", fmt.Appendf(nil, `{"n":%d,"pad":"%s"}`, i, kvText(0, setSize)))
		durable := now() - begun
		b.wait(pushPause)
		r := f.change()
		later, total = append(later, millis(r.first-durable)), append(total, millis(r.first))
	}
	b.atMost("first push after the change is durable", median(later), 1, "ms",
		"%.2f ms after the request, p90 of the difference %.2f ms", median(total), quantile(later, 0.9))
}

// idleMemory measures the memory of a connection that only identifies itself.
func (b *bench) idleMemory() {
	s := b.serve(benchFiles, limit("--max-connections", b.of(idle))...)
	b.idleOver("memory of an idle connection, of %d", s, s.addr, 2.5)
}

// idleOver measures connections to an address of a server, which gets a second before each
// reading to free memory.
func (b *bench) idleOver(name string, s *served, addr string, target float64) {
	settled := func() int64 {
		b.wait(time.Second)
		now, _ := s.memory()
		return now
	}
	b.dial(addr, 1) // pays for what all share
	before := settled()
	b.dial(addr, b.of(idle))
	after := settled()
	b.atMost(fmt.Sprintf(name, b.of(idle)), float64(after-before)/float64(b.of(idle))/1024, target, "KiB", "resident %.1f MiB", mebibytes(after))
}

// restarts is how often a server is started again.
const restarts = 3

// started starts a server and measures the time from that to the last answer, in seconds.
func (b *bench) started(s *served, last func(c *conn)) float64 {
	b.clear()
	begun := time.Now()
	b.start(s)
	last(b.dial(s.addr, 1)[0])
	return time.Since(begun).Seconds()
}

// startedAgain is started, several times.
func (b *bench) startedAgain(s *served, last func(c *conn)) (times []float64) {
	for range restarts {
		times = append(times, b.started(s, last))
	}
	return times
}

// starts measures from the start of the process to the last file answered: once
// with an empty data directory, then with what the first start left there.
func (b *bench) starts() {
	s, last := b.prepare(b.of(startFiles)), b.lastFile
	const detail = "from exec to the last file answered, on one core"
	b.atMost(fmt.Sprintf("first start with %d files", b.of(startFiles)), b.started(s, last), 0.4, "s", detail)
	b.atMost(fmt.Sprintf("start again with %d files", b.of(startFiles)), median(b.startedAgain(s, last)), 0.4, "s", detail)
}

func (b *bench) lastFile(c *conn) { document(c, fileNames(b.of(startFiles))[b.of(startFiles)-1], "") }

// startsOld measures a start with files that have been changed many times.
func (b *bench) startsOld() {
	s := b.prepare(b.of(startFiles))
	b.started(s, b.lastFile)
	b.clear()
	b.age(s)
	b.atMost(fmt.Sprintf("start with %d files of %d versions each", b.of(startFiles), b.of(versions)), median(b.startedAgain(s, b.lastFile)), 0.5, "s", "from exec to the last file answered, on one core")
}

// agedTogether is how many documents one of these changes has, and agedAtOnce how many changes are
// handed over together.
const agedTogether, agedAtOnce = 30, 64

// age changes all files as often as it takes to have all their versions, without a server. The
// last change leaves them as they are on the disk.
func (b *bench) age(s *served) {
	store := must(disk.Open(disk.StoreConfig{Disk: disk.Config{Dir: filepath.Join(s.data, "state")}}))
	defer func() { check(store.Close()) }()
	history := must(log.Open(b.ctx, kv.Archive(store), ""))
	var list []log.Change
	for n := 2; n <= b.of(versions); n++ {
		for some := range slices.Chunk(fileNames(b.of(startFiles)), agedTogether) {
			c := log.Change{By: log.By{Origin: "bench", Time: time.Now().UnixMilli()}}
			for _, name := range some {
				known := must(history.Document(name))
				file := must(os.ReadFile(filepath.Join(s.conf, name)))
				if n < b.of(versions) {
					file = fmt.Appendf(nil, `{"version":%d}`, n)
				}
				c.Versions = append(c.Versions, log.Version{Name: name, Served: known.Served + 1, Given: known.Given, File: file})
			}
			if list = append(list, c); len(list) == agedAtOnce {
				must(history.Commit(b.ctx, list))
				list = list[:0]
			}
		}
	}
	must(history.Commit(b.ctx, list))
}

// saveName is the file that is saved the way people do.
const saveName = "save.json"

// The ways programs save files: over the old content, or as a new file renamed onto
// the old one.
const (
	saveInPlace = "in place"
	saveRename  = "by rename"
)

// save writes a file in the server's conf directory.
func (s *served) save(way string, n int) error {
	text := fmt.Appendf(nil, "{\n    \"n\": %d,\n    \"name\": \"saved\"\n}\n", n)
	path := filepath.Join(s.conf, saveName)
	if way == saveInPlace {
		return os.WriteFile(path, text, 0o644)
	}
	// The server does not take a file with this name for a config.
	return errors.Join(os.WriteFile(path+"~", text, 0o644), os.Rename(path+"~", path))
}

// saves measures the time from saving a file to a subscriber's push.
func (b *bench) saves() {
	s := b.prepare(benchFiles)
	n := 0
	check(s.save(saveInPlace, n))
	b.start(s)
	c := b.dial(s.addr, 1)[0]
	c.ask(protocol.BookCfgChange, protocol.AppendSubscription(nil, protocol.Subscription{File: saveName}))
	told := int64(0)
	c.onPush = func(_ []byte, at int64) { told = at }
	for _, way := range []string{saveRename, saveInPlace} {
		var times []float64
		for range 8 * b.pairs {
			n++
			check(s.save(way, n))
			saved := now()
			told = 0
			b.until(askLimit, func() bool { return told != 0 })
			times = append(times, millis(told-saved))
			b.wait(pushPause)
		}
		b.atMost("file saved "+way+" to subscriber told, p50", median(times), 8, "ms", "p99 %.2f ms of %d", quantile(times, 0.99), len(times))
	}
}

// setSize is how long the documents are that are set, in bytes.
const setSize = 200

// sets compares SETCONFIG by writers of different documents with what the file system takes to
// put as many files in place, without a server: created, written and renamed by as many threads,
// never flushed.
func (b *bench) sets() {
	s := b.serve(benchFiles)
	names, text := numbered("set%02d.json", benchConns), make([]byte, setSize)
	dir := must(os.MkdirTemp(b.work, "bare-"))
	bare := &rival{pid: os.Getpid(), run: func() sample {
		var made atomic.Int64
		var all sync.WaitGroup
		begun := now()
		for _, name := range names {
			all.Go(func() {
				for path := filepath.Join(dir, name); now()-begun < int64(b.slice); made.Add(1) {
					_ = os.WriteFile(path+"~", text, 0o644)
					_ = os.Rename(path+"~", path)
				}
			})
		}
		all.Wait()
		return sample{rate: float64(made.Load()) / seconds(now()-begun)}
	}}
	b.versus(fmt.Sprintf("SETCONFIG by %d writers, of create, write and rename", benchConns),
		b.durable(s.pid, b.dial(s.addr, benchConns), 1, setTape(names, setSize)), bare, 0.5)
}

// benchVersions is how many versions the document has whose log is read.
const benchVersions = 1000

// histories measures how long it takes to read the log of a document, whose changes lie between
// those of another.
func (b *bench) histories() {
	s := b.serve(2)
	conns, names := b.dial(s.addr, 1), fileNames(2)
	newLoad(conns, setTape(names, setSize)).play(1, 2*benchVersions)
	log := newTape(command("CFLOG"), 1, func(int) []byte { return fmt.Appendf(nil, `{"name":"%s","limit":%d}`, names[0], benchVersions) })
	got := newLoad(conns, log).closed(1, b.slice)
	b.atMost(fmt.Sprintf("p50 of CFLOG of %d versions", benchVersions), got.millis(50), 20, "ms", "p99 %.2f ms", got.millis(99))
}
