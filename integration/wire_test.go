package integration

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"confcenter/integration/process"
	"confcenter/internal/servertest"
	"confcenter/protocol"
)

// TestMain lets many tests wait at once: each has a server of its own and spends its time
// on round trips and on the end of the server's event loops, not on the processor.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "24"); err != nil {
		panic(err)
	}
	// Goroutines that already run were started by imported packages.
	goleak.VerifyTestMain(tests{m}, goleak.IgnoreCurrent(), goleak.Cleanup(func(code int) {
		process.RemoveBinary()
		os.Exit(code)
	}))
}

// tests ends what all tests share before goroutines are counted.
type tests struct{ *testing.M }

// Run runs the tests.
func (m tests) Run() int {
	code := m.M.Run()
	if chromium.end != nil {
		if err := chromium.end(); err != nil {
			fmt.Fprintln(os.Stderr, "chromium left files behind:", err)
			return max(code, 1)
		}
	}
	return code
}

// start starts a server for a parallel test.
func start(t *testing.T, opts servertest.Options) *servertest.Server {
	t.Helper()
	t.Parallel()
	return servertest.Start(t, opts)
}

func files(nameAndText ...string) map[string]string {
	m := make(map[string]string)
	for i := 0; i < len(nameAndText); i += 2 {
		m[nameAndText[i]] = nameAndText[i+1]
	}
	return m
}

// dial opens a connection whose failures are the subtest's, not its parent's.
func dial(t *testing.T, srv *servertest.Server) *servertest.Peer {
	t.Helper()
	return servertest.Dial(t, srv.Addr().String())
}

// peer is dial with a WHOAMI that gives only a name.
func peer(t *testing.T, srv *servertest.Server) *servertest.Peer {
	t.Helper()
	p := dial(t, srv)
	p.Identify(`{"svrid":0,"svrname":"peer"}`)
	return p
}

// at sets the times of files, in seconds since 1970, before the server starts.
func at(t *testing.T, times map[string]int32) func(confDir string) {
	return func(dir string) {
		for name, mtime := range times {
			setTime(t, filepath.Join(dir, name), mtime)
		}
	}
}

func setTime(t *testing.T, path string, mtime int32) {
	t.Helper()
	when := time.Unix(int64(mtime), 0)
	require.NoError(t, os.Chtimes(path, when, when))
}

// object decodes a reply's body; numbers stay text.
func object(t *testing.T, body string) map[string]any {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(body))
	d.UseNumber()
	var m map[string]any
	require.NoError(t, d.Decode(&m), body)
	_, err := d.Token()
	require.ErrorIs(t, err, io.EOF, body)
	return m
}

// result returns code and desc of a reply, which must be valid JSON.
func result(t *testing.T, body string) protocol.Result {
	t.Helper()
	object(t, body)
	r, err := protocol.ParseResult([]byte(body))
	require.NoError(t, err, body)
	return r
}

// get sends a GETCONFIG for a whole document, bases included or not.
func get(t *testing.T, p *servertest.Peer, name string, inherit bool) protocol.Config {
	t.Helper()
	body := p.Call(protocol.GetConfig, string(protocol.AppendConfigQuery(nil, name, "", 0, inherit)))
	c, err := protocol.ParseConfig([]byte(body))
	require.NoError(t, err, body)
	require.Equal(t, name, c.Name)
	return c
}

// set sends a SETCONFIG and returns the reply. extra has further members, after a comma.
func set(t *testing.T, p *servertest.Peer, name, contents, extra string) protocol.ConfigUpdated {
	t.Helper()
	body := p.Call(protocol.SetConfig, fmt.Sprintf(`{"filename":%s,"contents":%s%s}`, quote(name), contents, extra))
	object(t, body)
	u, err := protocol.ParseConfigUpdated([]byte(body))
	require.NoError(t, err, body)
	return u
}

func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// book sends a BOOKCFGCHANGE with these members and returns the reply.
func book(t *testing.T, p *servertest.Peer, body string) protocol.Subscribed {
	t.Helper()
	reply := p.Call(protocol.BookCfgChange, body)
	object(t, reply)
	s, err := protocol.ParseSubscribed([]byte(reply))
	require.NoError(t, err, reply)
	return s
}

// subscribed returns a new peer that follows name with its bases.
func subscribed(t *testing.T, srv *servertest.Server, name string) *servertest.Peer {
	t.Helper()
	p := peer(t, srv)
	require.Zero(t, book(t, p, fmt.Sprintf(`{"file_pattern":%s,"incbase":1}`, quote(name))).Code)
	return p
}

// clients asks for the properties of client id, or of all if it is 0.
func clients(t *testing.T, p *servertest.Peer, id int32) []map[string]string {
	t.Helper()
	body := p.Call(protocol.GetCli, fmt.Sprintf(`{"svrid":%d}`, id))
	require.EqualValues(t, 0, result(t, body).Code)
	records, _, err := protocol.ParseRecords([]byte(body))
	require.NoError(t, err)
	return records
}

// properties returns those of one client.
func properties(t *testing.T, p *servertest.Peer, id int32) map[string]string {
	t.Helper()
	records := clients(t, p, id)
	require.Len(t, records, 1)
	return records[0]
}

// eventually polls for what has no frame of its own.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	require.Eventually(t, cond, servertest.Patience, 2*time.Millisecond, what)
}

// onDisk returns the text of a file in the conf directory, empty if there is none.
func onDisk(t *testing.T, srv *servertest.Server, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(srv.ConfDir, name))
	if errors.Is(err, os.ErrNotExist) {
		return ""
	}
	require.NoError(t, err)
	return string(b)
}

func sortedKeys[V any](m map[string]V) []string {
	return slices.Sorted(maps.Keys(m))
}
