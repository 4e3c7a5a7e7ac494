//go:build soak

package siege

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/integration/process"
	"confcenter/internal/servertest"
	"confcenter/protocol"
)

// What the pools say is what is there: they are what everything is refused by.
func TestPoolsHoldWhatTheHeapHas(t *testing.T) {
	b := &besieged{t: t, Process: process.New(t, confDir(t), "--memory", "2GiB", "--log-level", "warn")}
	b.Before = "export GOGC=20" // or much of what is made while Go collects would count as in use
	b.Start()
	b.fillStore()
	b.fillDocuments()
	for _, g := range []*crowd{
		gatherMembers(b.Process, 1000, func(*crowd, *caller, int) {}),
		idleBrowsers(b.Process, 500),
		unreadStreams(b.Process, 200),
	} {
		defer g.over().disperse()
	}

	live, pools, sum := b.live(), b.pools(), b.held()
	t.Logf("%.1f MiB in use, %.1f MiB in the pools: %v", float64(live)/mib, float64(sum)/mib, pools)
	for name, least := range map[string]int64{"store": 120, "documents": 30, "caches": 10, "connections": 5} {
		require.Greater(t, pools[name], least*mib, "not filled: %s", name)
	}
	require.Greater(t, live, int64(200*mib))
	require.InEpsilon(t, live, sum, 0.2)
	b.Stop()
}

// Documents are in memory as programs get them, and nowhere else: not as files, nor as what the log
// has written of them, neither when they were found nor when they were known.
func TestContentsAreHeldOnce(t *testing.T) {
	const documents, size = 96, 1 << 20
	conf := confDir(t)
	for i := range documents {
		text := fmt.Sprintf(`{"%d":%q}`, i, strings.Repeat("x", size))
		require.NoError(t, os.WriteFile(filepath.Join(conf, fmt.Sprintf("large%d.json", i)), []byte(text), 0o644))
	}
	b := &besieged{t: t, Process: process.New(t, conf, "--memory", "2GiB", "--log-level", "warn")}
	b.Before = "export GOGC=20" // or much of what is made while Go collects would count as in use
	for _, when := range []string{"found", "known"} {
		b.Start()
		var live int64
		require.Eventually(t, func() bool {
			live = b.live()
			return live < documents*size*3/2 // with what the engine keeps of the newest changes, which is bounded
		}, servertest.Patience, time.Second, "%s: the log has written them all", when)
		t.Logf("%s: %.1f MiB in use, of which %d MiB are contents", when, float64(live)/mib, documents*size/mib)
		require.Greater(t, live, int64(documents*size))
		b.Stop()
	}
}

// live is how much of the heap is in use: the least that some collections have found, since
// what is made during one counts as well.
func (b *besieged) live() int64 {
	b.t.Helper()
	const collections = 5 // the first may have begun long ago
	garbage := strings.Repeat("?", 500_000)
	var found []int64
	for now := scrape(b.t, b.Process, "go_gc_"); len(found) < collections; {
		before := now["duration_seconds_count"]
		if now = scrape(b.t, b.Process, "go_gc_"); now["duration_seconds_count"] > before {
			found = append(found, now["heap_live_bytes"])
		}
		answer, err := web.Post("http://"+b.HTTP+"/v1/store/batch?ns=none", "application/json", strings.NewReader(garbage))
		require.NoError(b.t, err)
		require.NoError(b.t, answer.Body.Close())
		require.Equal(b.t, http.StatusBadRequest, answer.StatusCode)
	}
	return slices.Min(found[1:])
}

// fillStore writes keys without a value, and values small and large.
func (b *besieged) fillStore() {
	b.t.Helper()
	const tiny = 200_000
	require.EqualValues(b.t, tiny/tinyBatch, tinyKeys(b.Process, tiny).over().accepted.Load())
	c, err := enter(b.Addr, "writer")
	require.NoError(b.t, err)
	defer c.Close()
	const batch = 1_000_000
	for _, size := range []int{1000, batch} {
		value := strings.Repeat("v", size)
		for i := range 50 {
			var ops []string
			for k := range batch / size {
				ops = append(ops, fmt.Sprintf(`{"op":"put","key":"%d/%d/%d","value":%q}`, size, i, k, value))
			}
			require.NoError(b.t, c.ask(protocol.KVTxn, fmt.Sprintf(`{"ns":"values","then":[%s]}`, strings.Join(ops, ","))))
		}
	}
}

// fillDocuments sets large documents, of which some inherit another and are merged with it.
func (b *besieged) fillDocuments() {
	b.t.Helper()
	const sets = 9
	g := hugeSets(b.Process, sets).over()
	defer g.disperse()
	require.EqualValues(b.t, sets, g.accepted.Load())
	c, err := enter(b.Addr, "writer")
	require.NoError(b.t, err)
	defer c.Close()
	require.NoError(b.t, c.ask(protocol.SetConfig, `{"filename":"_meta.json","contents":{"conf_inherit":{"set1.json":"set0.json","set2.json":"set0.json","set3.json":"set0.json"}}}`))
	for i := range 3 {
		_, err := webGet(web, fmt.Sprintf("http://%s/v1/config/resolved?name=set%d.json", b.HTTP, i+1))
		require.NoError(b.t, err)
	}
}

// idleBrowsers are n clients over HTTP that have asked once and keep their connections.
func idleBrowsers(p *process.Process, n int) *crowd {
	return gather(p.HTTP, n, func(c *caller, _ int) {
		if _, err := fmt.Fprint(c, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"); err == nil {
			_, _ = c.in.ReadString('\n')
		}
	})
}
