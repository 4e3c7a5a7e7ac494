package history_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/client"
	"confcenter/codes"
	"confcenter/confstore"
	"confcenter/confstore/change"
	"confcenter/confstore/history"
	"confcenter/confstore/log"
	"confcenter/kv"
)

func (k *kit) apply(q history.ApplyAsk) *history.ChangeAnswer {
	k.t.Helper()
	answer, err := k.Apply(k.ctx, nil, &q)
	require.NoError(k.t, err)
	return answer
}

func (k *kit) rollback(q history.RollbackAsk) *history.ChangeAnswer {
	k.t.Helper()
	answer, err := k.Rollback(k.ctx, nil, &q)
	require.NoError(k.t, err)
	return answer
}

// files are all documents as Export has them.
func (k *kit) files(rev string) map[string]string {
	k.t.Helper()
	files := map[string]string{}
	for q := (history.ExportAsk{Rev: rev}); ; {
		answer, err := k.Export(k.ctx, nil, &q)
		require.NoError(k.t, err)
		for _, d := range answer.Documents {
			require.Len(k.t, files[d.Name], int(d.Offset))
			files[d.Name] += d.Text
			if answer.Next != d.Name {
				require.Equal(k.t, hashOf(files[d.Name]), d.Hash)
				require.Len(k.t, files[d.Name], int(d.Size))
			}
		}
		if q = (history.ExportAsk{Rev: fmt.Sprint(answer.At), From: answer.Next, Offset: answer.NextOffset}); answer.Next == "" {
			return files
		}
	}
}

func hashOf(text string) string { return log.DigestOf([]byte(text)).String() }

// kinds are what a change does, by name.
func kinds(a *history.ChangeAnswer) string {
	var list []string
	for _, d := range a.Documents {
		list = append(list, d.Name+" "+string(d.Kind))
	}
	return strings.Join(list, ", ")
}

func TestApplyMakesDocumentsWhatIsSaid(t *testing.T) {
	each(t, map[string]string{"a.json": "1", "b.json": "1", "c.json": "1"}, func(t *testing.T, k *kit) {
		q := history.ApplyAsk{Said: history.Said{Author: "ann", Comment: "why"}, Prune: true, Documents: []history.Wanted{
			{Name: "a.json", Text: "{ }\n", Base: hashOf("1")}, {Name: "new.json", Text: "2", Base: "none"}, {Name: "c.json", Keep: true, Base: hashOf("1")},
		}}
		before := k.files("")
		dry := q
		dry.DryRun = true
		answer := k.apply(dry)
		require.Zero(t, answer.Revision)
		require.Equal(t, "a.json changed, b.json deleted, new.json created", kinds(answer))
		require.Equal(t, before, k.files(""))

		answer = k.apply(q)
		require.Equal(t, "a.json changed, b.json deleted, new.json created", kinds(answer))
		require.Equal(t, []string{hashOf("{ }\n"), hashOf("1")}, []string{answer.Documents[0].Hash, answer.Documents[0].Was})
		require.Equal(t, map[string]string{"a.json": "{ }\n", "c.json": "1", "new.json": "2"}, k.files(""))
		change := k.log("a").Changes[0]
		require.Equal(t, answer.Revision, change.Revision)
		require.EqualValues(t, 3, change.Count)
		require.Equal(t, []string{"ann", "why"}, []string{change.Author, change.Comment})

		q.Documents[0].Base, q.Documents[1].Base = "", ""
		answer = k.apply(q)
		require.Equal(t, &history.ChangeAnswer{Documents: answer.Documents}, answer, "there is nothing to do")
		require.Empty(t, answer.Documents)
	})
}

