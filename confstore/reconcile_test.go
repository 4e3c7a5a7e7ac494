package confstore

import (
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
)

// A commit that is only late is not made again: else the log of a slow disk, which has to take many
// files at a first start, would never be done.
func TestEditsThatAreRememberedLateAreNotRememberedAgain(t *testing.T) {
	p := newPatient(t, sickData)
	p.open()
	version := func(name string) int64 {
		d, err := p.recorder.log.Document(name)
		require.NoError(t, err)
		return d.N
	}
	waits, thaw := p.disk.hangs()
	p.put("_meta.json", `{"conf_inherit":{"a.json":"b"}}`)
	p.put("b.json", `1`)
	p.edit("a.json", `{"v":"edited"}`)
	<-waits
	require.ErrorIs(t, p.Remembered("a.json"), codes.Busy)
	thaw()
	p.recovers()
	p.await("what was late to be known", func() bool { return p.Remembered("a.json") == nil && p.Remembered("b.json") == nil })
	p.mustSet("c.json", `3`)
	require.EqualValues(t, 2, version("a.json"))
	require.EqualValues(t, 1, version("b.json"))
	require.EqualValues(t, 1, version("_meta.json"))

	waits, thaw = p.disk.hangs()
	p.edit("b.json", `2`)
	<-waits
	p.edit("b.json", `3`)
	thaw()
	p.recovers()
	p.await("the newer edit to be remembered, too", func() bool { return p.Remembered("b.json") == nil })
	p.mustSet("c.json", `4`)
	require.EqualValues(t, 3, version("b.json"))
	for _, lose := range []bool{true, false} {
		k := p.left(lose)
		require.Equal(t, "3", k.text("b.json"))
		require.Equal(t, p.mtime("a.json"), k.mtime("a.json"))
		require.Equal(t, p.mtime("b.json"), k.mtime("b.json"))
		require.NoError(t, k.Close())
	}
}
