package log_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/confstore/log"
	"confcenter/kv"
)

func TestChangesAreListedNewestFirst(t *testing.T) {
	b := newBed(t)
	defer b.close()
	list, err := b.log.Changes(t.Context(), 0, 10)
	require.NoError(t, err)
	require.Empty(t, list)
	var revs []kv.Revision
	for i := range 20 {
		c := set("a.json", fmt.Sprint(i))
		c.Seq = uint64(i * i * 1000) // with gaps, as a start leaves them
		c.By.Time = int64(i)
		revs = append(revs, b.commit(c)...)
	}
	for before := range revs {
		list, err := b.log.Changes(t.Context(), revs[before], 7)
		require.NoError(t, err)
		require.Len(t, list, min(before, 7))
		for i, m := range list {
			require.Equal(t, revs[before-1-i], m.Revision)
			require.EqualValues(t, before-1-i, m.Time)
		}
		m, err := b.log.LastChange(t.Context(), func(m *log.Made) bool { return m.Time <= int64(before) })
		require.NoError(t, err)
		require.Equal(t, revs[before], m.Revision)
	}
	m, err := b.log.LastChange(t.Context(), func(*log.Made) bool { return false })
	require.NoError(t, err)
	require.Zero(t, m.Revision)
	list, err = b.log.Changes(t.Context(), 0, 100)
	require.NoError(t, err)
	require.Len(t, list, 20)
}

func TestAChangeHasAllDocumentsThatItTouched(t *testing.T) {
	b := newBed(t)
	defer b.close()
	b.commit(set("0002.json", "1"), set("0001.json", "1"), set("0001.json", "-"), set("0003.json", "1"))
	for _, n := range []int{1, 2, log.MaxTouches, log.MaxTouches + 1, 2500} {
		var c log.Change
		for i := range n {
			c.Versions = append(c.Versions, set(fmt.Sprintf("%04d.json", i+1), "2").Versions...)
		}
		if n == 2 {
			c.Versions[1].Deleted, c.Versions[1].File = true, nil
		}
		b.commit(c)
		list, err := b.log.Changes(t.Context(), 0, 1)
		require.NoError(t, err)
		require.Equal(t, n, list[0].Count)
		require.Len(t, list[0].First, min(n, log.MaxTouches))
		all, err := b.log.Touched(t.Context(), &list[0])
		require.NoError(t, err)
		require.Len(t, all, n)
		for i, touch := range all {
			require.Equal(t, c.Versions[i].Name, touch.Name)
			v, err := b.log.Version(t.Context(), touch.Name, touch.N)
			require.NoError(t, err)
			require.Equal(t, v.Kind(), touch.Kind)
		}
	}
	var kinds []log.Kind
	for _, name := range []string{"0001.json", "0002.json"} {
		list, err := b.log.Versions(t.Context(), name, 0, 10)
		require.NoError(t, err)
		slices.Reverse(list)
		for i := range list {
			kinds = append(kinds, list[i].Kind())
		}
	}
	require.Equal(t, []log.Kind{
		log.Created, log.Deleted, log.Created, log.Changed, log.Changed, log.Changed, log.Changed,
		log.Created, log.Deleted, log.Created, log.Changed, log.Changed,
	}, kinds)
}
