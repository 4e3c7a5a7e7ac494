package confstore

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/access"
	"confcenter/confstore/change"
	"confcenter/confstore/revisions"
	"confcenter/confstore/snapshot"
	"confcenter/kv"
	"confcenter/kv/follow"
	"confcenter/kvstore/disk"
)

// manyFiles makes n documents of the size people write, each twentieth with an
// heir.
func manyFiles(b *testing.B, n int) Config {
	base := b.TempDir()
	cfg := Config{Dir: filepath.Join(base, "conf"), DataDir: filepath.Join(base, "data")}
	require.NoError(b, os.Mkdir(cfg.Dir, 0o755))
	for i := range n {
		text := fmt.Sprintf("{\n    \"name\": \"app%d\",\n    \"port\": %d,\n    \"hosts\": [\"10.0.0.1\", \"10.0.0.2\"],\n"+
			"    \"limits\": {\"cpu\": 1.5, \"memory\": 1024, \"files\": 20000},\n    \"text\": \"%0180d\"\n}\n", i, 4000+i, i)
		require.NoError(b, os.WriteFile(filepath.Join(cfg.Dir, fmt.Sprintf("app%d.json", i)), []byte(text), 0o644))
	}
	cfg.State = emptyState(b)
	return cfg
}

// emptyState is an empty state store on the disk.
func emptyState(b *testing.B) State {
	store, err := disk.Open(disk.StoreConfig{Disk: disk.Config{Dir: b.TempDir()}})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, store.Close()) })
	return store
}

func BenchmarkOpen10k(b *testing.B) {
	cfg := manyFiles(b, 10_000)
	b.Run("first", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			require.NoError(b, os.RemoveAll(cfg.DataDir))
			cfg.State = emptyState(b)
			b.StartTimer()
			s, err := Open(cfg)
			require.NoError(b, err)
			require.Len(b, s.Snapshot().Names(), 10_000)
			b.StopTimer()
			require.NoError(b, s.Close())
			b.StartTimer()
		}
	})
	b.Run("again", func(b *testing.B) {
		for b.Loop() {
			s, err := Open(cfg)
			require.NoError(b, err)
			require.Len(b, s.Snapshot().Names(), 10_000)
			b.StopTimer()
			require.NoError(b, s.Close())
			b.StartTimer()
		}
	})
}

func BenchmarkSavedToBatch(b *testing.B) {
	cfg := manyFiles(b, 1000)
	s, err := Open(cfg)
	require.NoError(b, err)
	defer s.Close()
	heard := make(chan *snapshot.Batch, 16)
	s.Subscribe(func(batch *snapshot.Batch) { heard <- batch })
	name := filepath.Join(cfg.Dir, "app7.json")
	for i := 0; b.Loop(); i++ {
		require.NoError(b, os.WriteFile(name, fmt.Appendf(nil, `{"v": %d}`, i), 0o644))
		select {
		case <-heard:
		case <-time.After(patience):
			b.Fatal("no batch")
		}
	}
}

func BenchmarkSet(b *testing.B) {
	cfg := manyFiles(b, 1000)
	s, err := Open(cfg)
	require.NoError(b, err)
	defer s.Close()
	for i := 0; b.Loop(); i++ {
		_, err := setNow(b, s, SetRequest{Name: "app7.json", Contents: fmt.Appendf(nil, `{"v": %d}`, i)})
		require.NoError(b, err)
	}
}

func BenchmarkFindContents(b *testing.B) {
	cfg := manyFiles(b, 1000)
	s, err := Open(cfg)
	require.NoError(b, err)
	defer s.Close()
	names := make([][]byte, 1000)
	for i := range names {
		names[i] = fmt.Appendf(nil, "app%d", i)
	}
	for i := 0; b.Loop(); i++ {
		n := s.Snapshot().Find(names[i%len(names)])
		if text, ready := n.Contents(true); !ready || len(text) == 0 {
			b.Fatal("not there")
		}
	}
}

// BenchmarkSetByWriters is for several writers of different documents.
func BenchmarkSetByWriters(b *testing.B) {
	cfg := manyFiles(b, 1000)
	s, err := Open(cfg)
	require.NoError(b, err)
	defer s.Close()
	var writer atomic.Int64
	b.SetParallelism(16 / runtime.GOMAXPROCS(0))
	b.RunParallel(func(pb *testing.PB) {
		name := fmt.Sprintf("app%d.json", writer.Add(1))
		for i := 0; pb.Next(); i++ {
			if _, err := setNow(b, s, SetRequest{Name: name, Contents: fmt.Appendf(nil, `{"v": %d}`, i)}); err != nil {
				b.Error(err)
			}
		}
	})
}

// BenchmarkResume is what watches cost that go on behind one change of 5,000 documents: each is told in
// frames of 64 KiB, between which it forgets what it has at hand, as connections have it.
func BenchmarkResume(b *testing.B) {
	const documents = 5000
	cfg := manyFiles(b, documents)
	s, err := Open(cfg)
	require.NoError(b, err)
	defer s.Close()
	before := s.Revisions().Revision()
	req := change.Request{Actor: &access.Actor{Name: "bench"}}
	for i := range documents {
		req.Documents = append(req.Documents, change.Document{Name: fmt.Sprintf("app%d.json", i), File: fmt.Appendf(nil, `{"n":%d,"text":"%0250d"}`, i, i)})
	}
	done := make(chan error, 1)
	require.NoError(b, s.Change(req, func(_ change.Result, err error) { done <- err }))
	require.NoError(b, <-done)
	for _, watchers := range []int{1, 20} {
		b.Run(fmt.Sprintf("watchers=%d", watchers), func(b *testing.B) {
			for b.Loop() {
				source := &follow.Source{Store: s.Revisions(), Piece: 256 << 10, Holders: 1}
				cursors := make([]*follow.Cursor, watchers)
				for i := range cursors {
					cursors[i], _, err = source.Open(follow.Request{Filter: kv.Filter{NS: revisions.Own}, From: before})
					require.NoError(b, err)
				}
				told := 0
				for waiting := cursors; len(waiting) > 0; {
					c := waiting[0]
					waiting = waiting[1:]
					chunk, err := source.Read(b.Context(), []*follow.Cursor{c})
					require.NoError(b, err)
					c.Offer(chunk)
					n, more := c.Next(follow.Cut{Max: 64 << 10, Cost: func(e *kv.Event) int { return e.Entry.Size() }})
					if told += len(n.Events); more {
						waiting = append(waiting, c)
					}
					c.Forget()
				}
				require.Equal(b, watchers*documents, told)
				for _, c := range cursors {
					c.Close()
				}
			}
			b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N), "ms/all")
		})
	}
}
