//go:build !race

package console

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

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
	words := map[string]bool{} // the last part of a name that is made is one of the page's, or of the server's
	for _, text := range serverStrings(t) {
		words[text] = true
	}
	for file, script := range scripts(t) {
		if file != "en.js" && file != "zh.js" {
			for _, word := range append(matches(`"(\w+)"`, script), matches(`\b(\w+):`, script)...) {
				words[word] = true
			}
		}
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
		family, last, made := strings.Cut(name, ".")
		switch {
		case used[name], !made:
		case family == "problem", family == "why": // TestTranslatedSentencesAreTheServers
		default:
			require.True(t, families[family+"."], "nothing says %q", name)
			require.True(t, words[last], "nothing says %q", name)
		}
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

// TestTranslatedSentencesAreTheServers finds translations of what no server says any more.
func TestTranslatedSentencesAreTheServers(t *testing.T) {
	says := strings.Join(serverStrings(t), "\n")
	found := 0
	for name, text := range dictionary(t, "en.js") {
		if !strings.HasPrefix(name, "problem.") && !strings.HasPrefix(name, "why.") {
			continue
		}
		found++
		sentence, err := strconv.Unquote(text)
		require.NoError(t, err, name)
		for _, part := range regexp.MustCompile(`\{\w+\}`).Split(sentence, -1) {
			part = strings.Trim(part, `": ;`) // %q has quotes of its own
			require.True(t, strings.Contains(says, part), "no server says %q, as %s does", part, name)
		}
	}
	require.Greater(t, found, 100)
}