func TestApplyThatIsRefusedChangesNothing(t *testing.T) {
	each(t, map[string]string{"a.json": "1", "b.json": "1"}, func(t *testing.T, k *kit) {
		before := k.files("")
		for name, c := range map[string]struct {
			ask  history.ApplyAsk
			code codes.Code
			text string
		}{
			"conflict":     {history.ApplyAsk{Documents: []history.Wanted{{Name: "b.json", Text: "2"}, {Name: "a.json", Text: "2", Base: hashOf("0")}}}, codes.Conflict, "a.json: it was to replace"},
			"no JSON":      {history.ApplyAsk{Documents: []history.Wanted{{Name: "b.json", Text: "2"}, {Name: "a.json", Text: "{"}, {Name: "c.json"}}}, codes.BadJSON, "2 of 3 documents"},
			"a name":       {history.ApplyAsk{Documents: []history.Wanted{{Name: "../a.json", Text: "2"}}}, codes.BadName, "../a.json"},
			"base":         {history.ApplyAsk{Documents: []history.Wanted{{Name: "a.json", Text: "2", Base: "abc"}}}, codes.BadRequest, "SHA-256"},
			"two things":   {history.ApplyAsk{Documents: []history.Wanted{{Name: "a.json", Text: "2", Delete: true}}}, codes.BadRequest, "a text, or is deleted"},
			"a piece":      {history.ApplyAsk{Documents: []history.Wanted{{Name: "a.json", Text: "2", Offset: 1}}}, codes.BadRequest, "stage"},
			"not staged":   {history.ApplyAsk{Said: history.Said{Token: "x"}, Staged: 1}, codes.NotFound, "nothing is staged"},
			"a long token": {history.ApplyAsk{Said: history.Said{Token: strings.Repeat("x", 200)}}, codes.TooLarge, "token"},
		} {
			_, err := k.Apply(k.ctx, nil, &c.ask)
			require.Equal(t, c.code, codes.Of(err), "%s: %v", name, err)
			require.ErrorContains(t, err, c.text)
			require.Equal(t, before, k.files(""))
		}
		whole := history.ApplyAsk{Whole: true, Documents: []history.Wanted{{Name: "a.json", Text: "2"}, {Name: "b.json", Keep: true}}}
		k.write("late.json", "1")
		before = k.files("")
		_, err := k.Apply(k.ctx, nil, &whole)
		k.refused(err, codes.Conflict, "late.json: ")
		require.Equal(t, before, k.files(""))
		whole.Documents = append(whole.Documents, history.Wanted{Name: "late.json", Delete: true})
		require.Equal(t, "a.json changed, late.json deleted", kinds(k.apply(whole)))

		answer := k.apply(history.ApplyAsk{DryRun: true, Documents: []history.Wanted{{Name: "a.json", Text: "2", Base: hashOf("0")}, {Name: "b.json", Text: "{"}}})
		require.Empty(t, answer.Documents)
		require.Len(t, answer.Refused, 2)
		require.EqualValues(t, codes.Conflict, answer.Refused[0].Code)
		require.EqualValues(t, codes.BadJSON, answer.Refused[1].Code)
		require.Equal(t, "b.json", answer.Refused[1].Name)
	})
}

func TestADryRunTellsWhoWouldBeTold(t *testing.T) {
	each(t, map[string]string{"base.json": "{}", "app.json": "{}", "other.json": "{}", "_meta.json": `{"conf_inherit":{"app.json":"base.json"}}`}, func(t *testing.T, k *kit) {
		for _, name := range []string{"app", "other"} {
			c, err := client.Dial(k.ctx, client.Config{Addrs: []string{k.server.Address()}, Name: name})
			require.NoError(t, err)
			defer func() { require.NoError(t, c.Close()) }()
			_, err = c.Watch(k.ctx, client.Query{Name: name, Merged: true}, func(*client.Document) {})
			require.NoError(t, err)
		}
		answer := k.apply(history.ApplyAsk{DryRun: true, Documents: []history.Wanted{{Name: "base.json", Text: `{"n":1}`}}})
		if _, far := k.asked.(wire); far {
			require.EqualValues(t, 1, answer.Told)
			require.Equal(t, "app", answer.Programs[0].Name)
			require.Equal(t, []string{"app.json"}, answer.Programs[0].Files)
		}
	})
}

