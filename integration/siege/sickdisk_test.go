//go:build soak

package siege

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/internal/servertest"
)

const (
	edited = `{"k":"edited"}`
	again  = `{"k":"again"}`
)

// large is a document that does not fit where there is no space.
var large = `"` + strings.Repeat("x", 64<<10) + `"`

// load writes to both stores until it is ended, and knows what was acknowledged.
type load struct {
	s    *sick
	stop atomic.Bool
	all  sync.WaitGroup
	acks atomic.Int64
}

func (s *sick) load() *load {
	l := &load{s: s}
	l.all.Go(func() {
		transport := &http.Transport{}
		defer transport.CloseIdleConnections()
		web := &http.Client{Transport: transport, Timeout: servertest.Patience}
		for n := int64(1); !l.stop.Load(); n++ {
			for _, path := range []string{"/v1/store/key?ns=n&key=load", "/v1/config/file?name=load.json"} {
				body := `{"value":1}`
				r, err := http.NewRequest(http.MethodPut, "http://"+s.HTTP+path, strings.NewReader(body))
				if err != nil {
					return
				}
				reply, err := web.Do(r)
				if err != nil {
					continue // the test finds out whether the server lives
				}
				reply.Body.Close()
				if reply.StatusCode == http.StatusOK {
					l.acks.Add(1)
				}
			}
		}
	})
	return l
}

func (l *load) end() {
	l.stop.Store(true)
	l.all.Wait()
}

// refuses checks that both stores refuse writes by name, and nothing else.
func (s *sick) refuses(words ...string) {
	s.t.Helper()
	for _, got := range []answer{s.setFile("b.json", large), s.setKey("b", large)} {
		require.Contains(s.t, []int{codes.Storage.HTTPStatus(), codes.Timeout.HTTPStatus()}, got.status, got.body)
	}
	text := s.isReady(false)
	for _, word := range append(words, "[-]config failed", "[-]state failed") {
		require.Contains(s.t, text, word)
	}
	require.Equal(s.t, http.StatusOK, s.ask(http.MethodGet, "/livez", "").status, "a restart repairs nothing")
	require.Equal(s.t, http.StatusOK, s.ask(http.MethodGet, "/readyz?exclude=config&exclude=state", "").status)
	for _, store := range []string{"config", "state"} {
		require.Zero(s.t, s.metric(`store_writable{store="`+store+`"}`))
		require.Contains(s.t, s.ask(http.MethodGet, "/v1/status", "").body, `"store":"`+store+`"`)
	}
}

// takes checks that both stores take writes.
func (s *sick) takes(value string) {
	s.t.Helper()
	s.isReady(true)
	got := s.setFile("b.json", `"`+value+`"`)
	require.Equal(s.t, http.StatusOK, got.status, got.body)
	got = s.setKey("b", value)
	require.Equal(s.t, http.StatusOK, got.status, got.body)
	require.Equal(s.t, value, s.key("b"))
}

// another has the server run as a user whom permissions bind, if the test does not run as one.
func (s *sick) another() {
	s.t.Helper()
	if os.Geteuid() != 0 {
		return
	}
	const nobody = 65534
	s.As = &syscall.Credential{Uid: nobody, Gid: nobody}
	require.NoError(s.t, os.MkdirAll(s.Data, 0o700))
	for _, dir := range []string{s.Data, s.Conf} {
		require.NoError(s.t, os.Chown(dir, nobody, nobody))
		for dir = filepath.Dir(dir); dir != filepath.Dir(os.TempDir()) && dir != os.TempDir(); dir = filepath.Dir(dir) {
			require.NoError(s.t, os.Chmod(dir, 0o755))
		}
	}
}

