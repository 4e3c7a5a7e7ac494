package console

import (
	"bytes"
	"compress/gzip"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"path"
	"regexp"
	"slices"
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

// TestNothingBecomesHTML finds what would read text as HTML or as a program, and
// what the content security policy would refuse anyway.
func TestNothingBecomesHTML(t *testing.T) {
	forbidden := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|createContextualFragment|DOMParser|srcdoc|\beval\(|new Function|javascript:|setAttribute\("style"|cssText|style: [{"` + "`" + `]|https?://`)
	for name, script := range scripts(t) {
		rest := strings.ReplaceAll(script, "http://www.w3.org/2000/svg", "") // a name, not an address
		require.Empty(t, forbidden.FindAllString(rest, -1), name)
	}
	page := text(t, "index.html")
	require.NotRegexp(t, `(?i)<style|\sstyle=|\son[a-z]+=|https?://`, page)
	for _, inline := range matches(`<script[^>]*>([^<]*)</script>`, page) {
		require.Empty(t, inline)
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

func TestBothLanguagesSayEverything(t *testing.T) {
	english, chinese := dictionary(t, "en.js"), dictionary(t, "zh.js")
	require.Equal(t, slices.Sorted(maps.Keys(english)), slices.Sorted(maps.Keys(chinese)))
	for name, text := range english {
		require.Equal(t, matches(`\{(\w+)\}`, text), matches(`\{(\w+)\}`, chinese[name]), name)
		require.Equal(t, strings.HasPrefix(text, "["), strings.HasPrefix(chinese[name], "["), name)
		if strings.HasPrefix(text, "[") {
			require.Equal(t, 2, strings.Count(text, `"`)/2, name)
		}
	}
	used, families := map[string]bool{}, map[string]bool{}
	for _, script := range scripts(t) {
		for _, name := range matches(`"([a-z]+\.[a-zA-Z]+)"`, script) {
			used[name] = true
		}
		for _, name := range matches(`\bt\("([^"]+)"`, script) {
			used[name] = true
			require.Contains(t, english, name)
		}
		// Names that are made, such as t(`state.${state}`) and the columns of a table.
		for _, family := range matches("`([a-z]+\\.)\\$\\{", script) {
			families[family] = true
		}
	}
	for name := range english {
		family, _, _ := strings.Cut(name, ".")
		require.True(t, used[name] || families[family+"."] || !strings.Contains(name, "."), "nothing says %q", name)
	}
}
