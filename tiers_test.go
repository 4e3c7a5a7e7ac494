package confcenter_test

import (
	"fmt"
	"go/ast"
	"go/build/constraint"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// tier is a part of the tests that the Makefile runs by a name of its own.
type tier struct {
	target string
	tags   []string // beside those of the machine
	has    func(dir string) bool
	fuzzes bool
	by     string // what `make -n` of the target has in it
}

func inIntegration(dir string) bool { return within(dir, "integration") }

var tiers = []tier{
	{target: "check", has: func(dir string) bool { return !inIntegration(dir) }, by: "go test -p 4 -parallel 8 ./..."},
	{target: "test", has: inIntegration, by: "go test -C integration -shuffle=on -count 1 -timeout 15m ./..."},
	{target: "soak-race", tags: []string{"soak", "race"}, has: func(dir string) bool { return dir != "integration/siege" }, by: "-tags=soak ./..."},
	{target: "soak-kills", tags: []string{"soak"}, has: func(dir string) bool { return dir == "integration/kills" }, by: "./kills"},
	{target: "soak-kills", tags: []string{"soak"}, has: func(dir string) bool { return dir == "kvstore/disk" }, by: "./kvstore/disk"},
	{target: "soak-siege", tags: []string{"soak"}, has: func(dir string) bool { return dir == "integration/siege" }, by: "./siege"},
	{target: "soak-fuzz", has: func(string) bool { return true }, fuzzes: true, by: "scripts/fuzz.sh"},
}

// constraintOf is the build constraint of a file; nil: it has none.
func constraintOf(t *testing.T, s *source) constraint.Expr {
	t.Helper()
	for line := range strings.Lines(string(s.text)) {
		if constraint.IsGoBuild(line) {
			expr, err := constraint.Parse(line)
			require.NoError(t, err, s.path)
			return expr
		}
		if strings.HasPrefix(line, "package ") {
			break
		}
	}
	return nil
}

// testsOf are the names of the functions of a file that go test runs, or fuzzes.
func testsOf(s *source) (names []string) {
	for _, declaration := range s.ast.Decls {
		f, ok := declaration.(*ast.FuncDecl)
		if !ok || f.Recv != nil || f.Name.Name == "TestMain" {
			continue
		}
		for _, kind := range []string{"Test", "Fuzz", "Example"} {
			if strings.HasPrefix(f.Name.Name, kind) {
				names = append(names, f.Name.Name)
			}
		}
	}
	return names
}

// A test that no target runs holds nothing. With -v, this lists which targets run which.
func TestEveryTestIsInATier(t *testing.T) {
	for _, one := range tiers {
		out, err := exec.Command("make", "-n", one.target, "TAGS=").CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.True(t, strings.Contains(string(out), one.by), "make %s does not run %s", one.target, one.by)
		for _, flag := range []string{" -run", " -skip"} {
			require.False(t, strings.Contains(string(out), flag), "make %s chooses tests by their names", one.target)
		}
	}
	counts := map[string]int{}
	all := 0
	for _, s := range sources(t) {
		if !s.test {
			continue
		}
		expr := constraintOf(t, s)
		for _, name := range testsOf(s) {
			all++
			in := map[string]bool{}
			for _, one := range tiers {
				built := expr == nil || expr.Eval(func(tag string) bool { return tag == "linux" || tag == "unix" || slices.Contains(one.tags, tag) })
				if built && one.has(s.dir) && (!one.fuzzes || strings.HasPrefix(name, "Fuzz")) {
					in[one.target] = true
				}
			}
			for target := range in {
				counts[target]++
			}
			require.NotEmpty(t, in, "%s: no target runs %s", s.path, name)
			t.Logf("%s %s: %s", s.dir, name, strings.Join(slices.Sorted(maps.Keys(in)), " "))
		}
	}
	for _, target := range slices.Sorted(maps.Keys(counts)) {
		t.Logf("make %s: %d of %d", target, counts[target], all)
	}
}

// Clients run elsewhere than servers; CI has to notice when they do not compile there any more.
func TestClientsAreCompiledForOtherSystems(t *testing.T) {
	script, err := os.ReadFile(".ci/run")
	require.NoError(t, err)
	require.Contains(t, string(script), "step make cross\n")
	out, err := exec.Command("make", "-n", "cross").CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Regexp(t, `(?s)for system in darwin/amd64 darwin/arm64 windows/amd64 windows/arm64; do .*\s\./client \./clienttest \./cmd/confcenter`, string(out))
}

// A test that sleeps is slow when it is right and flaky when it is wrong; one
// that skips itself tests nothing and tells no one.
func TestTestsNeitherSleepNorSkip(t *testing.T) {
	forbidden := map[string][]string{"time": {"Sleep"}, "t": {"Skip", "Skipf", "SkipNow"}, "b": {"Skip", "Skipf", "SkipNow"}, "tb": {"Skip", "Skipf", "SkipNow"}}
	var wrong []string
	for _, s := range sources(t) {
		if !s.test && !within(s.dir, "clienttest") && !within(s.dir, "internal/servertest") && !within(s.dir, "integration") {
			continue
		}
		ast.Inspect(s.ast, func(node ast.Node) bool {
			selector, ok := node.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if of, ok := selector.X.(*ast.Ident); ok && slices.Contains(forbidden[of.Name], selector.Sel.Name) {
				wrong = append(wrong, fmt.Sprintf("%s:%d: %s.%s in a test", s.path, s.line(selector.Pos()), of.Name, selector.Sel.Name))
			}
			return true
		})
	}
	complain(t, wrong)
}