// TestDiskThatHangs: what writes waits, nothing else does, and no one waits for long.
func TestDiskThatHangs(t *testing.T) {
	d := newDevice(t, 400<<20)
	if d == nil {
		t.Log("a hanging disk is proven by the tests of confstore and kvstore alone")
		return
	}
	s := nurse(t, confDir(t), filepath.Join(d.dir, "data"))
	s.Start()
	reader, w := s.reader(), watch(t, s.Process)
	s.takes("1")
	l := s.load()
	defer l.end()
	thaw := d.freeze()
	begun := time.Now()
	var all sync.WaitGroup
	answers := make([]answer, 2)
	all.Go(func() { answers[0] = s.setFile("c.json", "1") })
	all.Go(func() { answers[1] = s.setKey("c", "1") })
	s.edit("a.json", edited) // waits, too
	all.Wait()
	t.Logf("writes were answered after %v: %v", time.Since(begun).Round(time.Millisecond), answers)
	for _, got := range answers {
		require.Contains(t, []int{codes.Storage.HTTPStatus(), codes.Timeout.HTTPStatus()}, got.status, got.body)
	}
	s.refuses("hanging", s.Data)
	for _, store := range []string{"config", "state"} {
		s.await("the seconds", func() bool { return s.metric(`store_disk_stalled_seconds{store="`+store+`"}`) > 0 })
	}
	require.Equal(t, document, s.file("a.json"), "memory is read")
	l.end()
	thaw()
	reader.pushed(edited)
	s.takes("2")
	require.Equal(t, edited, s.file("a.json"))
	w.relieve()
	s.Kill()
	s.Start()
	require.Equal(t, edited, s.file("a.json"))
	require.Equal(t, "2", s.key("b"))
	require.Equal(t, `"2"`, s.file("b.json"))
}

// TestConfDiskThatHangs: the files are what it is about.
func TestConfDiskThatHangs(t *testing.T) {
	d := newDevice(t, 64<<20)
	if d == nil {
		t.Log("a hanging disk is proven by the tests of confstore alone")
		return
	}
	conf := filepath.Join(d.dir, "conf")
	require.NoError(t, os.Mkdir(conf, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(conf, "a.json"), []byte(document), 0o644))
	s := nurse(t, conf, "")
	s.Start()
	w := watch(t, s.Process)
	thaw := d.freeze()
	got := s.setFile("b.json", "1")
	require.Equal(t, codes.Timeout.HTTPStatus(), got.status, got.body)
	text := s.isReady(false)
	require.Contains(t, text, "[-]config failed")
	require.Contains(t, text, conf)
	require.Contains(t, text, "[+]state ok")
	require.Equal(t, http.StatusOK, s.setKey("b", "1").status)
	thaw()
	s.takes("2")
	w.relieve()
}

// TestFullDisk: the server says so once, uses no processor for it, and goes on when there is
// space.
func TestFullDisk(t *testing.T) {
	d := newDevice(t, 400<<20)
	if d == nil {
		t.Log("a full disk is proven by the tests of confstore and kvstore/disk alone")
		return
	}
	s := nurse(t, confDir(t), filepath.Join(d.dir, "data"))
	s.Start()
	reader, w := s.reader(), watch(t, s.Process)
	s.takes("1")
	l := s.load()
	s.await("the load", func() bool { return l.acks.Load() > 20 })
	d.fill()
	s.await("a refusal", func() bool { return s.setKey("b", "1").status != http.StatusOK })
	l.end()
	s.await("a refusal", func() bool {
		d.fill() // the journal has become smaller when it was written anew
		return s.setFile("b.json", large).status != http.StatusOK
	})
	s.refuses("full")
	w.relieve()

	lines, used, begun := s.Lines(), s.cpu(), time.Now()
	s.await("some seconds", func() bool { return time.Since(begun) > 30*time.Second })
	took := time.Since(begun)
	lines, used = s.Lines()-lines, s.cpu()-used
	t.Logf("in %v on a full disk: %d lines of log, %v of processor time", took.Round(time.Millisecond), lines, used)
	require.Less(t, lines, 10)
	require.Less(t, used, took/4)

	s.edit("a.json", edited)
	reader.pushed(edited)
	d.empty()
	s.takes("2")
	s.Kill()
	s.Start()
	require.Equal(t, edited, s.file("a.json"))
	require.Equal(t, "2", s.key("b"))
}

