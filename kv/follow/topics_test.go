package follow

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"confcenter/kv"
)

// However followers join and leave, the topics that match are those whose filter does, with just the events that do.
func TestTopicsMatchAsTheirFiltersDo(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var topics Topics[struct{}]
		var joined []*Topic[struct{}]
		text := rapid.StringMatching(`[ab]{1,3}`)
		for range rapid.IntRange(0, 30).Draw(rt, "steps") {
			if len(joined) > 0 && rapid.IntRange(0, 2).Draw(rt, "leave") == 0 {
				i := rapid.IntRange(0, len(joined)-1).Draw(rt, "which")
				topics.Leave(joined[i])
				joined = slices.Delete(joined, i, i+1)
				continue
			}
			f := kv.Filter{NS: rapid.SampledFrom([]string{"", "m", "n"}).Draw(rt, "ns")}
			if f.NS != "" {
				f.Text, f.Exact = text.Draw(rt, "text"), rapid.Bool().Draw(rt, "exact")
			}
			joined = append(joined, topics.Join(f))
		}
		want := map[kv.Filter][]kv.Event{}
		got := map[kv.Filter][]kv.Event{}
		for rev := kv.Revision(1); rev <= 2; rev++ {
			var events []kv.Event
			for _, ns := range []string{"m", "n"} {
				for _, key := range rapid.SliceOfNDistinct(text, 0, 6, rapid.ID[string]).Draw(rt, "keys") {
					events = append(events, kv.Event{Kind: kv.Put, Entry: &kv.Entry{NS: ns, Key: key, Mod: rev}})
				}
			}
			for i := range events {
				topics.Match(rev, events, i)
				matches := func(f kv.Filter) bool { return f.Match(events[i].Entry.NS, events[i].Entry.Key) }
				require.Equal(rt, slices.ContainsFunc(filtersOf(joined), matches), topics.Wants(events[i].Entry.NS, events[i].Entry.Key))
				for _, f := range filtersOf(joined) {
					if matches(f) {
						want[f] = append(want[f], events[i])
					}
				}
			}
		}
		for topic := topics.Matched(); topic != nil; topic = topics.Matched() {
			for _, p := range topic.Parts {
				require.NotEmpty(rt, p.Events)
				require.Equal(rt, p.Rev, p.Events[0].Entry.Mod)
				got[topic.Filter] = append(got[topic.Filter], p.Events...)
			}
			topics.Taken()
			require.Empty(rt, topic.Parts)
		}
		require.Equal(rt, want, got)
		require.Equal(rt, len(filtersOf(joined)), topics.Len())
		for _, topic := range joined {
			topics.Leave(topic)
		}
		require.Empty(rt, topics.byFilter)
		require.Empty(rt, topics.lengths)
	})
}

func filtersOf(list []*Topic[struct{}]) (filters []kv.Filter) {
	for _, t := range list {
		if !slices.Contains(filters, t.Filter) {
			filters = append(filters, t.Filter)
		}
	}
	return filters
}

func BenchmarkMatch(b *testing.B) {
	var topics Topics[struct{}]
	for _, f := range []kv.Filter{{}, {NS: "n"}, {NS: "n", Text: "key"}, {NS: "n", Text: "key00", Exact: true}, {NS: "other", Text: "key"}} {
		topics.Join(f)
	}
	c := puts(1, "a", "key00", "key01", "z")
	b.ReportAllocs()
	for b.Loop() {
		for i := range c.Events {
			topics.Match(1, c.Events, i)
		}
		for topics.Matched() != nil {
			topics.Taken()
		}
	}
}
