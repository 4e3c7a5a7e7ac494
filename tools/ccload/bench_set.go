package main

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
)

// setSize is how long the documents are that are set, in bytes.
const setSize = 200

// sets compares SETCONFIG by writers of different documents with what the file system takes to
// put as many files in place, without a server: created, written and renamed by as many threads,
// never flushed.
func (b *bench) sets() {
	s := b.serve(benchFiles)
	names := make([]string, benchConns)
	for i := range names {
		names[i] = fmt.Sprintf("set%02d.json", i)
	}
	set := b.closed(s.pid, b.dial(s.addr, benchConns), 1, newWrites(names, setSize, 0))
	set.waits = true
	bare := &rival{pid: os.Getpid(), run: b.bareFiles(filepath.Join(filepath.Dir(s.conf), "bare"), names)}
	ratio := must(compare(set, bare, b.cfg.pairs))
	b.atLeast(fmt.Sprintf("SETCONFIG by %d writers, of create, write and rename", benchConns), ratio, 0.5, "", "%v of %v", set, bare)
}

// bareFiles puts files in place for one slice, one thread for each name.
func (b *bench) bareFiles(dir string, names []string) func() (sample, error) {
	check(os.Mkdir(dir, 0o755))
	text := make([]byte, setSize)
	return func() (sample, error) {
		var all sync.WaitGroup
		var made atomic.Int64
		failed := make(chan error, len(names))
		began := time.Now()
		for _, name := range names {
			all.Go(func() {
				path := filepath.Join(dir, name)
				for time.Since(began) < b.cfg.slice {
					err := os.WriteFile(path+"~", text, 0o644)
					if err == nil {
						err = os.Rename(path+"~", path)
					}
					if err != nil {
						failed <- err
						return
					}
					made.Add(1)
				}
			})
		}
		all.Wait()
		close(failed)
		return sample{rate: float64(made.Load()) / time.Since(began).Seconds()}, <-failed
	}
}
