package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/client"
	"confcenter/client/calls"
	"confcenter/clienttest"
	"confcenter/codes"
	"confcenter/confstore/history"
)

// told runs a verb and returns its exit code and what it printed.
func told(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs strings.Builder
	code = run(context.Background(), args, strings.NewReader(""), &out, &errs)
	return code, out.String(), errs.String()
}

// tree is the files below a directory.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(file)
		name, _ := filepath.Rel(dir, file)
		files[name] = string(text)
		return err
	}))
	return files
}

func put(t *testing.T, dir, name, text string) {
	t.Helper()
	file := filepath.Join(dir, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
	require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
}

func TestSessionOfApplyExportAndRollback(t *testing.T) {
	addr, conf := serve(t)
	original := tree(t, conf)
	dir := filepath.Join(t.TempDir(), "exported")

	code, out, errs := told(t, at(addr, "export", dir)...)
	require.Equal(t, exitOK, code, errs)
	require.Regexp(t, fmt.Sprintf(`^%s: %d files as at revision \d+\n$`, regexp.QuoteMeta(dir), len(original)), out)
	require.Equal(t, original, tree(t, dir))
	code, _, errs = told(t, at(addr, "export", dir)...)
	require.Equal(t, exitRefused, code)
	require.Contains(t, errs, "not empty")

	code, out, _ = told(t, at(addr, "apply", dir, "--dry-run")...)
	require.Equal(t, exitOK, code)
	require.Equal(t, "nothing to do\n", out)

	put(t, dir, "app1.json", "{\n  \"key1\": \"changed\"\n}\n")
	put(t, dir, "team/new.json", `{"n": 1}`)
	put(t, dir, ".hidden.json", `{`)
	put(t, dir, "notes.txt", `no JSON`)
	require.NoError(t, os.Remove(filepath.Join(dir, "app2-dev.json")))
	code, out, errs = told(t, at(addr, "apply", dir, "--prune", "--dry-run")...)
	require.Equal(t, exitDiffers, code, errs)
	require.Contains(t, out, "changed  app1.json\ndeleted  app2-dev.json\ncreated  team/new.json\n")
	require.Contains(t, out, "-    \"key1\": \"key1 in app1\",\n")
	require.Contains(t, out, "+  \"key1\": \"changed\"\n")
	require.Contains(t, out, "no connected program uses them")
	require.Equal(t, original, tree(t, conf), "nothing has changed")

	code, out, errs = told(t, at(addr, "apply", dir, "--prune", "-m", "for the sale", "--author", "ann")...)
	require.Equal(t, exitOK, code, errs)
	require.Regexp(t, `(?m)^revision \d+, 3 documents$`, out)
	want := tree(t, dir)
	delete(want, ".hidden.json")
	delete(want, "notes.txt")
	require.Equal(t, want, tree(t, conf))
	code, out, _ = told(t, at(addr, "log", "--limit", "1")...)
	require.Equal(t, exitOK, code)
	require.Regexp(t, `ann +app1.json changed, app2-dev.json deleted, team/new.json created +for the sale`, out)

	code, out, errs = told(t, at(addr, "rollback", "app2-dev")...)
	require.Equal(t, exitOK, code, errs)
	require.Regexp(t, `^created  app2-dev.json\nrevision \d+, 1 documents\n$`, out)
	require.Equal(t, original["app2-dev.json"], tree(t, conf)["app2-dev.json"])

	for _, moment := range [][]string{{"rollback", "--dry-run", "--all", "2001-02-03 04:05"}, {"rollback", "--dry-run", "app1", "2001-02-03 04:05"}, {"rollback", "--dry-run", "app1@2001-02-03 04:05"}, {"export", filepath.Join(t.TempDir(), "none"), "2001-02-03 04:05"}} {
		_, _, errs = told(t, at(addr, moment...)...)
		require.Contains(t, errs, "2001-02-03 04:05 is 2001-02-03T04:05:00Z\n", moment)
	}
	_, _, errs = told(t, at(addr, "rollback", "--dry-run", "app1", "2001-02-03T04:05:00Z")...)
	require.NotContains(t, errs, "04:05:00Z is")

	code, out, errs = told(t, at(addr, "rollback", "--all", "~2", "--dry-run")...)
	require.Equal(t, exitDiffers, code, errs)
	require.Contains(t, out, "changed  app1.json\ndeleted  team/new.json\n")
	require.Contains(t, out, "+    \"key1\": \"key1 in app1\",\n")
	code, _, errs = told(t, at(addr, "rollback", "--all", "~2")...)
	require.Equal(t, exitOK, code, errs)
	require.Equal(t, original, tree(t, conf))
	before := filepath.Join(t.TempDir(), "before")
	code, _, errs = told(t, at(addr, "export", before, "~2")...)
	require.Equal(t, exitOK, code, errs)
	require.Equal(t, want, tree(t, before), "as it was applied")
}

func TestApplyRefusesWhatIsNotADirectoryOfDocuments(t *testing.T) {
	addr, conf := serve(t)
	original := tree(t, conf)
	dir := t.TempDir()
	code, _, errs := told(t, at(addr, "apply", filepath.Join(dir, "none"))...)
	require.Equal(t, exitFailed, code)
	require.Contains(t, errs, "cannot be applied")
	code, _, errs = told(t, at(addr, "apply", dir, "--prune")...)
	require.Equal(t, exitFailed, code, "an empty directory prunes nothing")
	require.Contains(t, errs, "there are no configuration files")

	for i := range 1000 {
		put(t, dir, fmt.Sprintf("%03d.json", i), "{}")
	}
	put(t, dir, "017.json", "{\n  \"a\": tru }")
	put(t, dir, "018.json", "")
	require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(dir, "link.json")))
	code, out, errs := told(t, at(addr, "apply", dir)...)
	require.Equal(t, exitFailed, code)
	require.Contains(t, out, "017.json:2:8: ")
	require.Contains(t, out, "018.json:1:1: ")
	require.Contains(t, out, "link.json: ")
	require.Contains(t, errs, "3 problems; nothing was changed")
	require.Equal(t, original, tree(t, conf))
}

