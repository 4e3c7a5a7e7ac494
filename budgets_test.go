package confcenter_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// mostLines is the budget of each room: how many lines of Go it may have at most, without tests. A room
// that has to grow gets another number here, with the reason in the commit.
var mostLines = map[string]int{
	".":                                  100,
	"access":                             500,
	"access/audit":                       2000,
	"access/control":                     1100,
	"access/guard":                       700,
	"access/guard/guardtest":             100,
	"access/openid":                      500,
	"access/policy":                      1900,
	"access/quota":                       700,
	"access/review":                      2000,
	"access/secret":                      1500,
	"access/token":                       1500,
	"client":                             5900,
	"client/calls":                       600,
	"client/internal/callback":           200,
	"client/internal/connection":         800,
	"clienttest":                         400,
	"cmd/confcenter":                     4700,
	"cmd/confcenter/check":               300,
	"cmd/confcenter/datadir":             700,
	"cmd/confcenter/job":                 400,
	"cmd/confcenter/kvverbs":             1600,
	"cmd/confcenter/screen":              300,
	"cmd/confcenter/serving":             1500,
	"cmd/confcenter/verb":                800,
	"codes":                              300,
	"confstore":                          5400,
	"confstore/change":                   200,
	"confstore/commits":                  700,
	"confstore/history":                  3100,
	"confstore/log":                      2000,
	"confstore/place":                    300,
	"confstore/revisions":                800,
	"confstore/snapshot":                 1600,
	"examples/flow":                      300,
	"integration":                        100,
	"integration/dbtest":                 300,
	"integration/kills":                  100,
	"integration/ledger":                 800,
	"integration/openidtest":             400,
	"integration/process":                600,
	"integration/siege":                  100,
	"internal/admission":                 900,
	"internal/atomicfile":                500,
	"internal/atomicfile/atomicfiletest": 800,
	"internal/authority":                 200,
	"internal/clock":                     200,
	"internal/clock/clocktest":           200,
	"internal/datasync":                  100,
	"internal/flood":                     200,
	"internal/generate/operations":       900,
	"internal/generate/wireshark":        200,
	"internal/git":                       600,
	"internal/git/gittest":               100,
	"internal/health":                    200,
	"internal/jsonpath":                  1000,
	"internal/jsontext":                  1700,
	"internal/memory":                    300,
	"internal/metric":                    200,
	"internal/parallel":                  100,
	"internal/ring":                      100,
	"internal/roster":                    100,
	"internal/servertest":                400,
	"internal/settings":                  600,
	"internal/textdiff":                  100,
	"internal/tlsfiles":                  300,
	"internal/watch":                     300,
	"kv":                                 1600,
	"kv/documents":                       200,
	"kv/embedded":                        200,
	"kv/follow":                          1800,
	"kv/follow/followtest":               100,
	"kv/kvjson":                          1900,
	"kv/lock":                            900,
	"kvstore":                            5100,
	"kvstore/backup":                     400,
	"kvstore/disk":                       5800,
	"kvstore/disk/disktest":              100,
	"kvstore/memory":                     500,
	"meta":                               900,
	"models/bench":                       4300,
	"models/flow":                        4500,
	"models/modeltest":                   300,
	"op":                                 900,
	"op/sampletest":                      100,
	"player":                             5100,
	"player/field":                       1000,
	"player/landing":                     2800,
	"player/landing/landingtest":         2300,
	"player/landing/mysql":               300,
	"player/landing/postgres":            200,
	"player/landing/sqlite":              200,
	"player/landops":                     200,
	"player/playerjson":                  400,
	"protocol":                           3600,
	"server":                             600,
	"server/clients":                     900,
	"server/config":                      800,
	"server/edge":                        600,
	"server/host":                        200,
	"server/http":                        6000,
	"server/http/console":                200,
	"server/http/plum":                   400,
	"server/http/search":                 400,
	"server/http/sse":                    700,
	"server/http/status":                 900,
	"server/player":                      500,
	"server/state":                       1000,
	"server/tcp":                         500,
	"server/tcp/gate":                    1500,
	"server/tcp/gate/gatetest":           300,
	"server/tcp/loop":                    2900,
	"server/tcp/loop/looptest":           100,
	"server/tcp/netio":                   1100,
	"server/watch":                       1100,
	"tools/ccdump":                       1100,
	"tools/ccdump/capture":               600,
	"tools/ccdump/hide":                  300,
	"tools/ccdump/replay":                1100,
	"tools/ccdump/stream":                1000,
	"tools/ccdump/talk":                  1100,
	"tools/ccload":                       3000,
}

// Above these a package becomes several, and a capability, which is what begins with one name, too. The server is the
// rooms of two transports and five families of handlers. Those of wider are larger still, and must not grow.
const (
	mostOfAPackage    = 6_000
	mostOfACapability = 13_000
)

var wider = map[string]int{"server": 19_900, "confstore": 13_700}

// mostWords is the budget of PROTOCOL.md.
const mostWords = 16_000

func TestRoomsKeepTheirBudgets(t *testing.T) {
	lines := map[string]int{}
	for _, s := range sources(t) {
		if !s.test {
			lines[s.dir] += bytes.Count(s.text, []byte("\n"))
		}
	}
	var wrong []string
	capabilities := map[string]int{}
	for dir, n := range lines {
		if most, known := mostLines[dir]; !known || n > most || most > mostOfAPackage {
			wrong = append(wrong, fmt.Sprintf("%s has %d lines without tests, and its budget is %d, of at most %d", dir, n, most, mostOfAPackage))
		}
		name, _, _ := strings.Cut(dir, "/")
		capabilities[name] += n
	}
	for name, n := range capabilities {
		if n > max(mostOfACapability, wider[name]) {
			wrong = append(wrong, fmt.Sprintf("%s has %d lines without tests in all its packages, of at most %d", name, n, max(mostOfACapability, wider[name])))
		}
	}
	for dir := range mostLines {
		if lines[dir] == 0 {
			wrong = append(wrong, dir+" has a budget, and no lines")
		}
	}
	complain(t, wrong)
	text, err := os.ReadFile("PROTOCOL.md")
	require.NoError(t, err)
	require.LessOrEqual(t, len(strings.Fields(string(text))), mostWords, "words of PROTOCOL.md: what follows from a table belongs into docs/reference")
}

// What was built, or is as large, belongs into no commit: everyone who clones the tree pays for it for ever.
func TestFilesAreSmall(t *testing.T) {
	const most = 1 << 20
	require.NoError(t, filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name == "bin" || name == ".git" {
			return fs.SkipDir
		}
		info, err := entry.Info()
		if err == nil && info.Mode().IsRegular() && info.Size() > most {
			t.Errorf("%s has %d bytes, the limit is %d", name, info.Size(), most)
		}
		return err
	}))
}