func TestALargeChangeIsStaged(t *testing.T) {
	each(t, map[string]string{"a.json": "1", "b.json": "1"}, func(t *testing.T, k *kit) {
		long := `"` + strings.Repeat("é", 300_000) + `"`
		parts := []history.StageAsk{
			{Token: "t", Documents: []history.Wanted{{Name: "long.json", Text: long[:200_001]}, {Name: "b.json", Delete: true, Base: hashOf("1")}}},
			{Token: "t", Documents: []history.Wanted{{Name: "long.json", Text: long[200_001:400_001], Offset: 200_001}}},
			{Token: "t", Documents: []history.Wanted{{Name: "long.json", Text: long[400_001:], Offset: 400_001}}},
		}
		for i, c := range []struct {
			part int
			want int64
			code codes.Code
		}{{1, 0, codes.BadRequest}, {0, 2, 0}, {2, 0, codes.BadRequest}, {0, 2, 0}, {1, 2, 0}, {1, 2, 0}, {2, 2, 0}} {
			answer, err := k.Stage(k.ctx, nil, &parts[c.part])
			require.Equal(t, c.code, codes.Of(err), "%d: %v", i, err)
			if err == nil {
				require.Equal(t, c.want, answer.Documents)
			}
		}
		q := history.ApplyAsk{Said: history.Said{Token: "t"}, Staged: 3, Documents: []history.Wanted{{Name: "a.json", Text: "2"}}}
		_, err := k.Apply(k.ctx, nil, &q)
		require.Equal(t, codes.BadRequest, codes.Of(err))
		require.ErrorContains(t, err, "2 documents are staged and not 3")
		q.Staged = 2
		q.DryRun = true
		require.Equal(t, "a.json changed, b.json deleted, long.json created", kinds(k.apply(q)))
		q.DryRun = false
		first := k.apply(q)
		require.Equal(t, "a.json changed, b.json deleted, long.json created", kinds(first))
		require.Equal(t, map[string]string{"a.json": "2", "long.json": long}, k.files(""))

		// The stage has been forgotten, but the log knows the change.
		again := k.apply(q)
		require.True(t, again.Replayed)
		again.Replayed = false
		require.Equal(t, first, again)
		_, err = k.Stage(k.ctx, nil, &history.StageAsk{Token: strings.Repeat("t", 200), Documents: []history.Wanted{{Name: "a.json"}}})
		require.Equal(t, codes.BadRequest, codes.Of(err))
	})
}

func TestRollbackOfADocument(t *testing.T) {
	each(t, nil, func(t *testing.T, k *kit) {
		k.write("a.json", "{ \"n\" : 1 }\r\n")
		first := k.log("a").Changes[0].Revision
		k.write("a.json", `{"n":2}`)
		k.write("a.json", "-")
		deleted := k.log("a").Changes[0].Revision

		answer := k.rollback(history.RollbackAsk{Name: "a"})
		require.Equal(t, "a.json created", kinds(answer), "undeleted")
		require.Equal(t, `{"n":2}`, k.files("")["a.json"])
		change := k.log("a").Changes[0]
		require.Equal(t, "rollback", change.Origin)
		require.Contains(t, change.Comment, "as at revision ")

		dry := k.rollback(history.RollbackAsk{Name: "a.json", Rev: fmt.Sprint(first), DryRun: true})
		require.Equal(t, "a.json changed", kinds(dry))
		require.Equal(t, `{"n":2}`, k.files("")["a.json"])
		k.rollback(history.RollbackAsk{Name: fmt.Sprintf("a@%d", first), Said: history.Said{Comment: "it was better"}})
		require.Equal(t, "{ \"n\" : 1 }\r\n", k.files("")["a.json"], "byte for byte")
		require.Equal(t, "it was better", k.log("a").Changes[0].Comment)
		require.Equal(t, "a.json deleted", kinds(k.rollback(history.RollbackAsk{Name: "a", Rev: fmt.Sprint(deleted)})))
		require.Zero(t, k.rollback(history.RollbackAsk{Name: "a", Rev: fmt.Sprint(deleted)}).Count)

		k.write("late.json", "1")
		for _, c := range []struct {
			ask  history.RollbackAsk
			code codes.Code
		}{
			{history.RollbackAsk{}, codes.BadRequest}, {history.RollbackAsk{All: true}, codes.BadRequest},
			{history.RollbackAsk{All: true, Name: "a", Rev: "1"}, codes.BadRequest}, {history.RollbackAsk{Name: "none"}, codes.NotFound},
			{history.RollbackAsk{Name: "a", Rev: "999999999"}, codes.FutureRevision}, {history.RollbackAsk{Name: "a", Rev: "x"}, codes.BadRequest},
			{history.RollbackAsk{Name: "late", Rev: fmt.Sprint(first)}, codes.NotFound},
		} {
			_, err := k.Rollback(k.ctx, nil, &c.ask)
			require.Equal(t, c.code, codes.Of(err), "%+v: %v", c.ask, err)
		}
	})
}

