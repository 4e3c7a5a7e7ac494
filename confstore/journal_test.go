package confstore

import (
	"fmt"
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