func TestExportWritesNowhereElse(t *testing.T) {
	addr, _ := serve(t)
	base := t.TempDir()
	file := filepath.Join(base, "file")
	put(t, base, "file", "mine")
	require.NoError(t, os.Mkdir(filepath.Join(base, "elsewhere"), 0o755))
	link := filepath.Join(base, "link")
	require.NoError(t, os.Symlink("elsewhere", link))
	for _, dir := range []string{file, link} {
		code, _, errs := told(t, at(addr, "export", dir)...)
		require.Equal(t, exitRefused, code)
		require.Contains(t, errs, "is there, and no directory")
	}
	code, _, _ := told(t, at(addr, "export", filepath.Join(base, "none", "dir"))...)
	require.Equal(t, exitFailed, code)
	code, _, _ = told(t, at(addr, "export", filepath.Join(base, "new"), "tomorrow")...)
	require.Equal(t, exitRefused, code)
	require.Empty(t, tree(t, filepath.Join(base, "elsewhere")))
	entries, err := os.ReadDir(base)
	require.NoError(t, err)
	require.Len(t, entries, 3, "nothing is left beside")
	require.NoError(t, os.Mkdir(filepath.Join(base, "empty"), 0o755))
	code, _, errs := told(t, at(addr, "export", filepath.Join(base, "empty"))...)
	require.Equal(t, exitOK, code, errs)
}

// applyingTo is an apply of files to a server.
func applyingTo(t *testing.T, s *clienttest.Server, ask *history.ApplyAsk, files map[string][]byte) *applying {
	t.Helper()
	c, err := client.Dial(t.Context(), client.Config{Addrs: []string{s.Address()}, Name: "apply", MinBackoff: time.Millisecond})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	ask.Token = "t"
	return &applying{calls: calls.History(c), files: files, ask: ask}
}

// A file that is created while a directory is applied with --prune is a conflict: it is in
// neither, so it would stay.
func TestApplyWithPruneSeesFilesThatAreCreatedMeanwhile(t *testing.T) {
	s := clienttest.Start(t, clienttest.Options{Files: map[string]string{"a.json": "1", "b.json": "1"}})
	p := applyingTo(t, s, &history.ApplyAsk{Prune: true}, map[string][]byte{"a.json": []byte("2")})
	wanted, err := p.wanted(t.Context())
	require.NoError(t, err)
	_, err = p.calls.Apply(t.Context(), &history.ApplyAsk{Documents: []history.Wanted{{Name: "late.json", Text: "1"}}})
	require.NoError(t, err)
	_, err = p.send(t.Context(), wanted)
	require.ErrorIs(t, err, codes.Conflict)
	require.ErrorContains(t, err, "late.json: ")
}

