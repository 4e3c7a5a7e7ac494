package history_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/access/guard/guardtest"
	"confcenter/codes"
	"confcenter/confstore/history"
	"confcenter/op"
)

var inherited = map[string]string{
	"game/a.json": `{"a":1}`, "game/b.json": `{"b":1}`, "base.json": `{"c":"marker"}`, "other.json": `{"o":"marker"}`, "_access/r.json": `{"rules":[]}`,
	"_meta.json": `{"conf_inherit":{"game/b.json":"base.json"}}`,
}

// asker asks one question of each operation, as a caller who may do what rules say.
type asker struct {
	t     *testing.T
	model op.Model
	ctx   context.Context
}

func (k *kit) as(rules ...string) *asker {
	model := op.Model{Name: "history", Operations: history.Operations, Asked: k.asked}
	return &asker{k.t.(*testing.T), model, op.With(k.ctx, guardtest.Caller(k.t, rules...).May())}
}

func (a *asker) ask(name string, question any) (string, error) {
	for i := range a.model.Operations {
		if o := &a.model.Operations[i]; o.Name == name {
			text, err := a.model.Answer(a.ctx, o, nil, question)
			return string(text), err
		}
	}
	require.FailNow(a.t, "there is no operation "+name)
	return "", nil
}

func (a *asker) may(name string, question any) string {
	a.t.Helper()
	text, err := a.ask(name, question)
	require.NoError(a.t, err, name)
	return text
}

func (a *asker) mayNot(name string, question any) {
	a.t.Helper()
	text, err := a.ask(name, question)
	require.Equal(a.t, codes.Forbidden, codes.Of(err), "%s %+v: %s %v", name, question, text, err)
	require.NotContains(a.t, err.Error(), "base.json", "a base that may not be read is not named")
}

func TestEachOperationNeedsTheRightsToTheDocumentsThatItNames(t *testing.T) {
	k := near(t, inherited)
	for _, name := range []string{"game/a.json", "game/b.json", "base.json", "other.json"} {
		k.write(name, `{"n":"marker"}`)
	}
	one := func(text string) []history.Wanted { return []history.Wanted{{Name: "game/a.json", Text: text}} }
	const past = "history config:game/a.json,read config:game/a.json"
	for _, c := range []struct {
		name     string
		question any
		rights   string
	}{
		{"log", &history.LogAsk{Name: "game/a"}, past},
		{"show", &history.ShowAsk{Name: "game/a"}, past},
		{"show", &history.ShowAsk{Name: "game/a@~1", Resolved: true}, past},
		{"diff", &history.DiffAsk{Name: "game/a", Paths: true}, past},
		{"blame", &history.BlameAsk{Name: "game/a.json"}, past},
		{"explain", &history.ExplainAsk{Name: "game/a"}, past},
		{"export", &history.ExportAsk{From: "game/a.json"}, past},
		{"rollback", &history.RollbackAsk{Name: "game/a", DryRun: true}, past + ",write config:game/a.json"},
		{"preview", &history.PreviewAsk{Name: "game/a", Text: `{}`}, "read config:game/a.json,write config:game/a.json"},
		{"apply", &history.ApplyAsk{Documents: one(`{"x":1}`), DryRun: true}, "read config:game/a.json,write config:game/a.json"},
		{"apply", &history.ApplyAsk{Documents: []history.Wanted{{Name: "game/a.json", Delete: true}}, DryRun: true}, "read config:game/a.json,delete config:game/a.json"},
		{"apply", &history.ApplyAsk{Documents: []history.Wanted{{Name: "game/a.json", Keep: true}}, DryRun: true}, "read config:game/a.json"},
	} {
		rights := strings.Split(c.rights, ",")
		k.as(rights...).may(c.name, c.question)
		for i, without := range rights {
			k.as(append([]string{"* config", "* roles", "-" + without}, append(append([]string{}, rights[:i]...), rights[i+1:]...)...)...).mayNot(c.name, c.question)
		}
		k.as("* config:game/b.json", "* config:base.json").mayNot(c.name, c.question)
	}
}

// What a document inherits is read by those who may read where it comes from.
func TestThePastOfBasesNeedsToReadThem(t *testing.T) {
	k := near(t, inherited)
	k.write("game/b.json", `{"b":2}`)
	heir := k.as("* config:game/*")
	for name, question := range map[string]any{
		"blame": &history.BlameAsk{Name: "game/b"}, "explain": &history.ExplainAsk{Name: "game/b"},
		"show": &history.ShowAsk{Name: "game/b", Resolved: true}, "diff": &history.DiffAsk{Name: "game/b", Resolved: true},
	} {
		heir.mayNot(name, question)
		require.Contains(t, k.as("* config:game/*", "read config:base.json").may(name, question), "b")
	}
	require.NotContains(t, heir.may("show", &history.ShowAsk{Name: "game/b"}), "marker")
	require.NotContains(t, heir.may("diff", &history.DiffAsk{Name: "game/b"}), "marker")
}

