package confcenter_test

import (
	"go/ast"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
)

// translations are the documents that exist in English and in Chinese.
func translations(t *testing.T) map[string]string {
	t.Helper()
	pairs := map[string]string{"README.md": "README.zh-CN.md"}
	english, err := filepath.Glob("docs/*.md")
	require.NoError(t, err)
	chinese, err := filepath.Glob("docs/zh/*.md")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(english), 7)
	for _, file := range english {
		pairs[file] = "docs/zh/" + path.Base(file)
	}
	require.Subset(t, slices.Collect(maps.Values(pairs)), chinese, "a page exists in Chinese only")
	return pairs
}

func readText(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err, "each document exists in both languages")
	return string(text)
}

var (
	codeBlock   = regexp.MustCompile("(?sm)^```(\\w*\n.*?)^```$")
	codeComment = regexp.MustCompile(`(?m) *(#|//) .*$`)
	codeSpan    = regexp.MustCompile("`[^`\n]+`")
	heading     = regexp.MustCompile(`(?m)^(#+) (.*)$`)
	tableRow    = regexp.MustCompile(`(?m)^\|`)
	listItem    = regexp.MustCompile(`(?m)^- `)
	metricName  = regexp.MustCompile(`confcenter_[a-z0-9]+_[a-z0-9_]+[a-z0-9]`)
	link        = regexp.MustCompile(`\]\(([^)\s]+)\)`)
)

// shape is what a document has in common with its translation.
type shape struct {
	Blocks      []string
	Levels      []string
	Rows, Items int
	Spans       []string
}

func shapeOf(text string) shape {
	var s shape
	for _, found := range codeBlock.FindAllStringSubmatch(text, -1) {
		s.Blocks = append(s.Blocks, codeComment.ReplaceAllString(found[1], ""))
	}
	prose := codeBlock.ReplaceAllString(text, "")
	for _, found := range heading.FindAllStringSubmatch(prose, -1) {
		s.Levels = append(s.Levels, found[1])
	}
	s.Rows = len(tableRow.FindAllString(prose, -1))
	s.Items = len(listItem.FindAllString(prose, -1))
	s.Spans = codeSpan.FindAllString(prose, -1)
	slices.Sort(s.Spans)
	s.Spans = slices.Compact(s.Spans)
	return s
}

func TestDocumentsAreTheSameInBothLanguages(t *testing.T) {
	for english, chinese := range translations(t) {
		require.Equal(t, shapeOf(readText(t, english)), shapeOf(readText(t, chinese)), "%s and %s", english, chinese)
	}
}

// anchor is what GitHub makes of a heading.
func anchor(title string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, title)
}

func anchors(text string) []string {
	var all []string
	for _, found := range heading.FindAllStringSubmatch(codeBlock.ReplaceAllString(text, ""), -1) {
		all = append(all, anchor(found[2]))
	}
	return all
}

func TestLinksOfDocumentsLeadSomewhere(t *testing.T) {
	links, sections := 0, map[string][]string{}
	require.NoError(t, filepath.WalkDir(".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(file, ".md") {
			return err
		}
		for _, found := range link.FindAllStringSubmatch(codeBlock.ReplaceAllString(readText(t, file), ""), -1) {
			target, section, _ := strings.Cut(found[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			links++
			page := file
			if target != "" {
				page = path.Join(path.Dir(file), target)
			}
			_, err := os.Stat(page)
			require.NoError(t, err, "%s: (%s)", file, found[1])
			if section == "" {
				continue
			}
			if sections[page] == nil {
				sections[page] = anchors(readText(t, page))
			}
			require.Contains(t, sections[page], section, "%s: (%s)", file, found[1])
		}
		return nil
	}))
	require.Greater(t, links, 100)
}

func TestReadmeIsShortAndLeadsToEveryPage(t *testing.T) {
	for english, chinese := range translations(t) {
		for readme, page := range map[string]string{"README.md": english, "README.zh-CN.md": chinese} {
			text := readText(t, readme)
			require.LessOrEqual(t, strings.Count(text, "\n"), 200, "%s: the rest belongs into docs", readme)
			for _, section := range anchors(text)[2:] {
				require.Contains(t, text, "(#"+section+")", "the contents of %s", readme)
			}
			if page != readme {
				require.Contains(t, text, "("+page, "%s does not mention the page", readme)
			}
		}
	}
}

