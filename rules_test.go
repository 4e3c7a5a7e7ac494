package confcenter_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	module           = "confcenter"
	maxFileLines     = 600
	maxFunctionLines = 80
	maxFields        = 15
	maxMethods       = 40
)

// everything marks a package that may import all others.
const everything = "*"

// mayImport says who may import whom: for each package the others of the module
// and the libraries it may use; the standard library is free. A package that is
// not in the table is not allowed yet: think about where it stands, then add it.
// Test files are free.
var mayImport = map[string][]string{
	".":                                  {},
	"access":                             {"codes"},
	"access/policy":                      {"access", "codes", "internal/jsontext"},
	"access/guard":                       {"access", "access/policy", "access/secret", "codes", "kv", "meta", "op"},
	"access/control":                     {"access", "access/guard", "access/policy", "access/quota", "access/token", "codes", "confstore", "confstore/snapshot", "internal/clock", "internal/metric", "kv", "kv/embedded", "meta", "op", "github.com/rs/zerolog"},
	"access/openid":                      {"access", "codes", "internal/clock", "internal/jsontext", "github.com/coreos/go-oidc/v3", "github.com/rs/zerolog", "golang.org/x/oauth2"},
	"access/audit":                       {"access", "codes", "internal/clock", "internal/jsontext", "kv", "op", "github.com/rs/zerolog"},
	"access/quota":                       {"access", "access/policy", "codes", "internal/admission", "internal/clock", "internal/metric", "kv", "player/field"},
	"access/secret":                      {"access", "codes", "internal/clock", "internal/jsontext", "kv", "kv/embedded", "op", "github.com/rs/zerolog"},
	"access/guard/guardtest":             {"access", "access/guard", "access/policy", "access/secret", "github.com/stretchr/testify"},
	"codes":                              {},
	"op":                                 {"access", "access/policy", "codes", "internal/jsontext", "kv", "player/field", "github.com/json-iterator/go"},
	"kv":                                 {"access", "codes", "internal/jsontext"},
	"kv/embedded":                        {"internal/memory", "kv", "kv/follow"},
	"kv/documents":                       {"codes", "internal/jsonpath", "kv", "kv/kvjson", "meta"},
	"kv/follow":                          {"codes", "internal/clock", "internal/memory", "kv"},
	"kv/kvjson":                          {"codes", "internal/jsontext", "kv"},
	"kvstore":                            {"access", "access/audit", "codes", "internal/clock", "internal/health", "internal/memory", "kv", "github.com/rs/zerolog", "github.com/tidwall/btree"},
	"kvstore/backup":                     {"codes", "kv"},
	"kvstore/disk":                       {"access", "codes", "internal/atomicfile", "internal/clock", "internal/datasync", "internal/health", "internal/memory", "kv", "kvstore", "github.com/cockroachdb/pebble/v2", "github.com/rs/zerolog"},
	"kvstore/disk/disktest":              {"github.com/cockroachdb/pebble/v2"},
	"kvstore/memory":                     {"codes", "internal/clock", "internal/health", "internal/memory", "kv", "kvstore"},
	"kv/follow/followtest":               {"kv", "kv/follow"},
	"kv/lock":                            {"access", "codes", "internal/clock", "internal/memory", "kv"},
	"internal/admission":                 {"codes", "internal/memory", "internal/metric", "github.com/rs/zerolog"},
	"internal/atomicfile":                {"golang.org/x/sys"},
	"internal/authority":                 {},
	"internal/clock":                     {},
	"internal/clock/clocktest":           {"internal/clock"},
	"internal/atomicfile/atomicfiletest": {"internal/atomicfile"},
	"internal/git":                       {"internal/atomicfile"},
	"internal/git/gittest":               {"github.com/stretchr/testify"},
	"internal/health":                    {"github.com/rs/zerolog"},
	"internal/datasync":                  {},
	"internal/generate/operations":       {"access", "access/audit", "access/review", "access/secret", "access/token", "codes", "confstore/history", "internal/jsontext", "kv", "models/bench", "models/flow", "op", "player/landops", "protocol"},
	"internal/generate/wireshark":        {"protocol"},
	"internal/flood":                     {"protocol", "golang.org/x/sys"},
	"internal/jsontext":                  {},
	"internal/jsonpath":                  {"internal/jsontext", "github.com/tidwall/gjson"},
	"internal/memory":                    {"internal/metric", "github.com/KimMachineGun/automemlimit"},
	"internal/metric":                    {},
	"internal/parallel":                  {},
	"internal/ring":                      {},
	"internal/roster":                    {"kv"},
	"internal/settings":                  {"github.com/spf13/pflag"},
	"internal/textdiff":                  {"github.com/rogpeppe/go-internal"},
	"internal/watch":                     {"internal/atomicfile", "internal/clock", "github.com/fsnotify/fsnotify"},
	"internal/tlsfiles":                  {"internal/clock", "github.com/rs/zerolog"},
	"meta":                               {"internal/jsontext"},
	"protocol":                           {"access", "access/policy", "codes", "internal/jsontext", "kv", "kv/documents", "kv/kvjson", "op", "player/field", "player/playerjson"},
	"confstore/log":                      {"access", "codes", "kv", "github.com/json-iterator/go"},
	"confstore/place":                    {"codes", "confstore/log", "internal/atomicfile", "kv"},
	"confstore/commits":                  {"access", "confstore/log", "confstore/place", "internal/clock", "internal/git", "kv", "github.com/rs/zerolog"},
	"confstore/snapshot":                 {"access", "access/audit", "access/policy", "access/secret", "confstore/log", "internal/jsonpath", "internal/jsontext", "internal/memory", "kv", "kv/follow", "meta"},
	"confstore/revisions":                {"codes", "confstore/log", "confstore/snapshot", "internal/clock", "internal/jsonpath", "internal/jsontext", "internal/memory", "kv", "kv/documents", "kv/follow", "meta"},
	"confstore/change":                   {"access", "confstore/log", "kv"},
	"confstore":                          {"access", "access/policy", "access/secret", "codes", "confstore/change", "confstore/commits", "confstore/log", "confstore/place", "confstore/revisions", "confstore/snapshot", "internal/atomicfile", "internal/clock", "internal/git", "internal/health", "internal/jsontext", "internal/memory", "internal/parallel", "internal/watch", "kv", "kv/follow", "meta", "github.com/rs/zerolog"},
	"client":                             {"access", "client/internal/callback", "client/internal/connection", "codes", "internal/atomicfile", "internal/clock", "internal/jsonpath", "internal/jsontext", "kv", "player/field", "protocol", "github.com/json-iterator/go"},
	"client/internal/callback":           {"codes", "internal/clock"},
	"client/internal/connection":         {"codes", "internal/clock", "protocol"},
	"player/field":                       {"access", "codes", "internal/jsontext", "kv"},
	"models/bench":                       {"access", "access/policy", "codes", "internal/clock", "kv", "kv/embedded", "op", "go.yaml.in/yaml/v3"},
	"access/review":                      {"access", "access/policy", "access/token", "codes", "confstore/change", "confstore/history", "confstore/log", "internal/clock", "internal/health", "internal/memory", "internal/textdiff", "kv", "kv/embedded", "op"},
	"access/token":                       {"access", "access/policy", "access/quota", "codes", "internal/clock", "kv", "kv/embedded", "op"},
	"confstore/history":                  {"access", "access/policy", "access/secret", "codes", "confstore/change", "confstore/log", "internal/clock", "internal/jsonpath", "internal/jsontext", "internal/memory", "internal/roster", "internal/textdiff", "kv", "meta", "op"},
	"examples/flow":                      {"client", "client/calls", "kv", "models/flow"},
	"models/flow":                        {"access", "access/policy", "codes", "internal/clock", "internal/jsontext", "kv", "kv/embedded", "op"},
	"server/host":                        {"access/audit", "access/review", "access/secret", "access/token", "confstore/history", "internal/clock", "internal/memory", "kv", "kv/embedded", "models/bench", "models/flow", "op", "github.com/rs/zerolog"},
	"op/sampletest":                      {"access", "codes", "op"},
	"models/modeltest":                   {"client", "clienttest", "kv/embedded", "kvstore/memory", "models/flow", "server/host", "github.com/stretchr/testify"},
	"client/calls":                       {"access/audit", "access/review", "access/secret", "access/token", "client", "confstore/history", "kv", "models/bench", "models/flow", "protocol"},
	"player/landops":                     {"access", "kv", "op", "player/field"},
	"player/playerjson":                  {"codes", "internal/jsontext", "kv", "kv/kvjson", "player/field"},
	"player":                             {"codes", "internal/clock", "internal/health", "internal/jsontext", "internal/memory", "kv", "player/field", "github.com/rs/zerolog"},
	"server/tcp":                         {"codes", "internal/admission", "internal/clock", "internal/memory", "internal/metric", "internal/roster", "kv", "kv/follow", "kv/lock", "op", "protocol", "server/clients", "server/config", "server/edge", "server/player", "server/state", "server/tcp/gate", "server/tcp/loop", "server/tcp/netio", "server/watch", "github.com/rs/zerolog"},
	"server":                             {"access", "access/control", "access/quota", "access/review", "access/secret", "codes", "confstore", "confstore/change", "confstore/snapshot", "internal/clock", "internal/health", "internal/memory", "internal/roster", "internal/tlsfiles", "kv/lock", "kvstore", "player", "player/field", "player/landing", "server/edge", "server/host", "server/http", "server/tcp", "github.com/rs/zerolog"},
	"server/tcp/loop":                    {"codes", "internal/clock", "internal/memory", "internal/metric", "internal/ring", "protocol", "github.com/rs/zerolog"},
	"server/tcp/loop/looptest":           {},
	"server/tcp/netio":                   {"codes", "internal/admission", "internal/memory", "server/tcp/loop", "github.com/panjf2000/gnet/v2", "github.com/rs/zerolog", "golang.org/x/sys"},
	"server/edge":                        {"access", "access/control", "access/guard", "access/quota", "access/secret", "codes", "internal/admission", "kv", "kv/kvjson", "op", "github.com/rs/zerolog"},
	"server/tcp/gate":                    {"access", "access/control", "access/policy", "codes", "internal/admission", "internal/memory", "internal/roster", "op", "protocol", "server/edge", "server/tcp/loop"},
	"server/tcp/gate/gatetest":           {"access", "access/secret", "codes", "confstore", "internal/admission", "internal/clock/clocktest", "internal/memory", "kv", "kvstore/memory", "protocol", "server/edge", "server/tcp/gate", "server/tcp/loop", "server/tcp/loop/looptest", "github.com/rs/zerolog", "github.com/stretchr/testify"},
	"server/config":                      {"access", "codes", "confstore", "confstore/snapshot", "internal/health", "internal/jsonpath", "internal/memory", "internal/roster", "kv/follow", "meta", "op", "protocol", "server/edge", "server/tcp/gate", "server/tcp/loop"},
	"server/state":                       {"codes", "internal/roster", "kv", "kv/lock", "protocol", "server/edge", "server/tcp/gate", "server/tcp/loop"},
	"server/player":                      {"access/policy", "codes", "op", "player", "player/field", "player/landops", "player/playerjson", "protocol", "server/edge", "server/tcp/gate", "server/tcp/loop"},
	"server/watch":                       {"codes", "internal/memory", "internal/roster", "kv", "kv/documents", "kv/follow", "op", "protocol", "server/edge", "server/tcp/gate", "server/tcp/loop"},
	"server/clients":                     {"access", "access/policy", "codes", "confstore/snapshot", "internal/clock", "internal/jsontext", "internal/memory", "internal/ring", "internal/roster", "kv", "op", "protocol", "server/tcp/gate", "server/tcp/loop"},
	"tools/ccload":                       {"confstore/log", "internal/authority", "internal/flood", "kv", "kvstore/disk", "player/field", "protocol", "tools/ccdump/capture", "github.com/HdrHistogram/hdrhistogram-go", "github.com/go-sql-driver/mysql", "github.com/panjf2000/gnet/v2", "github.com/prometheus/procfs", "github.com/spf13/cobra", "golang.org/x/sys"},
	"server/http":                        {"access", "access/audit", "access/control", "access/openid", "access/policy", "access/token", "codes", "confstore", "confstore/snapshot", "internal/admission", "internal/clock", "internal/jsontext", "internal/memory", "internal/metric", "internal/roster", "kv", "kv/documents", "kv/follow", "kv/kvjson", "kvstore/backup", "op", "player", "player/field", "player/playerjson", "protocol", "server/edge", "server/http/console", "server/http/plum", "server/http/search", "server/http/sse", "server/http/status", "github.com/json-iterator/go", "github.com/rs/zerolog"},
	"server/http/console":                {},
	"server/http/plum":                   {"codes", "internal/jsontext", "kv"},
	"server/http/search":                 {"codes", "internal/clock", "internal/jsontext", "kv"},
	"server/http/status":                 {"codes", "confstore", "internal/clock", "internal/health", "internal/memory", "internal/metric", "internal/ring", "kv", "kv/kvjson", "op", "player", "player/field", "github.com/prometheus/client_golang", "github.com/rs/zerolog"},
	"server/http/sse":                    {"internal/admission", "internal/clock", "internal/memory", "golang.org/x/sys"},
	"player/landing":                     {"codes", "internal/clock", "internal/metric", "kv", "player", "player/field", "github.com/rs/zerolog"},
	"player/landing/mysql":               {"player/field", "player/landing", "github.com/go-sql-driver/mysql"},
	"player/landing/postgres":            {"player/field", "player/landing", "github.com/jackc/pgx/v5"},
	"player/landing/sqlite":              {"player/field", "player/landing", "modernc.org/sqlite"},
	"player/landing/landingtest":         {"codes", "internal/clock/clocktest", "kv", "kvstore", "kvstore/memory", "player", "player/field", "player/landing", "player/landing/sqlite", "github.com/rs/zerolog", "github.com/stretchr/testify"},
	"tools/ccdump":                       {"protocol", "tools/ccdump/capture", "tools/ccdump/replay", "tools/ccdump/stream", "tools/ccdump/talk", "github.com/json-iterator/go", "github.com/spf13/cobra"},
	"tools/ccdump/capture":               {"github.com/gopacket/gopacket", "golang.org/x/net", "golang.org/x/sys"},
	"tools/ccdump/hide":                  {"internal/jsontext", "protocol"},
	"tools/ccdump/stream":                {"protocol", "tools/ccdump/capture"},
	"tools/ccdump/talk":                  {"internal/jsontext", "protocol", "tools/ccdump/hide", "tools/ccdump/stream", "github.com/HdrHistogram/hdrhistogram-go", "github.com/tidwall/gjson"},
	"tools/ccdump/replay":                {"internal/jsontext", "protocol", "tools/ccdump/hide", "tools/ccdump/stream", "github.com/tidwall/gjson"},
	"cmd/confcenter":                     {everything},
	"clienttest":                         {"confstore", "kv", "kvstore/memory", "server", "server/host", "server/tcp", "github.com/rs/zerolog"},
	"internal/servertest":                {"clienttest", "internal/authority", "internal/roster", "protocol", "server/tcp", "github.com/stretchr/testify"},
	"integration":                        {everything},
	"integration/kills":                  {},
	"integration/dbtest":                 {"github.com/go-sql-driver/mysql", "github.com/jackc/pgx/v5", "github.com/stretchr/testify"},
	"integration/ledger":                 {"integration/process", "internal/servertest", "protocol", "github.com/stretchr/testify"},
	"integration/openidtest":             {"github.com/go-jose/go-jose/v4", "github.com/stretchr/testify", "github.com/zitadel/oidc/v3"},
	"integration/process":                {"internal/servertest", "github.com/stretchr/testify"},
	"integration/siege":                  {everything},
	"cmd/confcenter/check":               {"access/policy", "confstore", "internal/jsontext", "meta", "golang.org/x/text"},
	"cmd/confcenter/datadir":             {"access/token", "codes", "confstore", "confstore/log", "internal/atomicfile", "internal/clock", "kv", "kvstore", "kvstore/backup", "kvstore/disk", "player"},
	"cmd/confcenter/job":                 {"codes", "golang.org/x/sys"},
	"cmd/confcenter/kvverbs":             {"access/secret", "client", "cmd/confcenter/check", "cmd/confcenter/job", "cmd/confcenter/screen", "cmd/confcenter/verb", "codes", "internal/jsontext", "internal/settings", "kv", "kv/kvjson", "protocol", "github.com/json-iterator/go", "github.com/spf13/cobra"},
	"cmd/confcenter/screen":              {"internal/jsontext", "internal/settings", "github.com/rs/zerolog", "golang.org/x/term"},
	"cmd/confcenter/serving":             {"access", "access/audit", "access/control", "access/openid", "access/policy", "access/review", "access/secret", "access/token", "cmd/confcenter/datadir", "cmd/confcenter/screen", "confstore", "internal/admission", "internal/atomicfile", "internal/clock", "internal/memory", "internal/settings", "internal/tlsfiles", "kv", "kvstore", "kvstore/disk", "player", "player/landing", "server", "server/host", "server/http", "server/tcp", "server/tcp/gate", "server/tcp/netio", "github.com/rs/zerolog", "github.com/spf13/pflag"},
	"cmd/confcenter/verb":                {"client", "cmd/confcenter/screen", "cmd/confcenter/serving", "codes", "confstore/history", "internal/settings", "kv", "meta", "protocol", "github.com/json-iterator/go", "github.com/spf13/cobra", "github.com/spf13/pflag", "golang.org/x/term"},
}

