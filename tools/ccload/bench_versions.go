package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"confcenter/confstore/doclog"
	"confcenter/kv"
	"confcenter/kvstore/pebblekv"
	"confcenter/kvstore/pebblekv/disk"
)

// startsOld measures a start with files that have been changed many times.
func (b *bench) startsOld() {
	s := b.prepare(b.cfg.startFiles)
	names := fileNames(b.cfg.startFiles)
	last := names[len(names)-1]
	b.start(s)
	b.document(b.dial(s.addr, 1)[0], last, "")
	b.clear()
	b.age(s, names)
	var times []float64
	for range restarts {
		begun := time.Now()
		b.start(s)
		b.document(b.dial(s.addr, 1)[0], last, "")
		times = append(times, time.Since(begun).Seconds())
		b.clear()
	}
	b.atMost(fmt.Sprintf("start with %d files of %d versions each", len(names), b.cfg.versions), median(times), 0.5, "s", "from exec to the last file answered, on one core")
}

// agedTogether is how many documents one of these changes has, and agedAtOnce how many changes are
// handed over together.
const agedTogether, agedAtOnce = 30, 64

// age changes all files as often as it takes to have all their versions, without a server. The
// last change leaves them as they are on the disk.
func (b *bench) age(s *served, names []string) {
	store := must(pebblekv.Open(pebblekv.Config{Disk: disk.Config{Dir: filepath.Join(s.data, "state")}}))
	defer func() { check(store.Close()) }()
	log := must(doclog.Open(b.loop.ctx, kv.Archive(store), ""))
	var list []doclog.Change
	commit := func() {
		must(log.Commit(b.loop.ctx, list))
		list = list[:0]
	}
	for n := 2; n <= b.cfg.versions; n++ {
		for some := range slices.Chunk(names, agedTogether) {
			var c doclog.Change
			c.By = doclog.By{Origin: "bench", Time: time.Now().UnixMilli()}
			for _, name := range some {
				known := must(log.Document(name))
				file := must(os.ReadFile(filepath.Join(s.conf, name)))
				if n < b.cfg.versions {
					file = fmt.Appendf(nil, `{"version":%d}`, n)
				}
				c.Versions = append(c.Versions, doclog.Version{Name: name, Served: known.Served + 1, Given: known.Given, File: file})
			}
			if list = append(list, c); len(list) == agedAtOnce {
				commit()
			}
		}
	}
	commit()
}
