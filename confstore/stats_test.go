package confstore

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStatsCountFilesByState(t *testing.T) {
	k := newKit(t, map[string]string{"_meta.json": `{"conf_inherit":{"ghost.json":"a.json"}}`, "a.json": `{"v": 1}`, "b.json": `{}`, "never.json": `{`})
	k.asked()
	require.Equal(t, Stats{Files: 4, Broken: 1, Bytes: int64(k.Snapshot().Node("_meta.json").Size()) + 9, Seq: k.Snapshot().Seq(), Problems: 1}, k.Stats(),
		"one that was never good is a file too, and broken; one that only inherits is none")
	require.Equal(t, OfFile, k.Problems()[0].Kind)

	require.NoError(t, os.Remove(k.path("b.json")))
	k.next()
	stats := k.Stats()
	require.Equal(t, 3, stats.Files)
	require.Equal(t, 1, stats.Deleted)
	require.Equal(t, k.Snapshot().Seq(), stats.Seq)
}
