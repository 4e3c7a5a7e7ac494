package history_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/confstore/history"
	"confcenter/confstore/log"
	"confcenter/kv"
)

// show is what a document was, all pieces of it.
func (k *kit) show(q history.ShowAsk) (*history.ShowAnswer, string) {
	k.t.Helper()
	var text strings.Builder
	for {
		answer, err := k.Show(k.ctx, nil, &q)
		require.NoError(k.t, err)
		text.WriteString(answer.Text)
		if answer.Next == 0 {
			require.EqualValues(k.t, answer.Length, text.Len())
			return answer, text.String()
		}
		q.Rev, q.Offset = fmt.Sprint(answer.At), answer.Next
	}
}

// refused asserts how a question is refused.
func (k *kit) refused(err error, code codes.Code, text string) {
	k.t.Helper()
	require.Equal(k.t, code, codes.Of(err), "%v", err)
	require.ErrorContains(k.t, err, text)
}

func TestTheExactBytesOfAFileAtARevision(t *testing.T) {
	texts := []string{"{\"n\" : 0}\n", "{ \"n\":1 }", "-", `{"é\u2028€":"` + "\U0001F600" + `"}` + "\t\n\n"}
	each(t, nil, func(t *testing.T, k *kit) {
		for i, text := range texts {
			k.write("a.json", text)
			k.write("b.json", fmt.Sprint(i))
		}
		changes := k.log("a").Changes
		for i, text := range texts {
			c := changes[len(texts)-1-i]
			for _, rev := range []int64{c.Revision, c.Revision + 1} {
				answer, is := k.show(history.ShowAsk{Name: "a", Rev: fmt.Sprint(rev)})
				if text == "-" {
					require.True(t, answer.Deleted)
					require.Empty(t, is)
					require.Equal(t, log.Deleted, answer.Change.Documents[0].Kind)
					continue
				}
				require.Equal(t, text, is)
				require.Equal(t, c, *answer.Change)
				require.Equal(t, "a.json", answer.Name)
				require.Equal(t, rev, answer.At)
			}
			_, is := k.show(history.ShowAsk{Name: fmt.Sprintf("a.json@~%d", len(texts)-1-i)})
			require.Equal(t, strings.Trim(text, "-"), is)
		}
	})
}

func TestADocumentAsItWasResolvedAtARevision(t *testing.T) {
	each(t, map[string]string{"base.json": `{"a":{"x":1,"y":2},"b":1}`, "app.json": `{"a":{"x":9}}`}, func(t *testing.T, k *kit) {
		first := k.log("").Changes[0].Revision
		k.write("_meta.json", `{"conf_inherit":{"app.json":"base.json","ghost.json":"base none"}}`)
		shallow := k.log("").Changes[0].Revision
		k.write("_meta.json", `{"conf_inherit":{"app.json":"base.json"},"inherit_options":{"*":{"merge":"deep"}}}`)
		deep := k.log("").Changes[0].Revision
		k.write("base.json", `{"b":2}`)
		k.write("app.json", `-`)
		k.write("app.json", `{"c":3}`)
		for _, c := range []struct {
			name, rev, want string
			bases           []string
		}{
			{"app", fmt.Sprint(first), `{"a":{"x":9}}`, nil},
			{"app", fmt.Sprint(shallow), `{"a":{"x":9},"b":1}`, []string{"base.json"}},
			{"app", fmt.Sprint(deep), `{"a":{"x":9,"y":2},"b":1}`, []string{"base.json"}},
			{"app", "", `{"b":2,"c":3}`, []string{"base.json"}},
			{"app@~1", "", `{"b":2}`, []string{"base.json"}},
			{"app@~2", "", `{"a":{"x":9}}`, nil},
			{"ghost", fmt.Sprint(shallow), `{"a":{"x":1,"y":2},"b":1}`, []string{"base.json", "none.json"}},
		} {
			answer, is := k.show(history.ShowAsk{Name: c.name, Rev: c.rev, Resolved: true})
			require.Equal(t, c.want, is, "%s@%s", c.name, c.rev)
			require.Equal(t, c.bases, answer.Bases)
			require.Equal(t, c.name == "app@~1", answer.Deleted)
		}
		_, err := k.Show(k.ctx, nil, &history.ShowAsk{Name: "ghost", Resolved: true})
		k.refused(err, codes.NotFound, "never been a document")
	})
}