// onlyIn names what would spoil a design if it spread: the event loop stays behind the server's transport,
// file events behind the store, and rights and quotas behind the edge, which decides about them for all handlers.
var onlyIn = map[string][]string{
	module + "/access/guard":           {"access/control", "access/guard/guardtest", "server/edge"},
	module + "/access/quota":           {"access/control", "server", "server/edge", "access/token"},
	module + "/access/control":         {"cmd/confcenter/serving", "server/http", "server", "server/edge", "server/tcp/gate"},
	"github.com/panjf2000/gnet/v2":     {"server/tcp/netio", "tools/ccload"},
	"github.com/fsnotify/fsnotify":     {"internal/watch"},
	"github.com/tidwall/gjson":         {"internal/jsonpath", "tools/ccdump/replay", "tools/ccdump/talk"},
	"github.com/cockroachdb/pebble/v2": {"kvstore/disk", "kvstore/disk/disktest"},
	"github.com/go-sql-driver/mysql":   {"player/landing/mysql", "integration/dbtest", "tools/ccload"},
	"github.com/jackc/pgx/v5":          {"player/landing/postgres", "integration/dbtest"},
	"modernc.org/sqlite":               {"player/landing/sqlite"},
	"github.com/coreos/go-oidc/v3":     {"access/openid"},
	"golang.org/x/oauth2":              {"access/openid"},
	"github.com/zitadel/oidc/v3":       {"integration/openidtest"},
	"github.com/spf13/cobra":           {"cmd/confcenter", "cmd/confcenter/kvverbs", "cmd/confcenter/verb", "tools/ccload", "tools/ccdump"},
}

