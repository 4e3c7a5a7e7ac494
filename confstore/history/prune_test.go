package history_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/access"
	"confcenter/codes"
	"confcenter/confstore/history"
	"confcenter/internal/clock/clocktest"
	"confcenter/kv"
)

// A caller that asks for what is gone is told so, whatever the question.
func TestWhatWasPrunedIsCompacted(t *testing.T) {
	k := near(t, map[string]string{"base.json": `{"b":1}`})
	for i := range 5 {
		k.write("a.json", fmt.Sprintf(`{"n":%d,"same":1}`, i))
	}
	changes := k.log("a").Changes
	k.write("c.json", "1")
	k.write("c.json", "-")
	later := clocktest.NewFake(time.Now().Add(40 * 24 * time.Hour))
	h := history.Open(k.server.State.(kv.Archive), history.Config{Clock: later})
	for _, q := range []history.PruneAsk{{}, {Keep: 2}, {Days: 1}, {Keep: 2, Days: 50}, {Keep: 2, Days: 200_000}, {Keep: 2, Days: 1_000_000}, {Keep: 2, Days: 30, DryRun: true}} {
		answer, err := h.Prune(k.ctx, nil, &q)
		require.NoError(t, err)
		require.EqualValues(t, q.DryRun, answer.Versions > 0, "%+v", q)
		require.Len(t, k.log("a").Changes, 5)
	}
	answer, err := h.Prune(k.ctx, &access.Actor{Author: "ann"}, &history.PruneAsk{Keep: 2, Days: 30})
	require.NoError(t, err)
	require.Equal(t, &history.PruneAnswer{Versions: 3, Bytes: 3 * 16, Changes: 3, Documents: []history.PrunedFrom{{Name: "a.json", Versions: 3, First: 4}}}, answer)

	log := k.log("a")
	require.Len(t, log.Changes, 2)
	require.True(t, log.Compacted)
	require.Zero(t, log.Next)
	log, err = k.Log(k.ctx, nil, &history.LogAsk{Name: "a", Limit: 1})
	require.NoError(t, err)
	require.True(t, log.Next > 0)
	log, err = k.Log(k.ctx, nil, &history.LogAsk{Name: "a", Limit: 2, Before: log.Changes[0].Revision})
	require.NoError(t, err)
	require.True(t, log.Compacted && len(log.Changes) == 1)
	log, err = k.Log(k.ctx, nil, &history.LogAsk{Name: "a", Before: log.Changes[0].Revision})
	require.NoError(t, err)
	require.True(t, log.Compacted && len(log.Changes) == 0)
	require.True(t, k.log("").Compacted)
	for _, rev := range []string{fmt.Sprint(changes[2].Revision), fmt.Sprint(changes[4].Revision), "~2", "1"} {
		for _, resolved := range []bool{false, true} {
			_, err := k.Show(k.ctx, nil, &history.ShowAsk{Name: "a", Rev: rev, Resolved: resolved})
			k.refused(err, codes.Compacted, "of a.json is no longer kept; the oldest that is was made by revision")
		}
		_, err := k.Diff(k.ctx, nil, &history.DiffAsk{Name: "a", From: rev})
		k.refused(err, codes.Compacted, "of a.json is no longer kept")
		_, err = k.Blame(k.ctx, nil, &history.BlameAsk{Name: "a", Rev: rev})
		k.refused(err, codes.Compacted, "of a.json is no longer kept")
		_, err = k.Explain(k.ctx, nil, &history.ExplainAsk{Name: "a", Rev: rev})
		k.refused(err, codes.Compacted, "of a.json is no longer kept")
	}
	_, err = k.Diff(k.ctx, nil, &history.DiffAsk{Name: "a@~1"})
	k.refused(err, codes.Compacted, "version 3 of a.json")
	_, err = k.Show(k.ctx, nil, &history.ShowAsk{Name: "base", Rev: "1"})
	require.NoError(t, err, "which is the newest of its document")
	blame, err := k.Blame(k.ctx, nil, &history.BlameAsk{Name: "a"})
	require.NoError(t, err)
	require.Equal(t, []history.Looked{{File: "a.json", Versions: 2, Oldest: 4, Stopped: "earlier versions are no longer kept"}}, blame.Looked)
	require.False(t, blame.Keys[0].Earlier)
	require.True(t, blame.Keys[1].Earlier)
	_, text := k.show(history.ShowAsk{Name: "a@~1"})
	require.Equal(t, `{"n":3,"same":1}`, text)

	k.server.Restart()
	k.asked = history.Open(k.server.State.(kv.Archive), history.Config{})
	k.write("a.json", "6")
	_, text = k.show(history.ShowAsk{Name: "a@~2"})
	require.Equal(t, `{"n":3,"same":1}`, text)
}

func TestWhatPruneRefuses(t *testing.T) {
	each(t, nil, func(t *testing.T, k *kit) {
		for text, q := range map[string]history.PruneAsk{"keep is -1": {Keep: -1}, "days is -1": {Days: -1}, "days is 1000001": {Days: 1000001}} {
			_, err := k.Prune(k.ctx, nil, &q)
			k.refused(err, codes.BadRequest, text)
		}
		answer, err := k.Prune(k.ctx, nil, &history.PruneAsk{})
		require.NoError(t, err)
		require.Zero(t, answer.Versions)
		require.NotNil(t, answer)
	})
}