// What a rollback or a pruning changes follows from what there is, which is something else when it is
// asked for again.
func TestAChangeThatIsWorkedOutIsMadeOncePerToken(t *testing.T) {
	each(t, map[string]string{"other.json": "1"}, func(t *testing.T, k *kit) {
		for i := range 4 {
			k.write("a.json", fmt.Sprint(i))
		}
		token := func(text string) history.Said { return history.Said{Token: text} }
		rollback := func(q history.RollbackAsk) (*history.ChangeAnswer, error) { return k.Rollback(k.ctx, nil, &q) }
		apply := func(q history.ApplyAsk) (*history.ChangeAnswer, error) { return k.Apply(k.ctx, nil, &q) }
		one := []history.Wanted{{Name: "a.json", Text: "5"}}
		for _, ask := range []func(token history.Said) (*history.ChangeAnswer, error){
			func(s history.Said) (*history.ChangeAnswer, error) {
				return rollback(history.RollbackAsk{Name: "a", Rev: "~1", Said: s})
			},
			func(s history.Said) (*history.ChangeAnswer, error) {
				return rollback(history.RollbackAsk{Name: "a", Said: s})
			},
			func(s history.Said) (*history.ChangeAnswer, error) {
				return rollback(history.RollbackAsk{All: true, Rev: "~1", Said: s})
			},
			func(s history.Said) (*history.ChangeAnswer, error) {
				return apply(history.ApplyAsk{Documents: one, Prune: true, Said: s})
			},
		} {
			said := token(fmt.Sprint(k.log("").Changes[0].Revision))
			made, err := ask(said)
			require.NoError(t, err)
			require.Positive(t, made.Count)
			require.False(t, made.Replayed)
			again, err := ask(said)
			require.NoError(t, err)
			require.True(t, again.Replayed)
			require.Equal(t, []any{made.Revision, made.Count, made.Documents}, []any{again.Revision, again.Count, again.Documents})
			require.Equal(t, made.Revision, k.log("").Changes[0].Revision)
			for _, other := range []history.ApplyAsk{{Documents: one}, {Prune: true, Documents: []history.Wanted{{Name: "a.json", Text: "6"}}}} {
				other.Said = said
				_, err = apply(other)
				k.refused(err, codes.TokenReused, "was used for another change")
			}
			_, err = rollback(history.RollbackAsk{Name: "a", Rev: "~3", Said: said})
			k.refused(err, codes.TokenReused, "was used for another change")
		}
	})
}