var forbiddenNames = []string{"util", "utils", "common", "helper", "helpers", "types", "models", "misc", "shared"}

// source is one Go file of the module.
type source struct {
	path string // from the module's root, with slashes
	dir  string
	test bool
	text []byte
	ast  *ast.File
}

var fileSet = token.NewFileSet()

func (s *source) line(pos token.Pos) int { return fileSet.Position(pos).Line }

func sources(t *testing.T) []*source {
	t.Helper()
	list, err := parseOnce()
	require.NoError(t, err)
	require.NotEmpty(t, list)
	return list
}

// parseOnce parses the module for all tests, which change nothing of it.
var parseOnce = sync.OnceValues(func() (list []*source, err error) {
	err = filepath.WalkDir(".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() {
			if name == "testdata" || (strings.HasPrefix(name, ".") && file != ".") {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		parsed, err := parser.ParseFile(fileSet, file, text, parser.ParseComments)
		if err != nil {
			return err
		}
		slashed := filepath.ToSlash(file)
		list = append(list, &source{path: slashed, dir: path.Dir(slashed), test: strings.HasSuffix(name, "_test.go"), text: text, ast: parsed})
		return nil
	})
	return list, err
})

// complain fails the test with all complaints, so that one run shows them all.
func complain(t *testing.T, complaints []string) {
	t.Helper()
	slices.Sort(complaints)
	for _, c := range complaints {
		t.Error(c)
	}
}

