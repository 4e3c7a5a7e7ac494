package confstore

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAnswersLiveAsLongAsTheirVersion(t *testing.T) {
	k := newKit(t, map[string]string{"_meta.json": `{"conf_inherit":{"a.json":"b.json"}}`, "a.json": `{"n":1}`, "b.json": `{"m":1}`})
	n := k.Snapshot().Node("a.json")
	require.Nil(t, n.Answer(true, []byte(`"a"`)))
	n.KeepAnswer(true, []byte(`"a"`), []byte(`{"file_pattern":"a","contents":1}`))
	n.KeepAnswer(true, []byte(`"a.json"`), []byte(`{"file_pattern":"a.json","contents":1}`))
	n.KeepAnswer(true, []byte(`"\u0061"`), []byte(`{"file_pattern":"\u0061","contents":1}`))
	require.Equal(t, `{"file_pattern":"a","contents":1}`, string(n.Answer(true, []byte(`"a"`))))
	require.Equal(t, `{"file_pattern":"a.json","contents":1}`, string(n.Answer(true, []byte(`"a.json"`))))
	require.Nil(t, n.Answer(true, []byte(`"\u0061"`)), "a name has endlessly many spellings with escapes")
	require.Nil(t, n.Answer(false, []byte(`"a"`)), "the form without bases is another")
	require.Positive(t, k.publisher.limits.cache.pool.Held())

	_, err := k.set(SetRequest{Name: "b.json", Contents: []byte(`{"m":2}`)})
	require.NoError(t, err)
	require.Nil(t, k.Snapshot().Node("a.json").Answer(true, []byte(`"a"`)), "a base has changed")
	require.Zero(t, k.publisher.limits.cache.pool.Held())
	n.KeepAnswer(false, []byte(`"a"`), []byte(`{"file_pattern":"a"}`))
	require.Zero(t, k.publisher.limits.cache.pool.Held(), "a node that has left the snapshot is not counted")
}

func TestAnswersHaveALimit(t *testing.T) {
	k := newKit(t, map[string]string{"a.json": `{}`})
	n := k.Snapshot().Node("a.json")
	long := append([]byte(`"a"`), make([]byte, maxAnswerBytes)...)
	n.KeepAnswer(false, []byte(`"a"`), long)
	require.Nil(t, n.Answer(false, []byte(`"a"`)))
	k.publisher.limits.cache.pool.Add(k.publisher.limits.cache.pool.Limit())
	n.KeepAnswer(false, []byte(`"a"`), []byte(`"a"`))
	require.Nil(t, n.Answer(false, []byte(`"a"`)))
}