func TestRollbackOfAllDocuments(t *testing.T) {
	each(t, map[string]string{"a.json": "1", "gone.json": "1", "same.json": "1"}, func(t *testing.T, k *kit) {
		k.write("a.json", "2")
		then, was := fmt.Sprint(k.log("").Changes[0].Revision), k.files("")
		k.write("a.json", "3")
		k.write("gone.json", "-")
		k.write("new.json", "3")
		k.write("same.json", "3")
		k.write("same.json", "1")
		now := k.files("")
		dry := k.rollback(history.RollbackAsk{All: true, Rev: then, DryRun: true})
		require.Equal(t, "a.json changed, gone.json created, new.json deleted", kinds(dry))
		require.Equal(t, now, k.files(""))
		answer := k.rollback(history.RollbackAsk{All: true, Name: then})
		require.Equal(t, "a.json changed, gone.json created, new.json deleted", kinds(answer))
		require.Equal(t, was, k.files(""))
		require.Equal(t, now, k.files("~1"), "what was before can be had again")
		require.EqualValues(t, 3, k.log("").Changes[0].Count)
	})
}

// overtaken are documents of which another one changes just before any change.
type overtaken struct {
	*confstore.Store
	other func()
}

func (o overtaken) Change(req change.Request, done func(change.Result, error)) error {
	o.other()
	return o.Store.Change(req, done)
}

// What PROTOCOL.md and the OpenAPI document list of refusals is what is answered.
func TestRefusalsOfChangesAreThoseListed(t *testing.T) {
	k := near(t, map[string]string{"a.json": `1`})
	k.write("a.json", `2`)
	others := 0
	raced := history.Open(k.server.State.(kv.Archive), history.Config{Documents: overtaken{k.server.Store, func() {
		others++
		k.write("other.json", strconv.Itoa(others))
	}}})
	taken := history.Said{Token: "taken"}
	k.apply(history.ApplyAsk{Said: taken, Documents: []history.Wanted{{Name: "b.json", Text: `1`}}})
	rollback := func(h asked, q history.RollbackAsk) error {
		_, err := h.Rollback(k.ctx, nil, &q)
		return err
	}
	apply := func(h asked, q history.ApplyAsk) error {
		q.Documents = []history.Wanted{{Name: "a.json", Text: `3`}}
		_, err := h.Apply(k.ctx, nil, &q)
		return err
	}
	met := map[string][]error{
		"rollback": {rollback(raced, history.RollbackAsk{All: true, Rev: "1"}), rollback(k, history.RollbackAsk{Name: "a", Said: taken})},
		"apply":    {apply(raced, history.ApplyAsk{Prune: true}), apply(k, history.ApplyAsk{Said: taken})},
	}
	for _, o := range history.Operations {
		require.Len(t, met[o.Name], len(o.Refusals), o.Name)
		for i, r := range o.Refusals {
			require.ErrorIs(t, met[o.Name][i], r.Code, o.Name)
		}
	}
	require.Equal(t, "2", k.files("")["a.json"])
}

// TestZerosAreNotNone: 64 zeros have the form of a SHA-256, and no file has it.
func TestZerosAreNotNone(t *testing.T) {
	zeros := strings.Repeat("0", 64)
	each(t, map[string]string{"a.json": "1"}, func(t *testing.T, k *kit) {
		for _, w := range []history.Wanted{
			{Name: "new.json", Text: "2", Base: zeros}, {Name: "new.json", Delete: true, Base: zeros}, {Name: "new.json", Keep: true, Base: zeros}, {Name: "a.json", Text: "2", Base: zeros},
		} {
			for _, dry := range []bool{true, false} {
				_, err := k.Apply(k.ctx, nil, &history.ApplyAsk{Documents: []history.Wanted{w, {Name: "b.json", Text: "1"}}, DryRun: dry})
				k.refused(err, codes.Conflict, w.Name+": base is 64 zeros")
			}
			_, err := k.Stage(k.ctx, nil, &history.StageAsk{Token: "t", Documents: []history.Wanted{w}})
			k.refused(err, codes.Conflict, w.Name+": base is 64 zeros")
		}
		require.Equal(t, map[string]string{"a.json": "1"}, k.files(""))
	})
}
