package snapshot

import (
	"testing"

	"confcenter/internal/memory"

	"github.com/stretchr/testify/require"
)

func TestAnswersLiveAsLongAsTheirVersion(t *testing.T) {
	pool := memory.NewPool(1 << 20)
	limits := NewLimits(1<<20, 1<<20, pool)
	now := plannedIn(t, limits, Empty(), texted("_meta.json", `{"conf_inherit":{"a.json":"b.json"}}`, 1000), texted("a.json", `{"n":1}`, 1000), texted("b.json", `{"m":1}`, 1000)).Next
	n := now.Node("a.json")
	require.Nil(t, n.Answer(true, []byte(`"a"`)))
	n.KeepAnswer(true, []byte(`"a"`), []byte(`{"file_pattern":"a","contents":1}`))
	n.KeepAnswer(true, []byte(`"a.json"`), []byte(`{"file_pattern":"a.json","contents":1}`))
	n.KeepAnswer(true, []byte(`"\u0061"`), []byte(`{"file_pattern":"\u0061","contents":1}`))
	require.Equal(t, `{"file_pattern":"a","contents":1}`, string(n.Answer(true, []byte(`"a"`))))
	require.Equal(t, `{"file_pattern":"a.json","contents":1}`, string(n.Answer(true, []byte(`"a.json"`))))
	require.Nil(t, n.Answer(true, []byte(`"\u0061"`)), "a name has endlessly many spellings with escapes")
	require.Nil(t, n.Answer(false, []byte(`"a"`)), "the form without bases is another")
	require.Positive(t, pool.Held())

	other := plannedIn(t, limits, now, texted("b.json", `{"m":2}`, 2000))
	other.Retire()
	require.Nil(t, other.Next.Node("a.json").Answer(true, []byte(`"a"`)), "a base has changed")
	require.Zero(t, pool.Held())
	n.KeepAnswer(false, []byte(`"a"`), []byte(`{"file_pattern":"a"}`))
	require.Zero(t, pool.Held(), "a node that has left the snapshot is not counted")
}

func TestAnswersHaveALimit(t *testing.T) {
	pool := memory.NewPool(1 << 20)
	limits := NewLimits(1<<20, 1<<20, pool)
	n := plannedIn(t, limits, Empty(), texted("a.json", `{}`, 1000)).Next.Node("a.json")
	long := append([]byte(`"a"`), make([]byte, maxAnswerBytes)...)
	n.KeepAnswer(false, []byte(`"a"`), long)
	require.Nil(t, n.Answer(false, []byte(`"a"`)))
	pool.Add(pool.Limit())
	n.KeepAnswer(false, []byte(`"a"`), []byte(`"a"`))
	require.Nil(t, n.Answer(false, []byte(`"a"`)))
}
