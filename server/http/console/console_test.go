package console

import (
	"bytes"
	"compress/gzip"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// matches are what the first group of pattern finds in text, each once, sorted.
func matches(pattern, text string) []string {
	var found []string
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		found = append(found, m[1])
	}
	slices.Sort(found)
	return slices.Compact(found)
}

func text(t *testing.T, name string) string {
	t.Helper()
	a := assets()[name]
	require.NotNil(t, a, name)
	return string(a.text)
}

// scripts is the text of all modules.
func scripts(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for name := range assets() {
		if path.Ext(name) == ".js" {
			all[name] = text(t, name)
		}
	}
	require.NotEmpty(t, all)
	return all
}

func get(name string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, "/console/"+name, nil)
	for _, line := range header {
		key, value, _ := strings.Cut(line, ": ")
		r.Header.Add(key, value)
	}
	w := httptest.NewRecorder()
	if !Serve(w, r, name) {
		w.Code = http.StatusNotFound
	}
	return w
}

func TestServe(t *testing.T) {
	t.Run("the_page_is_the_empty_name", func(t *testing.T) {
		require.Equal(t, text(t, "index.html"), get("").Body.String())
	})
	t.Run("every_reply_forbids_what_is_inline_or_from_elsewhere", func(t *testing.T) {
		for name, a := range assets() {
			w := get(name)
			require.Equal(t, http.StatusOK, w.Code)
			require.NotEmpty(t, a.kind, name)
			require.Equal(t, a.kind, w.Header().Get("Content-Type"))
			require.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"))
			policy := w.Header().Get("Content-Security-Policy")
			require.Contains(t, policy, "default-src 'none'")
			require.NotContains(t, policy, "unsafe")
			require.NotContains(t, policy, "*")
		}
	})
	t.Run("packed_for_who_takes_it", func(t *testing.T) {
		for _, row := range []struct {
			accept string
			packed bool
		}{{"gzip, deflate, br", true}, {"br;q=1, gzip;q=0.5", true}, {"gzip;q=0", false}, {"identity", false}, {"", false}} {
			w := get("app.js", "Accept-Encoding: "+row.accept)
			require.Equal(t, row.packed, w.Header().Get("Content-Encoding") == "gzip", row.accept)
			body := w.Body.Bytes()
			if row.packed {
				r, err := gzip.NewReader(bytes.NewReader(body))
				require.NoError(t, err)
				body, err = io.ReadAll(r)
				require.NoError(t, err)
			}
			require.Equal(t, text(t, "app.js"), string(body))
		}
	})
	t.Run("not_sent_again_while_it_is_the_same", func(t *testing.T) {
		tag := get("app.js").Header().Get("ETag")
		w := get("app.js", "If-None-Match: "+tag)
		require.Equal(t, http.StatusNotModified, w.Code)
		require.Empty(t, w.Body.String())
		require.Equal(t, http.StatusOK, get("app.js", `If-None-Match: "other"`).Code)
	})
	t.Run("nothing_else_is_there", func(t *testing.T) {
		for _, name := range []string{"assets/app.js", "../console.go", "none.js", ".", "/", "console_test.go"} {
			require.Equal(t, http.StatusNotFound, get(name).Code, name)
		}
	})
}

// TestFirstView holds the weight of everything that the page loads before it shows
// something, which is all of it.
func TestFirstView(t *testing.T) {
	sum := 0
	for _, a := range assets() {
		sum += len(a.packed)
	}
	t.Logf("the first view is %d bytes, packed", sum)
	require.Less(t, sum, 200_000)
}

func TestPageNamesAllModules(t *testing.T) {
	page := text(t, "index.html")
	modules := slices.Sorted(maps.Keys(scripts(t)))
	require.Equal(t, modules, matches(`(?:href|src)="([^"]+\.js)"`, page), "modules that are not named are found late, one after the other")
	for name, script := range scripts(t) {
		for _, imported := range matches(`from "\./([^"]+)"`, script) {
			require.Contains(t, modules, imported, name)
		}
	}
	for _, used := range matches(`(?:href|src)="([^"]+)"`, page) {
		require.Contains(t, assets(), used)
	}
}

// dictionary are the texts of a language by name; of pairs both, with a blank
// between.
func dictionary(t *testing.T, name string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for line := range strings.Lines(text(t, name)) {
		if m := regexp.MustCompile(`^  "([^"]+)": (.+),$`).FindStringSubmatch(strings.TrimRight(line, "\n")); m != nil {
			require.NotContains(t, all, m[1], "twice in %s", name)
			all[m[1]] = m[2]
		}
	}
	require.NotEmpty(t, all)
	return all
}

// serverStrings are the texts in the server's sources.
func serverStrings(t *testing.T) (list []string) {
	t.Helper()
	root := filepath.Join("..", "..", "..")
	for _, dir := range []string{"access", "codes", "confstore", "internal", "kv", "kvstore", "meta", "models", "op", "player", "server"} {
		require.NoError(t, filepath.WalkDir(filepath.Join(root, dir), func(name string, _ fs.DirEntry, err error) error {
			if err != nil || path.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
					text, err := strconv.Unquote(literal.Value)
					require.NoError(t, err, name)
					list = append(list, text)
				}
				return true
			})
			return nil
		}))
	}
	return list
}