func TestImports(t *testing.T) {
	var wrong []string
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		allowed, known := mayImport[s.dir]
		if !known {
			wrong = append(wrong, fmt.Sprintf("%s: package %s has no row in mayImport", s.path, s.dir))
			continue
		}
		for _, spec := range s.ast.Imports {
			imported := strings.Trim(spec.Path.Value, `"`)
			if reason := importFault(s.dir, imported, allowed); reason != "" {
				wrong = append(wrong, fmt.Sprintf("%s:%d: %s", s.path, s.line(spec.Pos()), reason))
			}
		}
	}
	complain(t, wrong)
}

// Over HTTP one file finds out who asks, and no handler does.
func TestOneFileOfHTTPKnowsProofs(t *testing.T) {
	for _, s := range sources(t) {
		for _, spec := range s.ast.Imports {
			if s.dir == "server/http" && !s.test && spec.Path.Value == `"`+module+`/access/control"` {
				require.Equal(t, "server/http/proof.go", s.path)
			}
		}
	}
}

func importFault(dir, imported string, allowed []string) string {
	own, isOwn := strings.CutPrefix(imported, module+"/")
	isStd := !strings.Contains(strings.Split(imported, "/")[0], ".")
	if isStd && !isOwn {
		return ""
	}
	for library, users := range onlyIn {
		if within(imported, library) && !slices.Contains(users, dir) {
			return fmt.Sprintf("%s may be imported only by %s", imported, strings.Join(users, " and "))
		}
	}
	name := imported
	if isOwn {
		name = own
	}
	for _, one := range allowed {
		if one == everything || one == name || (!isOwn && within(name, one)) {
			return ""
		}
	}
	return fmt.Sprintf("%s must not import %s", dir, name)
}

