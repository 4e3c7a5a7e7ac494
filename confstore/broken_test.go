package confstore

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/access"
	"confcenter/codes"
	"confcenter/confstore/change"
	"confcenter/confstore/log"
)

// broken are files that cannot be served, each with a word of the reason.
var brokenFiles = map[string]struct{ text, reason string }{
	"a slip":         {`{"v":1,}`, "line 1 column 8"},
	"half saved":     {`{"v"`, "line 1 column"},
	"nothing yet":    {``, "line 1 column 1"},
	"no UTF-8":       {"{\"v\":\"\xe9\"}", "not UTF-8"},
	"refused":        {`{"v":"bad"}`, "must not be bad"},
	"too large":      {`"` + strings.Repeat("x", 200) + `"`, "larger than the limit of 200 bytes"},
	"asks to seal":   {`{"v":{"$seal":"s"}}`, "to be sealed"},
	"a stranger":     {"\x00\x01", "line 1 column 1"},
	"blanks, a lot":  {strings.Repeat(" ", 100), "line 1 column"},
	"a second value": {`{} {}`, "line 1 column"},
}

func (k *kit) aside(t *testing.T) (kept []string) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(k.cfg.DataDir, asideDir), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil
		}
		text, err := os.ReadFile(path)
		kept = append(kept, string(text))
		require.Contains(t, path, "/a.json/")
		return err
	})
	require.NoError(t, err)
	return kept
}

// eachBroken has a.json served and then broken, noticed or not.
func eachBroken(t *testing.T, test func(t *testing.T, k *kit, text, reason string)) {
	for name, b := range brokenFiles {
		for _, noticed := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				k := newKit(t, nil)
				require.NoError(t, k.Close())
				k.cfg.MaxFileBytes = 200
				k.cfg.Check = func(_ string, _, contents []byte, _ *access.Actor) error {
					if strings.Contains(string(contents), "bad") {
						return codes.Errorf(codes.Forbidden, "it must not be bad")
					}
					return nil
				}
				k.put("a.json", `{"v":1}`)
				k.open()
				k.put("a.json", b.text)
				if noticed {
					k.Reload()
				}
				test(t, k, b.text, b.reason)
			})
		}
	}
}

func TestNoConditionHoldsWhileAFileIsBroken(t *testing.T) {
	served := `{"v":1}`
	eachBroken(t, func(t *testing.T, k *kit, text, reason string) {
		refused := func(err error) {
			t.Helper()
			require.ErrorIs(t, err, codes.Conflict)
			require.ErrorContains(t, err, "a.json was edited by hand and is broken (")
			require.ErrorContains(t, err, reason)
			onDisk, err := os.ReadFile(k.path("a.json"))
			require.NoError(t, err)
			require.Equal(t, text, string(onDisk))
			require.Equal(t, served, k.text("a.json"))
			require.Empty(t, k.aside(t))
		}
		for _, contents := range []string{`{"v":2}`, served, ""} {
			for _, req := range []SetRequest{
				{HasIfMtime: true, IfMtime: k.mtime("a.json")}, {HasIfMtime: true}, {Base: digest(served)}, {Base: digest("")}, {Base: digest(`{"v":2}`)},
				{Base: digest(served), HasIfMtime: true, IfMtime: k.mtime("a.json")},
			} {
				req.Name, req.Exact = "a.json", true
				if contents != "" {
					req.Contents = []byte(contents)
				}
				_, err := k.set(req)
				refused(err)
				if req.Base == nil {
					continue
				}
				for _, check := range []bool{true, false} {
					for _, keep := range []bool{true, false} {
						doc := change.Document{Name: "a.json", Base: req.Base, File: req.Contents, Keep: keep}
						if keep {
							doc.File = nil
						}
						_, err = changeNow(t, k.Store, change.Request{Check: check, Documents: []change.Document{doc, write("b.json", "1")}})
						refused(err)
						require.Nil(t, k.Snapshot().Node("b.json"))
					}
				}
			}
		}
	})
}

func TestABrokenFileIsReplacedByThoseWhoKnowIt(t *testing.T) {
	eachBroken(t, func(t *testing.T, k *kit, text, reason string) {
		base, newer := digest(text), `{"v":2}`
		if text == "" {
			*base = log.DigestOf(nil)
		}
		_, err := k.set(SetRequest{Name: "a.json", Contents: []byte(newer), Exact: true, Base: base, HasIfMtime: true, IfMtime: k.mtime("a.json") - 1})
		require.ErrorIs(t, err, codes.Conflict, "the version counts as well")
		_, err = k.set(SetRequest{Name: "a.json", Contents: []byte(newer), Exact: true, Base: base, HasIfMtime: true, IfMtime: k.mtime("a.json")})
		if strings.HasPrefix(reason, "larger") {
			require.ErrorIs(t, err, codes.Conflict)
			return
		}
		require.NoError(t, err)
		require.Equal(t, newer, k.text("a.json"))
		require.Equal(t, []string{text}, k.aside(t))
	})
}

