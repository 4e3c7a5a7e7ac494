package confstore

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"confcenter/access"
	"confcenter/confstore/snapshot"
	"confcenter/kv/follow"
)

// taken is the next batch of a backlog, complete; nil: there is none.
func taken(l *follow.Queue[*snapshot.Batch]) *snapshot.Batch {
	b, ok := l.Take()
	if ok {
		b.Complete()
	}
	return b
}

func TestBacklogKeepsBatchesApartUpToItsLimit(t *testing.T) {
	m := newMemKit(t, map[string]string{"a.json": `0`, "b.json": `0`})
	var list []*snapshot.Batch
	for i := range 6 {
		m.mustSet("a.json", fmt.Sprint(i+1))
		list = append(list, m.next())
	}
	l := snapshot.NewBacklog(3 * snapshot.Weight(list[0].Changes))
	require.Nil(t, taken(l))
	for i, b := range list {
		require.Equal(t, i < 3, l.Put(b, b.Weight()))
	}
	require.Same(t, list[0], taken(l))
	require.Same(t, list[1], taken(l))
	require.True(t, l.Put(list[5], list[5].Weight()), "there is room again")
	joined := taken(l)
	require.Equal(t, list[5].Seq, joined.Seq)
	require.Same(t, list[5].Snapshot, joined.Snapshot)
	require.Same(t, list[2].Prev, joined.Prev)
	require.Len(t, joined.Changes, 1)
	require.Equal(t, "6", textOf(joined.Changes[0].Node, false))
	require.Equal(t, "2", textOf(joined.Changes[0].Prev, false))
	require.Same(t, list[5], taken(l))
	require.Nil(t, taken(l))
	require.Zero(t, l.Weight())
}

func TestBacklogSpeaksOfTheBasesThereAreNow(t *testing.T) {
	m := newMemKit(t, map[string]string{
		"a.json": `{"a":1}`, "b.json": `{"b":1}`, "heir.json": `{}`, "_meta.json": `{"conf_inherit":{"heir.json":"b.json a.json"}}`,
	})
	l := snapshot.NewBacklog(0)
	ann := &access.Actor{Name: "ann"}
	put := func(req SetRequest) {
		_, err := m.set(req)
		require.NoError(t, err)
		b := m.next()
		l.Put(b, b.Weight())
	}
	put(SetRequest{Name: "a.json", Contents: []byte(`{"a":2}`), Actor: ann})
	put(SetRequest{Name: "b.json", Contents: []byte(`{"b":2}`)})
	b := taken(l)
	require.Equal(t, []string{"a.json", "b.json", "heir.json"}, names(b))
	require.Equal(t, []string{"b.json", "a.json"}, b.Changes[2].Bases)
	require.Same(t, ann, b.Changes[0].Actor)
	require.False(t, b.Changes[2].Own)

	put(SetRequest{Name: "a.json", Contents: []byte(`{"a":3}`)})
	put(SetRequest{Name: "_meta.json", Contents: []byte(`{"conf_inherit":{"heir.json":"b.json"}}`)})
	b = taken(l)
	heir := b.Changes[slices.IndexFunc(b.Changes, func(c snapshot.Change) bool { return c.Name == "heir.json" })]
	require.Empty(t, heir.Bases)
	require.True(t, heir.BasesListChanged)
}

// TestBacklogLosesNothing: a reader that takes batches from a backlog knows the same at
// the end as one that is told of each batch, whatever the limit.
func TestBacklogLosesNothing(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := newMemKit(t, family())
		defer func() { require.NoError(t, m.Close()) }()
		l := snapshot.NewBacklog(rapid.Int64Range(0, 30_000).Draw(rt, "limit"))
		waiting := 0
		told, all := map[string]int32{}, map[string]int32{}
		note := func(b *snapshot.Batch, in map[string]int32) {
			require.Equal(rt, b.Seq, b.Snapshot.Seq())
			for _, c := range b.Changes {
				require.Same(rt, c.Node, b.Snapshot.Node(c.Name))
				require.Same(rt, c.Prev, b.Prev.Node(c.Name))
				in[c.Name] = c.Node.Mtime(true)
			}
		}
		take := func() {
			waiting--
			note(taken(l), told)
		}
		for range rapid.IntRange(1, 40).Draw(rt, "changes") {
			if waiting > 0 && rapid.IntRange(0, 3).Draw(rt, "take") == 0 {
				take()
				continue
			}
			name := rapid.SampledFrom([]string{"common.json", "app1.json", "app1-dev.json", "new.json"}).Draw(rt, "name")
			m.mustSet(name, fmt.Sprintf(`{"v":%d}`, rapid.IntRange(0, 1000).Draw(rt, "v")))
			for len(m.batches) > 0 {
				b := m.next()
				note(b, all)
				if l.Put(b, b.Weight()) {
					waiting++
				}
			}
		}
		for waiting > 0 {
			take()
		}
		require.Nil(rt, taken(l))
		require.Equal(rt, all, told)
	})
}