// TestApplyStopsForWhatIsEditedByHand: what is broken on the server is someone's work.
func TestApplyStopsForWhatIsEditedByHand(t *testing.T) {
	addr, conf := serve(t)
	dir := filepath.Join(t.TempDir(), "exported")
	code, _, errs := told(t, at(addr, "export", dir)...)
	require.Equal(t, exitOK, code, errs)
	good := tree(t, conf)["app1.json"]
	const slip = "{\n\"key1\": \"mine\",\n}\n"
	put(t, conf, "app1.json", slip)
	for _, flags := range [][]string{{}, {"--prune"}, {"--dry-run"}, {"--replace", "app2-dev"}} {
		code, out, errs := told(t, at(addr, append([]string{"apply", dir}, flags...)...)...)
		require.Equal(t, exitRefused, code, out)
		require.Contains(t, errs, "app1.json was edited by hand and is broken (line 3 column 1")
		require.Contains(t, out, "-\"key1\": \"mine\",\n", "the file that is there")
		require.Equal(t, slip, tree(t, conf)["app1.json"])
	}
	code, _, errs = told(t, at(addr, "apply", dir, "--replace", "none")...)
	require.Equal(t, exitUsage, code)
	require.Contains(t, errs, "none.json")
	code, out, errs := told(t, at(addr, "apply", dir, "--replace", "app1", "--dry-run")...)
	require.Equal(t, exitDiffers, code, errs)
	require.Contains(t, out, "--- app1.json (broken)\n")
	require.Contains(t, out, "-\"key1\": \"mine\",\n")
	code, out, errs = told(t, at(addr, "rollback", "app1", "--dry-run")...)
	require.Equal(t, exitDiffers, code, errs)
	require.Contains(t, out, "-\"key1\": \"mine\",\n")
	code, _, errs = told(t, at(addr, "apply", dir, "--replace", "app1")...)
	require.Equal(t, exitOK, code, errs)
	require.Equal(t, good, tree(t, conf)["app1.json"])

	put(t, conf, "app1.json", slip)
	code, out, errs = told(t, at(addr, "rollback", "app1")...)
	require.Equal(t, exitOK, code, errs)
	require.Contains(t, out, "changed  app1.json\n")
	require.Equal(t, good, tree(t, conf)["app1.json"])
}

// TestAFileThatWasNeverGoodIsNotToBeMade: it is there, and someone's.
func TestAFileThatWasNeverGoodIsNotToBeMade(t *testing.T) {
	addr, conf := serve(t)
	put(t, conf, "win.json", "{\"port\": }\n")
	require.Eventually(t, func() bool {
		_, _, errs := told(t, at(addr, "ls")...)
		return strings.Contains(errs, "win.json")
	}, time.Minute, 10*time.Millisecond)
	put(t, conf, "win1.json", "{}") // whose name is like it
	put(t, conf, "twice.json", `{"a":1,"a":2}`)
	put(t, conf, "empty.json", "")
	require.Eventually(t, func() bool {
		_, out, errs := told(t, at(addr, "ls")...)
		return strings.Contains(errs, "twice.json") && strings.Contains(errs, "empty.json") && strings.Contains(out, "win1.json")
	}, time.Minute, 10*time.Millisecond)
	for name, why := range map[string]string{"win": "line 1 column 10", "twice": `line 1 column 8: the member "a" stands twice`, "empty": "line 1 column 1"} {
		for _, args := range [][]string{
			{"get"}, {"get", "/port"}, {"get", "--merged"}, {"set", "/port", "2"}, {"show"}, {"show", "--resolved"}, {"log"}, {"diff"}, {"diff", "win1"}, {"blame"}, {"explain"}, {"rollback"}, {"clients"},
		} {
			if name != "win" && args[0] != "clients" && args[0] != "get" {
				continue // it is the same for all that is wrong with a file
			}
			args = slices.Insert(slices.Clone(args), 1, name)
			code, _, errs := told(t, at(addr, args...)...)
			require.Equal(t, exitNotFound, code, args)
			require.Contains(t, errs, name+".json is broken and was never good: "+why, args)
			require.NotContains(t, errs, "make one first")
			require.NotContains(t, errs, "did you mean", args)
		}
		for _, more := range [][]string{{"--merged"}, {"--count=1"}, {"-o", "json"}} { // a watch tells it too, and waits
			code, out, errs := told(t, at(addr, append([]string{"watch", name, "--count", "1"}, more...)...)...)
			require.Equal(t, exitOK, code, errs)
			require.Regexp(t, `(absent: |"broken":")`+name+`\.json is broken and was never good: line 1 column`, out)
		}
	}
	require.Equal(t, "{\"port\": }\n", tree(t, conf)["win.json"])
}