func TestWhatAWriteWithoutAConditionReplacesIsKept(t *testing.T) {
	eachBroken(t, func(t *testing.T, k *kit, text, reason string) {
		before := k.mtime("a.json")
		for _, contents := range []string{`{"v":1}`, `{"v":2}`, ""} {
			k.put("a.json", text)
			req := SetRequest{Name: "a.json"}
			if contents != "" {
				req.Contents = []byte(contents)
			}
			_, err := k.set(SetRequest{Name: req.Name, Contents: req.Contents, Exact: true})
			if strings.HasPrefix(reason, "larger") {
				require.ErrorIs(t, err, codes.Conflict)
				require.ErrorContains(t, err, "move it away first")
				require.Equal(t, before, k.mtime("a.json"))
				continue
			}
			require.NoError(t, err)
			require.Contains(t, k.aside(t), text)
			if contents == "" {
				require.NoFileExists(t, k.path("a.json"))
				continue
			}
			onDisk, err := os.ReadFile(k.path("a.json"))
			require.NoError(t, err)
			require.Equal(t, contents, string(onDisk))
			k.Reload()
			require.Empty(t, k.Snapshot().Node("a.json").Broken())
		}
	})
}

func TestAFileThatWasNeverGoodIsNoOnesToOverwrite(t *testing.T) {
	k := newKit(t, map[string]string{"a.json": "{"})
	for _, req := range []SetRequest{{HasIfMtime: true}, {Base: digest("")}, {HasIfMtime: true, IfMtime: 5}} {
		req.Name, req.Contents = "a.json", []byte("1")
		_, err := k.set(req)
		require.ErrorIs(t, err, codes.Conflict)
		require.ErrorContains(t, err, "a.json is broken and was never good: line 1 column 2")
	}
	_, err := k.set(SetRequest{Name: "a.json", Contents: []byte("1"), HasIfMtime: true, Base: digest("{")})
	require.NoError(t, err)
	require.Equal(t, []string{"{"}, k.aside(t))
}

// What cannot be kept is not replaced: here, what a link leads out of the directory to.
func TestWhatCannotBeReadIsNotReplaced(t *testing.T) {
	k := newKit(t, map[string]string{"b.json": "1"})
	outside := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(outside, []byte("2"), 0o600))
	require.NoError(t, os.Symlink(outside, k.path("a.json")))
	for _, contents := range [][]byte{[]byte("3"), nil} {
		_, err := k.set(SetRequest{Name: "a.json", Contents: contents})
		require.ErrorIs(t, err, codes.Conflict)
		require.ErrorContains(t, err, "move it away first")
	}
	link, err := os.Readlink(k.path("a.json"))
	require.NoError(t, err)
	require.Equal(t, outside, link)
	require.NoError(t, os.Remove(k.path("a.json")))
	k.mustSet("a.json", "3")
}

func TestABrokenFileStaysIfItCannotBeKept(t *testing.T) {
	k := newKit(t, map[string]string{"a.json": "1"})
	k.put("a.json", "{")
	require.NoError(t, os.WriteFile(filepath.Join(k.cfg.DataDir, asideDir), nil, 0o600)) // where a directory is to be
	_, err := k.set(SetRequest{Name: "a.json", Contents: []byte("2")})
	require.ErrorIs(t, err, codes.Storage)
	onDisk, err := os.ReadFile(k.path("a.json"))
	require.NoError(t, err)
	require.Equal(t, "{", string(onDisk))
	require.Equal(t, "1", k.text("a.json"))
}

// TestABaseThatWasNeverGoodIsNotSaidToBeMissing, nor is a main configuration.
func TestABaseThatWasNeverGoodIsNotSaidToBeMissing(t *testing.T) {
	m := newMemKit(t, map[string]string{
		"_meta.json": `{"conf_inherit":{"a.json":"win.json"},"app_profile":{"default":{"app":"win"}}}`, "a.json": "{}", "win.json": "{",
	})
	said := func() (texts []string) {
		for _, p := range m.Problems() {
			if p.Kind == OfMeta {
				texts = append(texts, p.Text)
			}
		}
		return texts
	}
	never := []string{
		`base "win.json" is broken and was never good: line 1 column 2: text ends too early`,
		`the main configuration "win" of "app" is broken and was never good: line 1 column 2: text ends too early`,
	}
	require.ElementsMatch(t, never, said())
	m.remove("win.json")
	require.ElementsMatch(t, []string{`base "win.json" does not exist`, `the main configuration "win" of "app" does not exist`}, said())
	m.edit("win.json", "{", 2000)
	require.ElementsMatch(t, never, said())
	m.edit("win.json", "{}", 3000)
	require.Empty(t, said())
}
