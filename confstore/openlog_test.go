package confstore

import (
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/kvstore/memory"
)

// Versions must not fall because what an old build knew of them is not read.
func TestAJournalIsRefusedByName(t *testing.T) {
	m := &memKit{kit: &kit{t: t}}
	m.prepare(nil)
	require.NoError(t, m.mem.Put("/srv/data/"+journalName, []byte("anything"), noon))
	m.cfg.State = memory.ForTest(t)
	_, err := Open(m.cfg)
	require.ErrorIs(t, err, codes.Storage)
	require.ErrorContains(t, err, journalName)
	require.ErrorContains(t, err, "move it away", "what to do")
	require.NoError(t, m.mem.Drop("/srv/data/"+journalName))
	m.open()
}