// TestConfDirectoryWithoutPermissionToWrite: programs cannot set, people can still edit.
func TestConfDirectoryWithoutPermissionToWrite(t *testing.T) {
	s := nurse(t, confDir(t), "")
	s.another()
	require.NoError(t, os.Chmod(s.Conf, 0o555))
	t.Cleanup(func() { _ = os.Chmod(s.Conf, 0o755) })
	s.Start()
	reader := s.reader()
	got := s.setFile("b.json", "1")
	require.Equal(t, codes.Storage.HTTPStatus(), got.status)
	require.Contains(t, got.body, "configuration directory")
	require.Contains(t, got.body, "permission denied")
	s.isReady(true) // many are mounted so on purpose
	require.NoError(t, os.WriteFile(filepath.Join(s.Conf, "a.json"), []byte(edited), 0o644), "in place: a person who may")
	reader.pushed(edited)
	require.NoError(t, os.Chmod(s.Conf, 0o755))
	s.takes("2")
}

// TestConfDirectoryThatIsGone keeps what it held in service.
func TestConfDirectoryThatIsGone(t *testing.T) {
	s := nurse(t, confDir(t), "")
	s.Start()
	reader := s.reader()
	require.NoError(t, os.Rename(s.Conf, s.Conf+".away"))
	require.Contains(t, s.isReady(false), "[-]config failed: the configuration directory is gone")
	require.Equal(t, document, s.file("a.json"))
	require.Contains(t, s.ask(http.MethodGet, "/v1/config/file?name=a.json", "").body, `\"k\": 1`, "the console shows it, too")
	got := s.setFile("b.json", "1")
	require.Equal(t, codes.Storage.HTTPStatus(), got.status)
	require.Contains(t, got.body, "gone")
	require.NoError(t, os.Rename(s.Conf+".away", s.Conf))
	s.takes("2")
	s.edit("a.json", edited)
	reader.pushed(edited)
}

// TestStateDirectoryThatIsGone is not taken for one that is yet to be made.
func TestStateDirectoryThatIsGone(t *testing.T) {
	for name, remove := range map[string]func(state string) error{
		"missing": os.RemoveAll,
		"emptied": func(state string) error {
			if err := os.RemoveAll(state); err != nil {
				return err
			}
			return os.Mkdir(state, 0o700)
		},
		"without its database": func(state string) error { return os.RemoveAll(filepath.Join(state, "db")) },
		"without its mark":     func(state string) error { return os.Remove(filepath.Join(state, "durable.mark")) },
	} {
		t.Run(name, func(t *testing.T) {
			s := nurse(t, confDir(t), "")
			s.Start()
			s.takes("1")
			s.Stop()
			require.NoError(t, remove(filepath.Join(s.Data, "state")))
			for range 2 {
				said, err := s.Command().CombinedOutput()
				require.Error(t, err)
				require.Contains(t, string(said), "cannot start")
				require.Contains(t, string(said), "--kv-accept-loss")
			}
			if name == "without its database" {
				require.NoError(t, os.RemoveAll(filepath.Join(s.Data, "state"))) // the rest knows of writes that are lost
			}
			after := nurse(t, s.Conf, s.Data, "--kv-accept-loss")
			after.Start()
			after.takes("2")
			after.Stop()
			s.Start()
			require.Equal(t, "2", s.key("b"))
		})
	}
}

// TestStateFilesRemovedWhileRunning: what is in memory is served, and nothing is acknowledged
// that the next start would not find.
func TestStateFilesRemovedWhileRunning(t *testing.T) {
	s := nurse(t, confDir(t), "")
	s.Start()
	s.takes("1")
	require.NoError(t, os.RemoveAll(filepath.Join(s.Data, "state")))
	text := s.isReady(false)
	require.Contains(t, text, "[-]state failed")
	require.Contains(t, text, "[+]config ok")
	require.Contains(t, text, "missing")
	require.Equal(t, "1", s.key("b"))
	require.NotEqual(t, http.StatusOK, s.setKey("b", "2").status)
	require.NotEqual(t, http.StatusOK, s.setFile("b.json", "2").status)
	s.Lives()
}