func TestListsTellOfWhatMayBeReadOnly(t *testing.T) {
	k := near(t, inherited)
	k.write("game/a.json", `{"a":2}`)
	k.write("other.json", `{"o":"marker2"}`)
	k.apply(history.ApplyAsk{Documents: []history.Wanted{{Name: "game/a.json", Text: `{"a":3}`}, {Name: "other.json", Text: `{"o":3}`}}})
	a := k.as("* config:game/*")
	for _, text := range []string{
		a.may("log", &history.LogAsk{}), a.may("log", &history.LogAsk{Name: "game/a"}), a.may("export", &history.ExportAsk{}), a.may("export", &history.ExportAsk{Hashes: true}),
	} {
		require.Contains(t, text, "game/a.json")
		for _, hidden := range []string{"other", "base", "_access", "_meta", "marker", `"count":6`} {
			require.NotContains(t, text, hidden)
		}
	}
}

// How many documents a change touched that one may not read is told by no answer about one that one may.
func TestAChangeTellsOfHiddenDocumentsNotEvenHowMany(t *testing.T) {
	k := near(t, inherited)
	k.apply(history.ApplyAsk{Documents: []history.Wanted{{Name: "game/a.json", Text: `{"a":3}`}, {Name: "other.json", Text: `{"o":3}`}, {Name: "base.json", Text: `{"x":3}`}}})
	for name, question := range map[string]any{
		"log": &history.LogAsk{Name: "game/a"}, "show": &history.ShowAsk{Name: "game/a"}, "diff": &history.DiffAsk{Name: "game/a"},
	} {
		require.Contains(t, k.as("* config", "* roles").may(name, question), `"count":3`, name)
		for _, some := range []string{"* config:game/*", "history config,history roles,read config:game/*", "history config:game/*,read config,read roles", "* config,* roles,-read config:other.json"} {
			text := k.as(strings.Split(some, ",")...).may(name, question)
			require.Contains(t, text, `"count":1`, "%s with %s", name, some)
			require.NotContains(t, text, `"count":3`, "%s with %s", name, some)
		}
	}
}

func TestRolesAreLeftAloneByWhatIsDoneToAllDocuments(t *testing.T) {
	k := near(t, inherited)
	then := k.log("").Changes[0].Revision
	k.write("_access/r.json", `{"rules":[{"who":["*"],"deny":["*"],"what":["*"]}]}`)
	k.write("_access/new.json", `{"rules":[]}`)
	k.write("other.json", `{"o":2}`)
	roles := func() [2]string { f := k.files(""); return [2]string{f["_access/r.json"], f["_access/new.json"]} }
	before := roles()
	all := k.as("* config")
	require.Contains(t, all.may("rollback", &history.RollbackAsk{All: true, Rev: fmt.Sprint(then)}), "other.json")
	require.Equal(t, before, roles())
	keep := []history.Wanted{{Name: "game/a.json", Keep: true}}
	require.Contains(t, all.may("apply", &history.ApplyAsk{Documents: keep, Prune: true}), "other.json")
	require.Equal(t, before, roles())
	require.NotContains(t, all.may("apply", &history.ApplyAsk{Documents: keep, Whole: true, DryRun: true}), "refused")

	// not even by name without the right to grant
	all.mayNot("rollback", &history.RollbackAsk{Name: "_access/r.json"})
	all.mayNot("apply", &history.ApplyAsk{Documents: []history.Wanted{{Name: "_access/new.json", Delete: true}}})
	k.as("* config", "* roles").may("rollback", &history.RollbackAsk{Name: "_access/r.json"})
	require.NotEqual(t, before, roles())

	for _, less := range []string{"write", "read", "delete", "history"} {
		some := k.as("* config", "-"+less+" config:game/a.json")
		some.mayNot("rollback", &history.RollbackAsk{All: true, Rev: fmt.Sprint(then)})
		some.mayNot("apply", &history.ApplyAsk{Documents: []history.Wanted{{Name: "game/b.json", Text: `{}`}}, Prune: true})
		some.mayNot("apply", &history.ApplyAsk{Documents: []history.Wanted{{Name: "game/b.json", Text: `{}`}}, Whole: true})
	}
}
