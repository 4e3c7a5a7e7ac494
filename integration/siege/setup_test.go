package siege

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"confcenter/integration/process"
	"confcenter/internal/servertest"
	"confcenter/protocol"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreCurrent(), goleak.Cleanup(func(code int) {
		process.RemoveBinary()
		os.Exit(code)
	}))
}

const mib = 1 << 20

// document is what every server here serves.
const document = `{"k":1}`

// confDir is a directory with a.json.
func confDir(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "conf")
	require.NoError(t, os.Mkdir(dir, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.json"), []byte(document), 0o644))
	return dir
}

// strict are the flags under which the limits on addresses apply to a test's own, too.
var strict = []string{"--exempt-networks", "192.0.2.0/24", "--log-level", "warn"}

// caller is a connection whose failures are errors, for those that run beside a test.
type caller struct {
	*net.TCPConn
	in  *bufio.Reader
	seq uint16
}

// crowded is the n-th address that a crowd comes from: one address has no more than half of
// all places, which a test's own programs would have to share with those that attack.
func crowded(n int) string { return fmt.Sprintf("127.66.100.%d", 1+n%2) }

func dialFrom(own, addr string) (*caller, error) {
	dialer := net.Dialer{Timeout: servertest.Patience, LocalAddr: &net.TCPAddr{IP: net.ParseIP(own)}}
	conn, err := dialer.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	tcp := conn.(*net.TCPConn)
	_ = tcp.SetLinger(0) // thousands in TIME_WAIT would use up the ports
	return &caller{TCPConn: tcp, in: bufio.NewReaderSize(conn, 512)}, nil
}

// enter is a connection from the test's own address, and its WHOAMI.
func enter(addr, name string) (*caller, error) { return enterFrom("127.0.0.1", addr, name) }

func enterFrom(own, addr, name string) (*caller, error) {
	c, err := dialFrom(own, addr)
	if err != nil {
		return nil, err
	}
	if err := c.ask(protocol.Whoami, fmt.Sprintf(`{"svrid":0,"svrname":%q}`, name)); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// next waits for a frame.
func (c *caller) next() (servertest.Frame, error) {
	if err := c.SetReadDeadline(time.Now().Add(servertest.Patience)); err != nil {
		return servertest.Frame{}, err
	}
	return servertest.ReadFrame(c.in)
}

func (c *caller) send(cmd protocol.Command, body string) error {
	c.seq++
	if err := c.SetWriteDeadline(time.Now().Add(servertest.Patience)); err != nil {
		return err
	}
	_, err := c.Write(protocol.AppendFrame(nil, cmd, c.seq, []byte(body)))
	return err
}

// call sends a request and returns the next frame, which must be its reply.
func (c *caller) call(cmd protocol.Command, body string) (string, error) {
	if err := c.send(cmd, body); err != nil {
		return "", err
	}
	f, err := c.next()
	if err == nil && (f.Command != cmd.Reply() || f.Seq != c.seq) {
		err = fmt.Errorf("%s: answered with %s", cmd, f)
	}
	return f.Body, err
}

// ask is call for a reply that must be code 0.
func (c *caller) ask(cmd protocol.Command, body string) error {
	reply, err := c.call(cmd, body)
	if err != nil {
		return err
	}
	if r, err := protocol.ParseResult([]byte(reply)); err != nil || r.Code != 0 {
		return fmt.Errorf("%s %.100s: answered with %.200s", cmd, body, reply)
	}
	return nil
}

// web is a client that keeps no connection.
var web = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: servertest.Patience}

// webGet is a GET that must be answered with 200.
func webGet(c *http.Client, url string) (string, error) {
	r, err := c.Get(url)
	if err != nil {
		return "", err
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err == nil && r.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s: %s: %.200s", url, r.Status, b)
	}
	return string(b), err
}

// witness is a program that was there before the attack: it asks all the time, over both
// fronts, and is always answered.
type witness struct {
	t    *testing.T
	p    *process.Process
	stop atomic.Bool
	all  sync.WaitGroup

	err   error // of the first that was not answered
	asked int
	// the longest it waited, over TCP and over HTTP
	slowest, slowestWeb time.Duration
}

// watch begins to ask.
func watch(t *testing.T, p *process.Process) *witness {
	t.Helper()
	c, err := enter(p.Addr, "witness")
	require.NoError(t, err)
	transport := &http.Transport{MaxConnsPerHost: 1}
	kept := &http.Client{Transport: transport, Timeout: servertest.Patience}
	_, err = webGet(kept, "http://"+p.HTTP+"/v1/config/file?name=a.json")
	require.NoError(t, err)
	w := &witness{t: t, p: p}
	w.all.Go(func() {
		defer c.Close()
		defer transport.CloseIdleConnections()
		for !w.stop.Load() && w.err == nil {
			begun := time.Now()
			w.err = c.ask(protocol.GetConfig, `{"file_pattern":"a.json"}`)
			w.slowest = max(w.slowest, time.Since(begun))
			begun = time.Now()
			_, err := webGet(kept, "http://"+p.HTTP+"/v1/config/file?name=a.json")
			w.err = cmp.Or(w.err, err)
			w.slowestWeb = max(w.slowestWeb, time.Since(begun))
			w.asked++
		}
	})
	return w
}

// relieve ends it.
func (w *witness) relieve() {
	w.t.Helper()
	w.stop.Store(true)
	w.all.Wait()
	w.p.Lives()
	require.NoError(w.t, w.err, "%s", w.p.Said())
	w.t.Logf("a program that was there before asked %d times and waited %v at most, over HTTP %v", w.asked, w.slowest.Round(time.Millisecond), w.slowestWeb.Round(time.Millisecond))
}

// newcomer gets in, under a name and from an address that were there before.
func newcomer(t *testing.T, p *process.Process) time.Duration {
	t.Helper()
	begun := time.Now()
	c, err := enter(p.Addr, "witness")
	took := time.Since(begun)
	p.Lives()
	require.NoError(t, err)
	require.NoError(t, c.ask(protocol.GetConfig, `{"file_pattern":"a.json"}`))
	require.NoError(t, c.Close())
	return took
}

// slack is how far above the budget the resident size may be.
const slack = 1.15

// within checks the most that the process has had resident.
func within(t *testing.T, p *process.Process, budget int64) process.Memory {
	t.Helper()
	m := p.Memory()
	require.LessOrEqual(t, float64(m.Peak), slack*float64(budget), "resident memory")
	return m
}

// comesTrue waits for a fact.
func comesTrue(fact func() bool) bool {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for begun := time.Now(); time.Since(begun) < 2*servertest.Patience; <-tick.C {
		if fact() {
			return true
		}
	}
	return false
}

func eventually(t *testing.T, what string, fact func() bool) {
	t.Helper()
	require.True(t, comesTrue(fact), what)
}
