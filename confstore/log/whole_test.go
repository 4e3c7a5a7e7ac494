package log_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/confstore/log"
	"confcenter/kvstore"
	"confcenter/kvstore/disk"
)

// several is one change of many documents.
func several(texts map[string]string) (c log.Change) {
	for name, text := range texts {
		one := set(name, text)
		c.By, c.Versions = one.By, append(c.Versions, one.Versions...)
	}
	return c
}

// No one sees a part of a change, now or when the store is taken back to any revision.
func TestAChangeOfAnySizeIsOneRevision(t *testing.T) {
	short, long := map[string]string{}, map[string]string{}
	for i := range 5000 {
		short[fmt.Sprintf("short/%d.json", i)] = `{"n":1}`
	}
	for i := range 20 {
		long[fmt.Sprintf("long/%d.json", i)] = strings.Repeat(fmt.Sprint(i%10), 1500+i*100_000)
	}
	middle := map[string]string{}
	for i := range 3000 { // too many bytes to go with their versions
		middle[fmt.Sprintf("middle/%d.json", i)] = strings.Repeat("x", 3500) + fmt.Sprint(i)
	}
	for name, texts := range map[string]map[string]string{"many": short, "long": long, "many that are not short": middle} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			defer b.close()
			b.commit(set("before.json", "{}"))
			before := b.store.Revision()
			rev := b.commit(several(texts))[0]
			changes, err := b.store.Changes(t.Context(), before, 1<<30)
			require.NoError(t, err)
			told := 0
			for _, c := range changes {
				if len(c.Events) > 0 {
					require.Equal(t, rev, c.Revision)
					told += len(c.Events)
				}
			}
			require.Equal(t, len(texts)+1, told, "its documents, and how far the log reaches")
			made, err := b.log.Changes(t.Context(), 0, 1)
			require.NoError(t, err)
			touched, err := b.log.Touched(t.Context(), &made[0])
			require.NoError(t, err)
			require.Len(t, touched, len(texts))
			for name, text := range texts {
				require.Equal(t, text, b.text(name), name)
			}
		})
	}
}

// engine is a store on a disk in memory, to be copied.
type engine struct {
	t   *testing.T
	cfg disk.StoreConfig
	*kvstore.Store
}

func openEngine(t *testing.T, cfg disk.Config) *engine {
	t.Helper()
	e := &engine{t: t, cfg: disk.StoreConfig{Disk: cfg}}
	var err error
	e.Store, err = disk.Open(e.cfg)
	require.NoError(t, err)
	return e
}

// copied are all rows of the store.
func (e *engine) copied() (rows disk.Rows, began int64) {
	e.t.Helper()
	c, err := e.Copy(context.Background())
	require.NoError(e.t, err)
	defer c.Close()
	var all [][2][]byte
	for {
		some, err := c.Next(nil)
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(e.t, err)
		for len(some) > 0 {
			var row [2][]byte
			for i := range row {
				n, size := binary.Uvarint(some)
				row[i], some = some[size:size+int(n)], some[size+int(n):]
			}
			all = append(all, row)
		}
	}
	return func(yield func(key, value []byte) error) error {
		for _, row := range all {
			if err := yield(row[0], row[1]); err != nil {
				return err
			}
		}
		return nil
	}, c.Time()
}

// texts are the documents of a log.
func texts(t *testing.T, log *log.Log) map[string]string {
	t.Helper()
	got := map[string]string{}
	docs, _, err := log.Behind(0)
	require.NoError(t, err)
	for _, d := range docs {
		v, err := log.Version(context.Background(), d.Name, d.N)
		require.NoError(t, err)
		if !v.Deleted {
			got[d.Name] = string(v.File)
		}
	}
	return got
}

// change draws a change; of some the documents are many, of some they are long.
func draw(random *rand.Rand) map[string]string {
	n, size := 1+random.IntN(3), 10
	switch random.IntN(4) {
	case 0:
		n = 130 + random.IntN(300)
	case 1:
		size = 2 << 20
	}
	is := map[string]string{}
	for range n {
		text := strings.Repeat(fmt.Sprint(random.IntN(10)), 1+random.IntN(size))
		if random.IntN(6) == 0 {
			text = "-"
		}
		is[fmt.Sprintf("%d.json", random.IntN(600))] = text
	}
	return is
}
