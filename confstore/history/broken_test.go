package history_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/confstore/history"
	"confcenter/confstore/log"
)

// breaks has someone edit a file by hand who is not done yet.
func (k *kit) breaks(name, text string, noticed bool) {
	k.t.Helper()
	k.server.Write(name, text)
	if noticed {
		k.server.Store.Reload()
	}
}

func (k *kit) onDisk(name string) string {
	k.t.Helper()
	text, err := os.ReadFile(filepath.Join(k.server.ConfDir, name))
	require.NoError(k.t, err)
	return string(text)
}

// kept are what broken files held that were replaced.
func (k *kit) kept() (texts []string) {
	k.t.Helper()
	files, err := filepath.Glob(filepath.Join(k.server.DataDir, "aside/*/*"))
	require.NoError(k.t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(k.t, err)
		texts = append(texts, string(text))
	}
	return texts
}

// TestRollbackComparesWithWhatIsOnDisk: what is served may be as it is to be, and the file is not.
func TestRollbackComparesWithWhatIsOnDisk(t *testing.T) {
	for _, noticed := range []bool{false, true} {
		for _, to := range []struct{ rev, want string }{{"", `{"n": 2}`}, {"~0", `{"n": 2}`}, {"~1", `{"n": 1}`}} {
			for _, slip := range []string{`{"n": 3,}`, ""} {
				each(t, map[string]string{"a.json": `{"n": 1}`, "b.json": "1"}, func(t *testing.T, k *kit) {
					k.write("a.json", `{"n": 2}`)
					k.breaks("a.json", slip, noticed)
					would := k.rollback(history.RollbackAsk{Name: "a", Rev: to.rev, DryRun: true})
					require.EqualValues(t, 1, would.Count)
					require.Equal(t, slip, would.Documents[0].Holds)
					require.Contains(t, would.Documents[0].Broken, "a.json was edited by hand and is broken (line 1 column")
					require.Equal(t, hashOf(slip), would.Documents[0].Was)
					require.Equal(t, slip, k.onDisk("a.json"))

					did := k.rollback(history.RollbackAsk{Name: "a", Rev: to.rev})
					require.EqualValues(t, 1, did.Count)
					require.Equal(t, to.want, k.onDisk("a.json"))
					require.Equal(t, to.want, k.files("")["a.json"])
					require.Equal(t, []string{slip}, k.kept())
				})
			}
		}
	}
}

func TestRollbackOfAllMendsWhatIsBroken(t *testing.T) {
	each(t, map[string]string{"a.json": `1`, "b.json": "1", "c.json": "1"}, func(t *testing.T, k *kit) {
		rev := k.log("c.json").Changes[0].Revision
		k.write("b.json", "2")
		k.breaks("a.json", "{", true)
		did := k.rollback(history.RollbackAsk{All: true, Name: "", Rev: fmt.Sprint(rev)})
		require.EqualValues(t, 2, did.Count)
		require.Equal(t, "1", k.onDisk("a.json"))
		require.Equal(t, "1", k.onDisk("b.json"))
	})
}

func TestApplyComparesWithWhatIsOnDisk(t *testing.T) {
	for _, noticed := range []bool{false, true} {
		each(t, map[string]string{"a.json": `{"n": 1}`}, func(t *testing.T, k *kit) {
			k.breaks("a.json", `{"n": 3,}`, noticed)
			for _, w := range []history.Wanted{
				{Base: hashOf(`{"n": 1}`), Text: `{"n": 1}`}, {Base: hashOf(`{"n": 1}`), Keep: true}, {Base: "none", Text: "1"}, {Base: hashOf(`{"n": 1}`), Delete: true},
			} {
				w.Name = "a.json"
				_, err := k.Apply(k.ctx, nil, &history.ApplyAsk{Documents: []history.Wanted{w}})
				k.refused(err, codes.Conflict, "a.json was edited by hand and is broken (line 1 column 9")
				would := k.apply(history.ApplyAsk{Documents: []history.Wanted{w}, DryRun: true})
				require.Equal(t, `{"n": 3,}`, would.Refused[0].Holds)
				require.Equal(t, `{"n": 3,}`, k.onDisk("a.json"))
			}
			did := k.apply(history.ApplyAsk{Documents: []history.Wanted{{Name: "a.json", Text: `{"n": 1}`, Base: hashOf(`{"n": 3,}`)}}})
			require.Equal(t, log.Changed, did.Documents[0].Kind)
			require.Equal(t, `{"n": 1}`, k.onDisk("a.json"))
			k.breaks("a.json", `{"n": 4,}`, noticed)
			require.EqualValues(t, 1, k.apply(history.ApplyAsk{Documents: []history.Wanted{{Name: "a.json", Text: `{"n": 1}`}}}).Count)
			require.ElementsMatch(t, []string{`{"n": 3,}`, `{"n": 4,}`}, k.kept())
		})
	}
}

// TestAFileThatWasNeverGoodIsSaidToBeThere: it is someone's, and not to be made.
func TestAFileThatWasNeverGoodIsSaidToBeThere(t *testing.T) {
	each(t, map[string]string{"_meta.json": `{"conf_inherit":{"app.json":"win"}}`, "app.json": "{}"}, func(t *testing.T, k *kit) {
		k.breaks("win.json", `{"port": }`, false)
		const why = "win.json is broken and was never good: line 1 column 10"
		asks := map[string]func() error{
			"log":      func() error { _, err := k.Log(k.ctx, nil, &history.LogAsk{Name: "win"}); return err },
			"show":     func() error { _, err := k.Show(k.ctx, nil, &history.ShowAsk{Name: "win"}); return err },
			"resolved": func() error { _, err := k.Show(k.ctx, nil, &history.ShowAsk{Name: "win", Resolved: true}); return err },
			"diff":     func() error { _, err := k.Diff(k.ctx, nil, &history.DiffAsk{Name: "win"}); return err },
			"blame":    func() error { _, err := k.Blame(k.ctx, nil, &history.BlameAsk{Name: "win"}); return err },
			"explain":  func() error { _, err := k.Explain(k.ctx, nil, &history.ExplainAsk{Name: "win"}); return err },
			"rollback": func() error { _, err := k.Rollback(k.ctx, nil, &history.RollbackAsk{Name: "win"}); return err },
			"uses":     func() error { _, err := k.Uses(k.ctx, nil, &history.UsesAsk{Name: "win"}); return err },
		}
		for _, op := range history.Operations {
			if _, named := op.Question().FieldByName("Name"); named && op.Name != "preview" { // which says what would come of replacing it
				require.Contains(t, asks, op.Name, "it takes the name of a file")
			}
		}
		for what, ask := range asks {
			err := ask()
			require.ErrorContains(t, err, why, what)
			k.refused(err, codes.NotFound, why)
		}
		answer, err := k.Explain(k.ctx, nil, &history.ExplainAsk{Name: "app"})
		require.NoError(t, err)
		require.Contains(t, answer.Files[0].Why, why, "as a base")
	})
}
