package main

import (
	"errors"
	"fmt"
	"runtime"
	"time"

	"confcenter/protocol"
)

// gets compares GETCONFIG with the bare server's answers of the same size.
func (b *bench) gets() error {
	return b.readsOfCeiling(benchFiles, reads{
		name: func(size, depth int) string {
			return fmt.Sprintf("GETCONFIG of %d B, depth %d, of ceiling", size, depth)
		},
		size:    b.checkDocuments,
		rival:   b.closed,
		targets: []depthTarget{{1, 0.85}, {16, 0.7}, {64, 0.5}},
	})
}

// reads is a kind of read that is compared with the bare server's answers.
type reads struct {
	name    func(size, depth int) string
	size    func(*conn) (int, error) // of replies, once there is something to read
	rival   func(pid int, conns []*conn, depth int) *rival
	targets []depthTarget
}

// depthTarget is a ratio to reach with so many requests on their way.
type depthTarget struct {
	depth  int
	target float64
}

// readsOfCeiling measures reads of a server with n files.
func (b *bench) readsOfCeiling(n int, r reads) error {
	real, err := b.serve(n)
	if err != nil {
		return err
	}
	defer real.stop()
	conns, err := b.loop.identify(dialing{addr: real.addr}, benchConns)
	if err != nil {
		return err
	}
	defer b.loop.closeAll(conns)
	size, err := r.size(conns[0])
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
	for _, at := range r.targets {
		ours, theirs := r.rival(real.pid, conns, at.depth), r.rival(bare.pid, bareConns, at.depth)
		ratio, err := compare(ours, theirs, b.cfg.pairs)
		if err != nil {
			return err
		}
		if err := b.report(figure{Name: r.name(size, at.depth), Value: ratio, Target: at.target, Detail: fmt.Sprintf("%v of %v", ours, theirs)}); err != nil {
			return err
		}
	}
	return nil
}

// closed is a rival that asks for small documents at random in a closed loop.
func (b *bench) closed(pid int, conns []*conn, depth int) *rival {
	names := fileNames(benchFiles)
	return &rival{pid: pid, run: func() (sample, error) {
		t, err := newClosedLoop(b.loop, conns, depth, readTape(newRandom(depth), names)).run(b.cfg.slice)
		if err == nil {
			err = t.err()
		}
		if err != nil {
			return sample{}, err
		}
		return sample{rate: t.perSecond(), p99: micros(t.latency.ValueAtQuantile(99))}, nil
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

// largeName is as long as the names of small documents.
const largeName = "large0.json"

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
	smallPaths := make([]string, b.cfg.paths)
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
		if _, err := b.loop.set(writer, largeName, largeDocument(b.cfg.paths, i)); err != nil {
			return err
		}
		for _, part := range []struct {
			times *[]float64
			names []string
			paths []string
		}{{&cold, []string{largeName}, largePaths(b.cfg.paths)}, {&small, fileNames(benchFiles), smallPaths}, {&warm, []string{largeName}, largePaths(b.cfg.paths)}} {
			ms, err := play(part.names, part.paths)
			if err != nil {
				return err
			}
			*part.times = append(*part.times, ms)
		}
	}
	return b.report(figure{
		Name: fmt.Sprintf("%d paths of a %.1f MB file, once each, of small", b.cfg.paths, float64(len(largeDocument(b.cfg.paths, 0)))/1e6), Value: median(ratios(cold, small)), AtMost: true, Target: 1.5, Unit: "x",
		Detail: fmt.Sprintf("%.1f ms of %.1f ms; again %.1f ms", median(cold), median(small), median(warm)),
	})
}

// checkPaths asks for every path once: a path that is not there would be answered
// with code 0 too, and fast.
func (b *bench) checkPaths(c *conn) error {
	if _, err := b.loop.set(c, largeName, largeDocument(b.cfg.paths, b.cfg.pairs)); err != nil {
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
	for _, path := range largePaths(b.cfg.paths) {
		if err := check(largeName, path); err != nil {
			return err
		}
	}
	return check(fileNames(1)[0], partPath)
}

// changesPerSecond is how often another file changes while files are read.
const changesPerSecond = 100

// changes compares reading with reading while another file changes: saved in the
// directory by somebody else, and written over the wire. The latter has the server
// create and flush files itself, on the core it answers on.
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
	writes := newOpenLoop(b.loop, writer, newWrites([]string{"w00000.json"}, 200, 0))
	sets := changer{begin: func() { writes.begin(changesPerSecond) }, end: func() (float64, error) {
		done, err := writes.end()
		if err == nil {
			err = done.err()
		}
		return done.perSecond(), err
	}}
	if err := b.compareReads(s, conns, "saved", savesOf(s.conf)); err != nil {
		return err
	}
	return b.compareReads(s, conns, "set", sets)
}

// changer changes a document at a steady rate between begin and end, which says
// how many a second it made.
type changer struct {
	begin func()
	end   func() (float64, error)
}

// savesOf saves a file in dir by renaming, from a thread of its own: the load takes
// all of the one this program has.
func savesOf(dir string) changer {
	threads := 0
	var stop chan struct{}
	result := make(chan error, 1)
	var began time.Time
	made := 0
	return changer{
		begin: func() {
			threads = runtime.GOMAXPROCS(2)
			stop, began, made = make(chan struct{}), time.Now(), 0
			w := &saver{dir: dir}
			go func() {
				tick := time.NewTicker(time.Second / changesPerSecond)
				defer tick.Stop()
				for {
					select {
					case <-stop:
						result <- nil
						return
					case <-tick.C:
						if err := w.write(saveRename); err != nil {
							result <- err
							return
						}
						made++
					}
				}
			}()
		},
		end: func() (float64, error) {
			close(stop)
			err := <-result
			runtime.GOMAXPROCS(threads)
			return float64(made) / time.Since(began).Seconds(), err
		},
	}
}

// compareReads reports reading while change is at work against reading alone.
func (b *bench) compareReads(s *served, conns []*conn, verb string, change changer) error {
	quiet := b.closed(s.pid, conns, 16)
	busy := b.closed(s.pid, conns, 16)
	var made []float64
	read := busy.run
	busy.run = func() (sample, error) {
		change.begin()
		got, err := read()
		rate, endErr := change.end()
		made = append(made, rate)
		return got, errors.Join(err, endErr)
	}
	ratio, err := compare(busy, quiet, b.cfg.pairs)
	if err != nil {
		return err
	}
	return b.report(figure{
		Name: fmt.Sprintf("reads while a file is %s 100/s, of without", verb), Value: ratio, Target: 0.9,
		Detail: fmt.Sprintf("%v of %v, %.0f changes/s", busy, quiet, median(made)),
	})
}
