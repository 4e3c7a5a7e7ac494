package history_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/client"
	"confcenter/codes"
	"confcenter/confstore/history"
)

func (k *kit) preview(name, text string) *history.PreviewAnswer {
	k.t.Helper()
	answer, err := k.Preview(k.ctx, nil, &history.PreviewAsk{Name: name, Text: text})
	require.NoError(k.t, err)
	return answer
}

func TestPreviewTellsWhatWouldCome(t *testing.T) {
	each(t, map[string]string{
		"_meta.json": `{"conf_inherit":{"a.json":"base.json","b.json":"base.json"}}`,
		"base.json":  `{"low":1,"who":"base"}`, "a.json": `{"who":"a"}`, "b.json": `{}`,
	}, func(t *testing.T, k *kit) {
		t.Run("as_resolved_and_in_what_that_differs", func(t *testing.T) {
			answer := k.preview("a", `{ "low": 12345678901234567890 }`)
			require.Equal(t, `{"low":12345678901234567890,"who":"base"}`, answer.Text)
			require.Len(t, answer.Paths, 2)
			require.Equal(t, "/low", answer.Paths[0].Path)
			require.Equal(t, `12345678901234567890`, string(answer.Paths[0].New))
			require.Equal(t, "/who", answer.Paths[1].Path)
			require.Zero(t, answer.Heirs)
		})
		t.Run("of_a_file_that_is_not_there_yet", func(t *testing.T) {
			answer := k.preview("new.json", `{"n":1}`)
			require.Equal(t, `{"n":1}`, answer.Text)
			require.Equal(t, history.Added, answer.Paths[0].What)
		})
		t.Run("who_inherits_it", func(t *testing.T) {
			answer := k.preview("base.json", `{"low":2}`)
			require.Equal(t, []string{"a.json", "b.json"}, answer.Files)
			require.EqualValues(t, 2, answer.Heirs)
		})
		t.Run("who_is_told", func(t *testing.T) {
			c, err := client.Dial(k.ctx, client.Config{Addrs: []string{k.server.Address()}, Name: "told"})
			require.NoError(t, err)
			defer func() { require.NoError(t, c.Close()) }()
			_, err = c.Watch(k.ctx, client.Query{Name: "a.json", Merged: true}, func(*client.Document) {})
			require.NoError(t, err)
			answer := k.preview("base.json", `{"low":2}`)
			if _, far := k.asked.(wire); far {
				require.EqualValues(t, 1, answer.Told)
				require.Equal(t, []string{"a.json"}, answer.Programs[0].Files)
			}
			require.Zero(t, k.preview("b.json", `{"low":2}`).Told)
		})
		t.Run("nothing_is_changed", func(t *testing.T) {
			require.Equal(t, `{"who":"a"}`, k.files("")["a.json"])
			require.Len(t, k.log("a").Changes, 1)
		})
		t.Run("what_would_be_refused", func(t *testing.T) {
			for name, text := range map[string]string{"a.json": `{oops`, "../a.json": `{}`} {
				answer, err := k.Preview(k.ctx, nil, &history.PreviewAsk{Name: name, Text: text})
				require.True(t, err != nil || answer.Refused != "", name)
			}
		})
	})
}

func TestPreviewHasLimits(t *testing.T) {
	k := near(t, map[string]string{"a.json": `{}`})
	h, pool := k.limited(1 << 20)
	_, err := h.Preview(k.ctx, nil, &history.PreviewAsk{Name: "a.json", Text: `"` + strings.Repeat("x", 1<<20) + `"`})
	require.Equal(t, codes.TooLarge, codes.Of(err))
	require.Zero(t, pool.Held())
	answer := k.preview("a.json", "["+strings.Repeat("1,", 1<<20)+"1]")
	require.Len(t, answer.Text, 1<<20)
	require.EqualValues(t, 2<<20+3, answer.Length)
}