func TestRevisionsAreNamedInManyWays(t *testing.T) {
	each(t, map[string]string{"a.json": "0"}, func(t *testing.T, k *kit) {
		k.write("b@5.json", "5")
		k.write("a.json", "1")
		newest := k.log("a").Changes[0]
		at := time.UnixMilli(newest.Time).UTC()
		for _, c := range []struct {
			name, rev string
			want      string
		}{
			{"a", "~0", "1"}, {"a@~1", "", "0"}, {"a@" + fmt.Sprint(newest.Revision-1), "", "0"},
			{"a", at.Format(time.RFC3339Nano), "1"}, {"a", at.In(time.FixedZone("", 3600)).Format(time.RFC3339Nano), "1"},
			{"b@5.json", "", "5"}, {"b@5.json", "~0", "5"}, {"b@5.json@~0", "", "5"}, {"a@~0", "~1", "-"},
		} {
			if c.want == "-" {
				_, err := k.Show(k.ctx, nil, &history.ShowAsk{Name: c.name, Rev: c.rev})
				k.refused(err, codes.NotFound, `"a@~0.json"`)
				continue
			}
			_, is := k.show(history.ShowAsk{Name: c.name, Rev: c.rev})
			require.Equal(t, c.want, is, "%s %s", c.name, c.rev)
		}
		for rev, want := range map[string]struct {
			code codes.Code
			text string
		}{
			"0": {codes.BadRequest, "revisions begin at 1"}, "-1": {codes.BadRequest, "'~N' is N versions before"},
			"1000000000": {codes.FutureRevision, "in the future: the newest is"}, "~2": {codes.NotFound, "a.json has 2 versions, so that ~1 is the first"},
			"~-1": {codes.BadRequest, "is no revision"}, "yesterday": {codes.BadRequest, `"yesterday" is no revision: give a number`}, "~": {codes.BadRequest, ""},
			"2999-01-01": {codes.FutureRevision, "2999-01-01T00:00:00Z is in the future"}, "2020-01-01": {codes.NotFound, "did not exist then: it was created by revision"},
			"99999999999999999999": {codes.BadRequest, "is no revision"},
		} {
			_, err := k.Show(k.ctx, nil, &history.ShowAsk{Name: "a", Rev: rev})
			k.refused(err, want.code, want.text)
		}
		for name, want := range map[string]string{"a@yesterday": `"yesterday" is no revision: give a number`, "none@5x.json": `"5x" is no revision`} {
			_, err := k.Show(k.ctx, nil, &history.ShowAsk{Name: name})
			k.refused(err, codes.NotFound, "there has never been a document")
			k.refused(err, codes.NotFound, want)
			_, err = k.Rollback(k.ctx, nil, &history.RollbackAsk{Name: name})
			k.refused(err, codes.NotFound, want)
		}
		_, err := k.Show(k.ctx, nil, &history.ShowAsk{Name: ""})
		k.refused(err, codes.BadRequest, "name is missing")
	})
}

// notRemembered are documents of which the log has none yet, as at a start on a slow disk.
type notRemembered struct{ history.Documents }

func (notRemembered) Remembered(name string) error {
	return codes.Errorf(codes.Busy, "%s is not in the log yet", name)
}

// A document that is served has been one, whether or not the log knows it yet.
func TestWhatTheLogDoesNotHaveYetIsNotDenied(t *testing.T) {
	k := near(t, map[string]string{"_meta.json": `{"conf_inherit":{"app.json":"late"}}`, "app.json": `{}`})
	h := history.Open(k.server.State.(kv.Archive), history.Config{Documents: notRemembered{k.server.Store}})
	for what, ask := range map[string]func() error{
		"log":      func() error { _, err := h.Log(k.ctx, nil, &history.LogAsk{Name: "late"}); return err },
		"show":     func() error { _, err := h.Show(k.ctx, nil, &history.ShowAsk{Name: "late"}); return err },
		"resolved": func() error { _, err := h.Show(k.ctx, nil, &history.ShowAsk{Name: "late", Resolved: true}); return err },
		"explain":  func() error { _, err := h.Explain(k.ctx, nil, &history.ExplainAsk{Name: "app"}); return err },
		"rollback": func() error { _, err := h.Rollback(k.ctx, nil, &history.RollbackAsk{Name: "late"}); return err },
	} {
		err := ask()
		require.ErrorIs(t, err, codes.Busy, what)
		require.ErrorContains(t, err, "late.json is not in the log yet", what)
	}
	_, err := k.Show(k.ctx, nil, &history.ShowAsk{Name: "late"})
	require.ErrorIs(t, err, codes.NotFound, "there is none")
}
