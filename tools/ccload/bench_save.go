package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"confcenter/protocol"
)

// saveName is the file that is saved the way people do.
const saveName = "save.json"

// saver changes a file in the server's conf directory and waits for the push.
type saver struct {
	ignore
	loop *loop
	dir  string
	n    int
	told int64 // when the last push came
	want bool
}

// newSaver writes the file, waits until the server has it and subscribes.
func (b *bench) newSaver(s *served) *saver {
	w := &saver{loop: b.loop, dir: s.conf, n: int(time.Now().UnixMilli())}
	check(w.write(saveInPlace))
	conn := b.dial(s.addr, 1)[0]
	conn.to = w
	body := protocol.AppendSubscription(nil, protocol.Subscription{File: saveName, MissingOK: true})
	must(b.loop.ask(conn, protocol.BookCfgChange, body))
	// The write above is pushed now or is already in service; from here on a push
	// belongs to a save.
	check(b.loop.wait(500 * time.Millisecond))
	return w
}

// The ways programs save files: over the old content, or as a new file renamed onto
// the old one.
const (
	saveInPlace = "in place"
	saveRename  = "by rename"
)

func (s *saver) write(way string) error {
	s.n++
	text := fmt.Appendf(nil, "{\n    \"n\": %d,\n    \"name\": \"saved\"\n}\n", s.n)
	path := filepath.Join(s.dir, saveName)
	if way == saveInPlace {
		return os.WriteFile(path, text, 0o644)
	}
	// The server does not take a file with this name for a config.
	if err := os.WriteFile(path+"~", text, 0o644); err != nil {
		return err
	}
	return os.Rename(path+"~", path)
}

// save writes once and returns how long after it the push came, in milliseconds.
func (s *saver) save(way string) (float64, error) {
	s.want = true
	if err := s.write(way); err != nil {
		return 0, err
	}
	saved := s.loop.clock()
	if err := s.loop.until(askLimit, func() bool { return !s.want }); err != nil {
		return 0, fmt.Errorf("save %s: not told: %w", way, err)
	}
	return millis(s.told - saved), nil
}

func (s *saver) push(_ *conn, _ []byte, now int64) {
	if s.want {
		s.told, s.want = now, false
	}
}

// saves measures the time from saving a file to a subscriber's push.
func (b *bench) saves() {
	w := b.newSaver(b.serve(benchFiles))
	for _, way := range []string{saveRename, saveInPlace} {
		var times []float64
		for range 8 * b.cfg.pairs {
			times = append(times, must(w.save(way)))
			check(b.loop.wait(20 * time.Millisecond))
		}
		b.atMost("file saved "+way+" to subscriber told, p50", median(times), 8, "ms", "p99 %.2f ms of %d", quantile(times, 0.99), len(times))
	}
}

// changesPerSecond is how often another file changes while files are read.
const changesPerSecond = 100

// changes compares reads with reads while another file changes, saved in the directory
// by somebody else or written over the wire. For the latter the server creates and
// flushes files itself, on the core it answers on.
func (b *bench) changes() {
	s := b.serve(benchFiles)
	conns := b.dial(s.addr, benchConns)
	writes := newLoad(b.loop, b.dialUrgent(s.addr, 1), newWrites([]string{"w00000.json"}, 200, 0))
	reads := readTape(newRandom(16), fileNames(benchFiles), "")
	for _, by := range []struct {
		verb  string
		begin func() (end func() float64)
	}{
		{"saved", (&saver{dir: s.conf}).steadily},
		{"set", func() func() float64 {
			writes.begin(changesPerSecond)
			return func() float64 { return counted(writes.end()).perSecond() }
		}},
	} {
		quiet, busy := b.closed(s.pid, conns, 16, reads), b.closed(s.pid, conns, 16, reads)
		var made []float64
		read := busy.run
		busy.run = func() (sample, error) {
			end := by.begin()
			got, err := read()
			made = append(made, end())
			return got, err
		}
		ratio := must(compare(busy, quiet, b.cfg.pairs))
		b.atLeast(fmt.Sprintf("reads while a file is %s 100/s, of without", by.verb), ratio, 0.9, "",
			"%v of %v, %.0f changes/s", busy, quiet, median(made))
	}
}

// steadily saves by rename at changesPerSecond, on a thread of its own because the
// load keeps this program's only other one busy. The returned function stops it and
// reports the saves per second.
func (s *saver) steadily() (end func() float64) {
	threads := runtime.GOMAXPROCS(2)
	stop, result := make(chan struct{}), make(chan error)
	began, made := time.Now(), 0
	go func() {
		tick := time.NewTicker(time.Second / changesPerSecond)
		defer tick.Stop()
		var err error
		for err == nil {
			select {
			case <-stop:
				result <- nil
				return
			case <-tick.C:
				err = s.write(saveRename)
				made++
			}
		}
		result <- err
	}()
	return func() float64 {
		close(stop)
		err := <-result
		runtime.GOMAXPROCS(threads)
		check(err)
		return float64(made) / time.Since(began).Seconds()
	}
}
