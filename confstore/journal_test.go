package confstore

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/confstore/ledger"
)

const journalPath = "/srv/data/config.journal"

// tamper closes the store and gives its journal's bytes to fn.
func (m *memKit) tamper(fn func([]byte) []byte) {
	m.t.Helper()
	require.NoError(m.t, m.Close())
	data, err := m.mem.Get(journalPath)
	require.NoError(m.t, err)
	require.NoError(m.t, m.mem.Put(journalPath, fn(data), noon))
}

func TestDamageInTheMiddleOfTheJournalIsRefusedByName(t *testing.T) {
	m := newMemKit(t, nil)
	m.mustSet("a.json", `"a value that stands in the first frame"`)
	m.mustSet("b.json", `2`)
	m.tamper(func(data []byte) []byte {
		data[strings.Index(string(data), "stands")] ^= 1
		return data
	})
	_, err := Open(m.cfg)
	require.ErrorIs(t, err, codes.Storage)
	require.ErrorContains(t, err, ledger.JournalName)
	require.ErrorContains(t, err, "offset 32")
	require.ErrorContains(t, err, "backup", "what to do")
}

func TestJournalWithAPieceCutOutIsRefusedByName(t *testing.T) {
	for _, cut := range []struct{ from, to int }{{40, 41}, {40, 60}, {33, 70}} {
		m := newMemKit(t, nil)
		for i := range 4 {
			m.mustSet("a.json", fmt.Sprintf(`"a value that is long enough to be cut %d"`, i))
		}
		m.tamper(func(data []byte) []byte { return slices.Delete(data, cut.from, cut.to) })
		_, err := Open(m.cfg)
		require.ErrorIs(t, err, codes.Storage)
		require.ErrorContains(t, err, ledger.JournalName)
		require.ErrorContains(t, err, "offset 32")
	}
}

func TestDamagedLengthDoesNotLookLikeATornTail(t *testing.T) {
	m := newMemKit(t, nil)
	m.mustSet("a.json", `1`)
	m.mustSet("b.json", `2`)
	m.tamper(func(data []byte) []byte {
		data[32+5] = 0x7f // the first frame now claims 2 GB
		return data
	})
	_, err := Open(m.cfg)
	require.ErrorIs(t, err, codes.Storage)
}

func TestLostJournalIsAnotherEpoch(t *testing.T) {
	m := newMemKit(t, map[string]string{"a.json": `1`})
	epoch := m.Epoch()
	require.Len(t, epoch, 32)
	require.NoError(t, m.Close())
	require.NoError(t, m.mem.Drop(journalPath))
	m.open()
	require.NotEqual(t, epoch, m.Epoch())
	require.Equal(t, "1", m.text("a"))
}

func TestNewEpochKeepsWhatTheJournalKnows(t *testing.T) {
	m := newMemKit(t, map[string]string{"a.json": `1`, "gone.json": `1`})
	m.remove("gone.json")
	m.edit("a.json", `{`, 2000)
	version, seq, epoch := m.mtime("a.json"), m.Snapshot().Seq(), m.Epoch()
	m.cfg.NewEpoch = true
	m.reopen()
	next := m.Epoch()
	require.NotEqual(t, epoch, next)
	m.cfg.NewEpoch = false
	m.reopen()
	require.Equal(t, next, m.Epoch())
	require.Equal(t, "1", m.text("a"), "the last good version")
	require.Equal(t, version, m.mtime("a.json"))
	require.True(t, m.Snapshot().Node("gone.json").Deleted())
	require.Equal(t, seq, m.Snapshot().Seq())
}

func TestJournalIsCompactedAndForgetsNothing(t *testing.T) {
	m := newMemKit(t, family())
	m.mustSet("gone.json", `1`)
	m.remove("gone.json")
	text := `"` + strings.Repeat("x", 20_000) + `"`
	for i := range 200 {
		m.mustSet("big.json", strings.Replace(text, "x", fmt.Sprint(i), 1))
	}
	m.edit("broken.json", `{"good":1}`, 1000)
	m.edit("broken.json", `{`, 2000)
	size := func() int {
		data, err := m.mem.Get(journalPath)
		require.NoError(t, err)
		return len(data)
	}
	require.Less(t, size(), 2<<20, "200 versions are 4 MB")
	state := func() (out []string) {
		for _, name := range m.Snapshot().Names() {
			n := m.Snapshot().Node(name)
			out = append(out, fmt.Sprint(name, n.Mtime(false), n.Mtime(true), n.GivenMtime(), n.Deleted(), len(textOf(n, true)), n.Broken()))
		}
		return out
	}
	before, epoch, seq := state(), m.Epoch(), m.Snapshot().Seq()
	m.reopen()
	require.Equal(t, before, state())
	require.Equal(t, epoch, m.Epoch())
	require.Equal(t, seq, m.Snapshot().Seq())
}

// testdata/old.journal was written by a version that told the journal the compact text
// of a write, not the bytes of its file: with writes placed, taken back and, both ways,
// open, a tombstone, a list of bases and the last good contents of a broken file.
func TestJournalOfAnOlderVersionOpens(t *testing.T) {
	data, err := os.ReadFile("testdata/old.journal")
	require.NoError(t, err)
	m := newMemKit(t, map[string]string{
		"_meta.json": `{"conf_inherit":{"heir.json":"base.json"}}`, "base.json": `{"b":2}`, "heir.json": `{"h":1}`,
		"open.json": "{\n  \"v\": \"old\"\n}\n", "exact.json": `{"v": "old"}`, "broken.json": `{`,
	})
	m.tamper(func([]byte) []byte { return data })
	for range 2 {
		m.open()
		require.Equal(t, "33eccdff443f62dabbd376bda9c9f238", m.Epoch())
		require.EqualValues(t, 11, m.Snapshot().Seq())
		for name, want := range map[string]struct {
			own, resolved int32
			text, file    string
		}{
			"_meta.json":  {1000, 1000, m.file("_meta.json"), m.file("_meta.json")},
			"base.json":   {5000, 5000, `{"b":2}`, `{"b":2}`},
			"heir.json":   {1000, 5000, `{"b":2,"h":1}`, `{"h":1}`},
			"broken.json": {1000, 1000, `{"good":1}`, `{`},
			"open.json":   {7000, 7000, `{"v":"new"}`, "{\n  \"v\": \"new\"\n}\n"},
			"exact.json":  {8000, 8000, `{"v":"new"}`, `{"v" :"new"}`},
		} {
			require.Equal(t, want.own, m.mtime(name), name)
			require.Equal(t, want.resolved, m.resolved(name), name)
			require.Equal(t, want.text, m.merged(name), name)
			require.Equal(t, want.file, m.file(name), name)
		}
		require.True(t, m.Snapshot().Node("gone.json").Deleted())
		require.EqualValues(t, 6000, m.mtime("gone.json"))
		require.Len(t, m.Snapshot().Names(), 7)
		require.Len(t, m.Problems(), 1, "the broken file")
		require.NoError(t, m.Close())
	}
}