// A reader who pastes a query wants a metric that exists.
func TestMetricsOfDocumentsExist(t *testing.T) {
	known, found := readText(t, "server/http/testdata/metrics.txt"), 0
	for english := range translations(t) {
		for _, span := range codeSpan.FindAllString(readText(t, english), -1) {
			for _, name := range metricName.FindAllString(span, -1) {
				found++
				require.Contains(t, known, strings.TrimSuffix(name, "_bucket"), english)
			}
		}
	}
	require.GreaterOrEqual(t, found, 4)
}

// Who decides by SECURITY.md what to rely on finds what it names.
func TestSecurityNamesWhatExists(t *testing.T) {
	text, guide, metrics := readText(t, "SECURITY.md"), readText(t, "docs/operator.md"), readText(t, "server/http/testdata/metrics.txt")
	counted := map[string]int{}
	for _, span := range codeSpan.FindAllString(text, -1) {
		switch name := strings.Trim(span, "`"); {
		case strings.HasPrefix(name, "--"), strings.HasPrefix(name, "/"):
			counted["flags and paths of the server"]++
			require.Contains(t, guide, span)
		case metricName.MatchString(name):
			counted["metrics"]++
			require.Contains(t, metrics, name)
		case strings.Contains(name, "/"):
			counted["packages"]++
			tests, err := filepath.Glob(name + "/*_test.go")
			require.NoError(t, err)
			require.NotEmpty(t, tests, "there are no tests in %s", name)
		}
	}
	require.Len(t, counted, 3, "%v", counted)
	for _, section := range anchors(text)[1:] {
		require.Contains(t, text, "(#"+section+")", "the contents")
	}
	for _, readme := range []string{"README.md", "README.zh-CN.md"} {
		require.Contains(t, readText(t, readme), "(SECURITY.md)", readme)
	}
}

// A map that shows rooms which are gone, or leaves one out, misleads a newcomer.
func TestArchitectureDrawsTheTree(t *testing.T) {
	prose := codeBlock.ReplaceAllString(readText(t, "ARCHITECTURE.md"), "")
	spans := codeSpan.FindAllString(prose, -1)
	paths := 0
	for _, span := range spans {
		if name := strings.Trim(span, "`"); strings.Contains(name, "/") && !strings.ContainsAny(name, " *…") {
			paths++
			_, err := os.Stat(name)
			require.NoError(t, err)
		}
	}
	require.Greater(t, paths, 50)
	for dir := range mayImport {
		if dir != "." {
			require.Contains(t, spans, "`"+dir+"`", "the package is not in ARCHITECTURE.md")
		}
	}
}

// An engineer who adds an operation is promised that so many files are all: those of the spike that does so.
func TestAddingAnOperationIsShort(t *testing.T) {
	_, section, found := strings.Cut(readText(t, "ARCHITECTURE.md"), "\n## Adding a key-value operation\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	var files, written []string
	for _, row := range strings.Split(section, "\n") {
		if cells := strings.Split(row, "|"); len(cells) > 2 {
			for _, span := range codeSpan.FindAllString(cells[1], -1) {
				files = append(files, strings.Trim(span, "`"))
			}
		}
	}
	require.Len(t, files, 5)
	for _, found := range regexp.MustCompile(`(?m)^\+\+\+ b/(.+)$`).FindAllStringSubmatch(readText(t, "testdata/spikes/kv-operation.patch"), -1) {
		written = append(written, found[1])
	}
	require.ElementsMatch(t, written, files)
}

// TestOnlySettingsAreToBeRaised: a text that tells people to raise a limit names the setting.
func TestOnlySettingsAreToBeRaised(t *testing.T) {
	for _, s := range sources(t) {
		ast.Inspect(s.ast, func(node ast.Node) bool {
			text, ok := node.(*ast.BasicLit)
			if ok && !s.test && (strings.Contains(text.Value, "raise the limit") || strings.Contains(text.Value, "raise its limit")) && !strings.Contains(text.Value, "--") {
				t.Errorf("%s:%d: %s: name the setting that raises the limit; if there is none, say so", s.path, s.line(text.Pos()), text.Value)
			}
			return true
		})
	}
}

// A newcomer types what the guide says, so it is what the spike builds and tests.
func TestTheFirstOperationOfTheGuideIsTheSpike(t *testing.T) {
	spike := readText(t, "testdata/spikes/model-operation.patch")
	for _, file := range []string{"docs/contributing.md", "docs/zh/contributing.md"} {
		blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(readText(t, file), -1)
		require.Len(t, blocks, 3, "the method, its row, and a test")
		for _, block := range blocks[:2] {
			added := "+" + strings.ReplaceAll(strings.TrimSuffix(block[1], "\n"), "\n", "\n+")
			require.Contains(t, spike, added, file)
		}
	}
}
