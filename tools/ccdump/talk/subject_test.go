package talk

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/protocol"
)

func TestSubjectsOfPlayerStorage(t *testing.T) {
	of := func(body string) []string {
		var r protocol.Request
		require.NoError(t, r.Parse([]byte(body)))
		return subjects(protocol.StUpdate, &r)
	}
	const owner = `{"logicType":"bag","ownerId":"42"`
	require.Equal(t, []string{"bag:42"}, of(owner+`}`))
	require.Equal(t, []string{"bag:42/a", "bag:42/b"}, of(owner+`,"names":["a",1,"b"]}`))
	require.Equal(t, []string{"bag:42/a", "bag:42/pic"}, of(owner+`,"fields":{"a":"1"},"bytes":{"pic":""}}`))
	require.Empty(t, of(`{"code":0,"fields":{"a":"1"}}`), "a reply does not say whose they are")
	require.Len(t, of(owner+`,"names":["`+strings.Repeat(`x","`, 2*maxSubjects)+`"],"deltas":{"a":1}}`), maxSubjects)
}
