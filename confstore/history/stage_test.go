package history

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/access"
	"confcenter/codes"
	"confcenter/internal/clock/clocktest"
	"confcenter/internal/memory"
	kvmemory "confcenter/kvstore/memory"
	"confcenter/op"
)

func used(t *testing.T, h *History) (list []op.Used) {
	t.Helper()
	list, err := h.Used(t.Context())
	require.NoError(t, err)
	return list
}

// What is staged is bounded, in number and in bytes, and forgotten if nothing more comes.
func TestLimitsOfWhatIsStaged(t *testing.T) {
	now := clocktest.NewFake(time.Unix(1_000_000, 0))
	h := Open(kvmemory.ForTest(t), Config{Clock: now, Staged: memory.NewPool(100_000)})
	stage := func(token, name, text string) error {
		_, err := h.Stage(t.Context(), nil, &StageAsk{Token: token, Documents: []Wanted{{Name: name, Text: text}}})
		return err
	}
	require.NoError(t, stage("t", "a.json", strings.Repeat("x", 90_000)))
	require.Equal(t, codes.Limit, codes.Of(stage("t", "b.json", strings.Repeat("x", 10_000))))
	require.EqualValues(t, 1, used(t, h)[0].N)
	require.EqualValues(t, 90_000+len("a.json")+perWanted, used(t, h)[1].N)
	now.Advance(stageKept - time.Second)
	require.NoError(t, stage("t", "b.json", "1"), "it lives on")
	now.Advance(stageKept - time.Second)
	require.EqualValues(t, 1, used(t, h)[0].N)
	now.Advance(2 * time.Second)
	_, err := h.Apply(t.Context(), nil, &ApplyAsk{Said: Said{Token: "t"}, Staged: 2})
	require.Equal(t, codes.NotFound, codes.Of(err))
	require.ErrorContains(t, err, "nothing is staged")
	require.Zero(t, used(t, h)[1].N)

	for i := range maxStages {
		require.NoError(t, stage(fmt.Sprint(i), "a.json", "1"))
	}
	require.Equal(t, codes.Busy, codes.Of(stage("one more", "a.json", "1")))
	require.NoError(t, stage("0", "b.json", "1"))
	now.Advance(stageKept + time.Second)
	require.NoError(t, stage("one more", "a.json", "1"))
	require.EqualValues(t, 1, used(t, h)[0].N)
}

// No one has more than a part of the stages, or of their memory, so that some is left for others.
func TestNobodyStagesForAllOthers(t *testing.T) {
	h := Open(kvmemory.ForTest(t), Config{Staged: memory.NewPool(100_000)})
	stage := func(who, token string, size int, groups ...string) error {
		var by *access.Actor
		if who != "" {
			by = &access.Actor{Identity: &access.Identity{Name: who, Groups: groups}}
		}
		_, err := h.Stage(t.Context(), by, &StageAsk{Token: token, Documents: []Wanted{{Name: "a.json", Text: strings.Repeat("x", size)}}})
		return err
	}
	for i := range maxStages / shareOfOne {
		require.NoError(t, stage("token:a", fmt.Sprint(i), 1))
	}
	err := stage("token:a", "one more", 1)
	require.Equal(t, codes.Limit, codes.Of(err))
	require.ErrorContains(t, err, "token:a is staging 16 changes already")
	require.NoError(t, stage("token:b", "one more", 20_000))
	err = stage("token:b", "two more", 5_000)
	require.Equal(t, codes.Limit, codes.Of(err))
	require.ErrorContains(t, err, "all changes that token:b is staging may have 25000")
	require.EqualValues(t, maxStages/shareOfOne+2, used(t, h)[0].N)

	require.NoError(t, stage("token:root", "t", 30_000, access.Administrators))
	require.NoError(t, stage("", "t", 30_000), "nobody is known")
}

// Where a piece says that it begins is not believed.
func TestPiecesThatDoNotFollowOneAnother(t *testing.T) {
	h := Open(kvmemory.ForTest(t), Config{})
	stage := func(offset int64, text string) error {
		_, err := h.Stage(t.Context(), nil, &StageAsk{Token: "t", Documents: []Wanted{{Name: "a.json", Text: text, Offset: offset}}})
		return err
	}
	require.Equal(t, codes.BadRequest, codes.Of(stage(1, "x")))
	require.NoError(t, stage(0, "abc"))
	require.NoError(t, stage(1, "bc"), "sent again")
	for _, offset := range []int64{-1, math.MinInt64, 1, 2, 4, math.MaxInt64 - 1, math.MaxInt64} {
		require.Equal(t, codes.BadRequest, codes.Of(stage(offset, "xyz")), offset)
	}
	require.NoError(t, stage(3, "def"))
}
