package disk

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/rs/zerolog"

	"confcenter/internal/clock"
	"confcenter/kv"
	"confcenter/kvstore"
)

func benchConfig(b *testing.B, fs vfs.FS) Config {
	cfg := testConfig(fs, clock.Real())
	cfg.Log = zerolog.New(zerolog.NewTestWriter(b)).Level(zerolog.WarnLevel)
	if fs == nil {
		cfg.Dir = b.TempDir() + "/data"
	}
	return cfg
}

// load is what a server does to the disk: groups of puts of 256 bytes.
type load256 struct {
	rev     kv.Revision
	current []*kv.Entry
	names   []string
	random  *rand.Rand
}

func newLoad(keys int) *load256 {
	l := &load256{current: make([]*kv.Entry, keys), names: make([]string, keys), random: rand.New(rand.NewPCG(1, 1))}
	for i := range l.names {
		l.names[i] = fmt.Sprintf("bench/key:%07d", i)
	}
	return l
}

func (l *load256) group(n int, pick func() int) []kvstore.Commit {
	group := make([]kvstore.Commit, n)
	for i := range group {
		l.rev++
		k := pick()
		value := make([]byte, 256)
		for j := range value {
			value[j] = 'a' + byte(l.random.Uint32()%26)
		}
		e := &kv.Entry{NS: "bench", Key: l.names[k], Create: l.rev, Mod: l.rev, Version: 1, Updated: int64(l.rev), Value: kv.Value{Type: kv.String, Data: value}}
		event := kv.Event{Kind: kv.Put, Entry: e, Prev: l.current[k]}
		if event.Prev != nil {
			e.Create, e.Version = event.Prev.Create, event.Prev.Version+1
		}
		l.current[k] = e
		group[i] = kvstore.Commit{Change: kv.Change{Revision: l.rev, Time: int64(l.rev), Events: []kv.Event{event}}}
	}
	return group
}

func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkAppend is a durable group of 64 puts; fsync of as many bytes is beside
// it.
func BenchmarkAppend(b *testing.B) {
	d, _, err := OpenLog(benchConfig(b, nil), kvstore.Loader{})
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	l := newLoad(100_000)
	for b.Loop() {
		b.StopTimer()
		group := l.group(64, func() int { return l.random.IntN(len(l.names)) })
		b.StartTimer()
		if err := d.Append(group); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkFsync is what of BenchmarkAppend is the disk's.
func BenchmarkFsync(b *testing.B) {
	file, err := vfs.Default.Create(b.TempDir()+"/log", vfs.WriteCategoryUnspecified)
	if err != nil {
		b.Fatal(err)
	}
	defer file.Close()
	if err := file.Preallocate(0, 64<<20); err != nil {
		b.Fatal(err)
	}
	record := make([]byte, 64*300)
	for b.Loop() {
		_, _ = file.Write(record)
		if err := file.SyncData(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkLoad is all the work that a put costs, tables and merging included, per
// put and without waiting for the disk.
func BenchmarkLoad(b *testing.B) {
	for _, keys := range []int{1, 1000, 100_000, 1_000_000} {
		b.Run(fmt.Sprint("keys=", keys), func(b *testing.B) {
			cfg := benchConfig(b, nil)
			cfg.AckBeforeDisk = true
			d, _, err := OpenLog(cfg, kvstore.Loader{})
			if err != nil {
				b.Fatal(err)
			}
			l := newLoad(keys)
			const puts = 2_000_000
			groups := make([][]kvstore.Commit, 0, 256)
			var used time.Duration
			for range b.N {
				for done := 0; done < puts; {
					groups = groups[:0]
					for range 256 {
						groups = append(groups, l.group(64, func() int { return l.random.IntN(keys) }))
						done += 64
					}
					begun := cpu()
					for _, g := range groups {
						if err := d.Append(g); err != nil {
							b.Fatal(err)
						}
					}
					used += cpu() - begun
				}
			}
			begun := cpu()
			if err := d.Close(); err != nil {
				b.Fatal(err)
			}
			used += cpu() - begun
			b.ReportMetric(float64(used.Nanoseconds())/float64(b.N*puts), "cpu-ns/put")
		})
	}
}

// BenchmarkOpenMillionOfLog is the start with a million keys of 256 bytes.
func BenchmarkOpenMillionOfLog(b *testing.B) {
	cfg := benchConfig(b, nil)
	d, _, err := OpenLog(cfg, kvstore.Loader{})
	if err != nil {
		b.Fatal(err)
	}
	const keys = 1_000_000
	l := newLoad(keys)
	next := -1
	for next < keys-1 {
		if err := d.Append(l.group(1000, func() int { next++; return next })); err != nil {
			b.Fatal(err)
		}
	}
	// Some are written again, so that tables lie above each other.
	for range 300 {
		if err := d.Append(l.group(1000, func() int { return l.random.IntN(keys) })); err != nil {
			b.Fatal(err)
		}
	}
	if err := d.Close(); err != nil {
		b.Fatal(err)
	}
	l = nil
	runtime.GC()
	b.ResetTimer()
	for range b.N {
		n := 0
		d, _, err := OpenLog(cfg, kvstore.Loader{Entry: func(*kv.Entry) { n++ }})
		if err != nil || n != keys {
			b.Fatal(n, err)
		}
		b.StopTimer()
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		b.ReportMetric(float64(m.HeapInuse)/(1<<20), "heap-MiB")
		if err := d.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}
