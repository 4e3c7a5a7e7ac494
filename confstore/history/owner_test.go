package history_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/access"
	"confcenter/codes"
	"confcenter/confstore"
	"confcenter/confstore/history"
)

// proved is an actor that was proved to be name.
func proved(name string) *access.Actor {
	return &access.Actor{Identity: &access.Identity{Name: name}}
}

// A request token can be guessed, or seen in a log: it is of no use to others.
func TestATokenIsOfUseToWhoeverUsedItFirst(t *testing.T) {
	k := near(t, map[string]string{"a.json": `1`})
	mine, theirs := proved("token:a"), proved("token:b")
	said := history.Said{Token: "t1"}
	q := history.ApplyAsk{Said: said, Documents: []history.Wanted{{Name: "a.json", Text: `2`}}}
	made, err := k.Apply(k.ctx, mine, &q)
	require.NoError(t, err)
	again, err := k.Apply(k.ctx, mine, &q)
	require.NoError(t, err)
	require.True(t, again.Replayed)
	require.Equal(t, made.Revision, again.Revision)
	for _, other := range []*access.Actor{theirs, nil} {
		_, err = k.Apply(k.ctx, other, &q)
		require.Equal(t, codes.TokenReused, codes.Of(err))
		_, err = k.Apply(k.ctx, other, &history.ApplyAsk{Said: said, Prune: true, Documents: q.Documents})
		require.Equal(t, codes.TokenReused, codes.Of(err))
		_, err = k.Apply(k.ctx, other, &history.ApplyAsk{Said: said, Staged: 1})
		require.Equal(t, codes.TokenReused, codes.Of(err), "a stage that is gone is looked for in the log")
		_, err = k.Rollback(k.ctx, other, &history.RollbackAsk{Name: "a", Said: said})
		require.Equal(t, codes.TokenReused, codes.Of(err))
		by := &access.Actor{Token: "t1"}
		if other != nil {
			by.Identity = other.Identity
		}
		done := make(chan error, 1)
		require.NoError(t, k.server.Store.Set(confstore.SetRequest{Name: "a.json", Contents: []byte(`2`), Actor: by}, func(_ confstore.SetResult, err error) { done <- err }))
		require.Equal(t, codes.TokenReused, codes.Of(<-done))
	}
}

func TestNobodyGetsAtWhatOthersStage(t *testing.T) {
	k := near(t, nil)
	mine, theirs := proved("token:a"), proved("token:b")
	_, err := k.Stage(k.ctx, mine, &history.StageAsk{Token: "t1", Documents: []history.Wanted{{Name: "a.json", Text: `"mine"`}}})
	require.NoError(t, err)
	_, err = k.Apply(k.ctx, theirs, &history.ApplyAsk{Said: history.Said{Token: "t1"}, Staged: 1})
	require.Equal(t, codes.NotFound, codes.Of(err))
	answer, err := k.Stage(k.ctx, theirs, &history.StageAsk{Token: "t1", Documents: []history.Wanted{{Name: "a.json", Text: `"theirs"`}}})
	require.NoError(t, err, "it is not told that there is another")
	require.EqualValues(t, 1, answer.Documents)
	_, err = k.Apply(k.ctx, mine, &history.ApplyAsk{Said: history.Said{Token: "t1"}, Staged: 1})
	require.NoError(t, err)
	require.Equal(t, `"mine"`, k.files("")["a.json"])
}
