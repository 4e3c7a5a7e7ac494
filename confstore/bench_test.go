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
	return cfg
}

func BenchmarkOpen10k(b *testing.B) {
	cfg := manyFiles(b, 10_000)
	b.Run("first", func(b *testing.B) {
		for b.Loop() {
			require.NoError(b, os.RemoveAll(cfg.DataDir))
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
	heard := make(chan *Batch, 16)
	s.Subscribe(func(batch *Batch) { heard <- batch })
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