// within is true for a library's root and the packages below it.
func within(imported, library string) bool {
	return imported == library || strings.HasPrefix(imported, library+"/")
}

func TestPackageNamesSaySomething(t *testing.T) {
	var wrong []string
	for _, s := range sources(t) {
		dirs := strings.Split(s.dir, "/")
		for i, name := range append(dirs, strings.TrimSuffix(s.ast.Name.Name, "_test")) {
			if name == "models" && i < len(dirs)-1 {
				continue // a directory of models, without a package
			}
			if slices.Contains(forbiddenNames, name) {
				wrong = append(wrong, fmt.Sprintf("%s: %q says nothing; put the code beside its caller or name the idea", s.path, name))
			}
		}
	}
	complain(t, wrong)
}

// receiverName is the name of the type that a method is of.
func receiverName(d *ast.FuncDecl) string {
	receiver := d.Recv.List[0].Type
	for {
		switch r := receiver.(type) {
		case *ast.StarExpr:
			receiver = r.X
		case *ast.IndexExpr:
			receiver = r.X
		case *ast.IndexListExpr:
			receiver = r.X
		case *ast.Ident:
			return r.Name
		default:
			panic(fmt.Sprintf("%s has a receiver of an unknown form", d.Name.Name))
		}
	}
}

func TestFilesAndFunctionsAreShort(t *testing.T) {
	var wrong []string
	for _, s := range sources(t) {
		if lines := bytes.Count(s.text, []byte("\n")); lines > maxFileLines {
			wrong = append(wrong, fmt.Sprintf("%s: %d lines, the limit is %d; split it by noun", s.path, lines, maxFileLines))
		}
		for _, declaration := range s.ast.Decls {
			f, ok := declaration.(*ast.FuncDecl)
			if !ok || s.test {
				continue
			}
			if lines := s.line(f.End()) - s.line(f.Pos()) + 1; lines > maxFunctionLines {
				wrong = append(wrong, fmt.Sprintf("%s:%d: %s has %d lines, the limit is %d", s.path, s.line(f.Pos()), f.Name.Name, lines, maxFunctionLines))
			}
		}
	}
	complain(t, wrong)
}

