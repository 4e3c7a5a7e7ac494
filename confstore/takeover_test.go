package confstore

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/confstore/journal"
	"confcenter/kvstore/kvtest"
)

// testdata of package journal has one that an older version wrote: what it knew is known, under
// the same epoch, and nothing is told to be new.
func TestAJournalIsTakenOverOnce(t *testing.T) {
	data, err := os.ReadFile("journal/testdata/old.journal")
	require.NoError(t, err)
	m := &memKit{kit: &kit{t: t}}
	m.prepare(map[string]string{
		"_meta.json": `{"conf_inherit":{"heir.json":"base.json"}}`, "base.json": `{"b":2}`, "heir.json": `{"h":1}`,
		"open.json": "{\n  \"v\": \"old\"\n}\n", "exact.json": `{"v" :"new"}`, "broken.json": `{`,
	})
	require.NoError(t, m.mem.Put("/srv/data/"+journal.Name, data, noon))
	for range 2 {
		m.open()
		require.Equal(t, "33eccdff443f62dabbd376bda9c9f238", m.Epoch())
		require.GreaterOrEqual(t, m.Snapshot().Seq(), uint64(11))
		for name, want := range map[string]struct {
			own, resolved int32
			text, file    string
		}{
			"_meta.json":  {1000, 1000, m.file("_meta.json"), m.file("_meta.json")},
			"base.json":   {5000, 5000, `{"b":2}`, `{"b":2}`},
			"heir.json":   {1000, 5000, `{"b":2,"h":1}`, `{"h":1}`},
			"broken.json": {1000, 1000, `{"good":1}`, `{`},
			"exact.json":  {8000, 8000, `{"v":"new"}`, `{"v" :"new"}`},
		} {
			require.Equal(t, want.own, m.mtime(name), name)
			require.Equal(t, want.resolved, m.resolved(name), name)
			require.Equal(t, want.text, m.merged(name), name)
			require.Equal(t, want.file, m.file(name), name)
		}
		require.Equal(t, `{"v":"old"}`, m.text("open.json"), "of a write that was not finished nobody was told")
		require.True(t, m.Snapshot().Node("gone.json").Deleted())
		require.EqualValues(t, 6000, m.mtime("gone.json"))
		require.Len(t, m.Snapshot().Names(), 7)
		require.Len(t, m.Problems(), 1, "the broken file")
		_, err := m.mem.Get("/srv/data/" + journal.Name)
		require.Error(t, err)
		kept, err := m.mem.Get("/srv/data/" + journal.Name + ".taken-over-1")
		require.NoError(t, err)
		require.Equal(t, data, kept)
		require.NoError(t, m.Close())
	}
	// The way back and forth again: a version before has run on the journal meanwhile.
	require.NoError(t, m.mem.Put("/srv/data/"+journal.Name, data, noon))
	m.open()
	require.EqualValues(t, 6000, m.mtime("gone.json"))
	d, err := m.recorder.log.Document("base.json")
	require.NoError(t, err)
	require.EqualValues(t, 1, d.N, "what is known already is not taken over again")
}

func TestADamagedJournalIsRefusedByName(t *testing.T) {
	m := &memKit{kit: &kit{t: t}}
	m.prepare(nil)
	require.NoError(t, m.mem.Put("/srv/data/"+journal.Name, []byte("damaged"), noon))
	m.cfg.State = kvtest.ForTest(t)
	_, err := Open(m.cfg)
	require.ErrorIs(t, err, codes.Storage)
	require.ErrorContains(t, err, journal.Name)
	require.ErrorContains(t, err, "backup", "what to do")
}