// TestWhatStandsTwiceIsNeitherAppliedNorSet: check says where it is.
func TestWhatStandsTwiceIsNeitherAppliedNorSet(t *testing.T) {
	addr, conf := serve(t)
	dir := t.TempDir()
	put(t, dir, "app1.json", "{\n  \"a\": 1,\n  \"\\u0061\": 2\n}\n")
	for _, args := range [][]string{{"check", dir}, at(addr, "apply", dir)} {
		code, out, _ := told(t, args...)
		require.Equal(t, exitFailed, code, args)
		require.Contains(t, out, "app1.json:3:3: the member \"a\" stands twice in an object", args)
	}
	original := tree(t, conf)
	code, _, errs := told(t, at(addr, "set", "app1", filepath.Join(dir, "app1.json"))...)
	require.NotEqual(t, exitOK, code)
	require.Contains(t, errs, "line 3 column 3: the member \"a\" stands twice")
	require.Equal(t, original, tree(t, conf))
}

// TestApplyStopsForWhatWasChangedOnTheServer: a directory that has not got a change does not undo it.
func TestApplyStopsForWhatWasChangedOnTheServer(t *testing.T) {
	addr, conf := serve(t)
	dir := filepath.Join(t.TempDir(), "exported")
	code, _, errs := told(t, at(addr, "export", dir)...)
	require.Equal(t, exitOK, code, errs)
	apply := func(want int, flags ...string) (stdout, stderr string) {
		t.Helper()
		code, stdout, stderr := told(t, at(addr, append([]string{"apply", dir, "--source", "git"}, flags...)...)...)
		require.Equal(t, want, code, "%s%s", stdout, stderr)
		return stdout, stderr
	}
	console := func(value string) map[string]string {
		t.Helper()
		code, _, errs := told(t, at(addr, "set", "app1", "/key1", value, "--author", "cyd", "-m", "at night")...)
		require.Equal(t, exitOK, code, errs)
		return tree(t, conf)
	}
	out, _ := apply(exitOK)
	require.Equal(t, "nothing to do\n", out, "the first apply only remembers")
	changed := console(`"by cyd"`)
	for _, flags := range [][]string{{}, {"--prune"}, {"--replace", "app2-dev"}} {
		_, errs := apply(exitRefused, flags...)
		require.Regexp(t, `app1.json by revision \d+ of cyd \(at night\)`, errs)
		require.Contains(t, errs, "--replace NAME")
		out, _ := apply(exitDiffers, append(flags, "--dry-run")...)
		require.Regexp(t, `(?m)^would be refused: app1.json was changed by revision \d+ \(cyd, 20.*Z: at night\), and that would be undone$`, out)
		require.Contains(t, out, `-    "key1": "by cyd",`)
		require.Equal(t, changed, tree(t, conf))
	}

	code, text, errs := told(t, at(addr, "show", "app1")...)
	require.Equal(t, exitOK, code, errs)
	put(t, dir, "app1.json", text)
	out, _ = apply(exitOK)
	require.Equal(t, "nothing to do\n", out, "it has come back")
	put(t, dir, "app1.json", strings.Replace(text, "by cyd", "by git", 1))
	apply(exitOK)
	require.Contains(t, tree(t, conf)["app1.json"], "by git")

	console(`"again"`)
	apply(exitDiffers, "--replace", "app1", "--dry-run")
	apply(exitOK, "--replace", "app1")
	require.Contains(t, tree(t, conf)["app1.json"], "by git")
	console(`"once more"`)
	apply(exitOK, "--replace-all")
	require.Contains(t, tree(t, conf)["app1.json"], "by git")
	console(`"last"`)
	code, _, errs = told(t, at(addr, "apply", dir, "--source", "another")...)
	require.Equal(t, exitOK, code, errs)
}