// A type that holds everything ends up being asked for everything. Lists of settings and
// messages are long by nature; their comment says so in a line that begins with "wide: ".
func TestTypesAreNarrow(t *testing.T) {
	complain(t, wideTypes(sources(t)))
}

// wideTypes lists the types with too many fields or methods and no reason beside them, and
// the reasons that are not needed any more.
func wideTypes(list []*source) (wrong []string) {
	methods := map[string]int{}
	for _, s := range list {
		for _, declaration := range s.ast.Decls {
			if f, ok := declaration.(*ast.FuncDecl); ok && !s.test && f.Recv != nil {
				methods[s.dir+"."+receiverName(f)]++
			}
		}
	}
	for _, s := range list {
		ast.Inspect(s.ast, func(node ast.Node) bool {
			d, ok := node.(*ast.GenDecl)
			if !ok || s.test || d.Tok != token.TYPE {
				return true
			}
			for _, spec := range d.Specs {
				one := spec.(*ast.TypeSpec)
				fields, has := fieldCount(one.Type), methods[s.dir+"."+one.Name.Name]
				wide, reason := fields > maxFields || has > maxMethods, hasReason(d.Doc) || hasReason(one.Doc)
				if wide && !reason {
					wrong = append(wrong, fmt.Sprintf("%s:%d: %s has %d fields and %d methods, the limits are %d and %d; split it, or say why not in its comment: wide: …",
						s.path, s.line(one.Pos()), one.Name.Name, fields, has, maxFields, maxMethods))
				}
				if !wide && reason && len(d.Specs) == 1 {
					wrong = append(wrong, fmt.Sprintf("%s:%d: %s is not wide any more, remove the reason", s.path, s.line(one.Pos()), one.Name.Name))
				}
			}
			return true
		})
	}
	return wrong
}

func hasReason(comment *ast.CommentGroup) bool {
	_, reason, _ := strings.Cut("\n"+comment.Text(), "\nwide: ")
	return strings.TrimSpace(reason) != ""
}

func fieldCount(expr ast.Expr) int {
	s, ok := expr.(*ast.StructType)
	if !ok {
		return 0
	}
	n := 0
	for _, field := range s.Fields.List {
		n += max(1, len(field.Names))
	}
	return n
}

// The rules must be able to fail: each is shown something it has to refuse.
func TestRulesCatchWhatTheyAreFor(t *testing.T) {
	require.NotEmpty(t, importFault("server/tcp", module+"/client", mayImport["server/tcp"]))
	require.NotEmpty(t, importFault("client", module+"/confstore", mayImport["client"]))
	require.NotEmpty(t, importFault("confstore", module+"/protocol", mayImport["confstore"]))
	require.NotEmpty(t, importFault("protocol", "github.com/rs/zerolog", mayImport["protocol"]))
	require.NotEmpty(t, importFault("cmd/confcenter", "github.com/panjf2000/gnet/v2/pkg/logging", mayImport["cmd/confcenter"]), "gnet stays where it is")
	require.Empty(t, importFault("server/tcp/netio", "github.com/panjf2000/gnet/v2/pkg/logging", mayImport["server/tcp/netio"]))
	require.NotEmpty(t, importFault("server/tcp/loop", module+"/server/tcp/gate", mayImport["server/tcp/loop"]))
	require.NotEmpty(t, importFault("server/state", module+"/server/config", mayImport["server/state"]), "families do not know each other")
	require.Empty(t, importFault("codes", "encoding/json", mayImport["codes"]))
	for _, handlers := range []string{"server/http", "server/clients", "server/config", "server/tcp", "server/state", "server/player", "server/watch", "confstore/history"} {
		for _, edge := range []string{"guard", "quota"} {
			require.NotEmpty(t, importFault(handlers, module+"/access/"+edge, []string{everything}), "%s are asked at the edge", handlers)
		}
	}

	file, err := parser.ParseFile(token.NewFileSet(), "x.go", `package x
func F() {}
func (t *T[K]) M() {}
func (t *hidden) M() {}
func (t T[K]) String() string { return "" }
type T[K any] struct{}
const A = 1
// Group.
const B = 1
var C = 1 // why
func g() {}
`, parser.ParseComments)
	require.NoError(t, err)
	var names []string
	for _, declaration := range file.Decls {
		for _, name := range undocumented(declaration) {
			names = append(names, name.Name)
		}
	}
	require.Equal(t, []string{"F", "M", "T", "A"}, names)

	var fields strings.Builder
	for i := range maxFields + 1 {
		fmt.Fprintf(&fields, "\tf%d int\n", i)
	}
	var narrow []string
	for _, text := range []string{
		"type T struct {\n" + fields.String() + "}",
		"// T is a list.\n//\n// wide: it is a list.\ntype T struct {\n" + fields.String() + "}",
		"// T is a list.\n//\n// wide:\ntype T struct {\n" + fields.String() + "}",
		"// T was a list.\n//\n// wide: it is a list.\ntype T struct { a, b int }",
		"type T[K any] struct { a, b int }\n" + strings.Repeat("func (t *T[K]) M() {}\n", maxMethods+1),
		"type T struct { a, b int }\n" + strings.Repeat("func (t T) M() {}\n", maxMethods),
		"func f() {\n\ttype T struct {\n" + fields.String() + "\t}\n}",
	} {
		file, err := parser.ParseFile(fileSet, "x.go", "package x\n"+text, parser.ParseComments)
		require.NoError(t, err)
		narrow = append(narrow, fmt.Sprint(len(wideTypes([]*source{{path: "x.go", dir: "x", ast: file}}))))
	}
	require.Equal(t, "1 0 1 1 1 0 1", strings.Join(narrow, " "))
}
