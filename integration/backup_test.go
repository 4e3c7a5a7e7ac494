package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"confcenter/client"
	"confcenter/integration/process"
	"confcenter/kv"
	"confcenter/kvstore/backup"
)

// tool runs a verb of the binary that needs no connection.
func tool(t *testing.T, args ...string) (code int, said string) {
	t.Helper()
	cmd := toolCommand(t, args...)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		require.NoError(t, err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

func toolCommand(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	path, err := process.Binary()
	require.NoError(t, err)
	cmd := exec.Command(path, args...)
	cmd.Env = []string{"TZ=UTC"}
	return cmd
}

// must runs a verb that must succeed.
func must(t *testing.T, args ...string) string {
	t.Helper()
	code, said := tool(t, args...)
	require.Zero(t, code, "%v: %s", args, said)
	return said
}

// httpStore reads and writes a server's state store over HTTP.
type httpStore struct {
	t    *testing.T
	base string
}

func storeOf(t *testing.T, p *Process) httpStore { return httpStore{t, "http://" + p.HTTP} }

// try asks a server; any goroutine may.
func (s httpStore) try(method, path, body string) (int, string, error) {
	r, err := http.NewRequest(method, s.base+path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	reply, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	return reply.StatusCode, string(text), err
}

func (s httpStore) ask(method, path, body string) (int, string) {
	s.t.Helper()
	status, text, err := s.try(method, path, body)
	require.NoError(s.t, err)
	return status, text
}

// write is a PUT that must succeed; any goroutine may call it.
func (s httpStore) write(path, body string) bool {
	status, text, err := s.try(http.MethodPut, path, body)
	return assert.NoError(s.t, err) && assert.Equal(s.t, 200, status, text)
}

func (s httpStore) put(key, value string) bool {
	return s.write("/v1/store/key?ns=load&key="+url.QueryEscape(key), fmt.Sprintf(`{"value":%q}`, value))
}

func (s httpStore) setDocument(name, text string) bool {
	return s.write("/v1/config/file?name="+name, text)
}

// keyAt is a key as of a revision, as the server answers; 0: now.
func (s httpStore) keyAt(key string, rev int64) string {
	s.t.Helper()
	path := "/v1/store/key?ns=load&key=" + url.QueryEscape(key)
	if rev > 0 {
		path += fmt.Sprintf("&revision=%d", rev)
	}
	status, text := s.ask(http.MethodGet, path, "")
	if status == 404 {
		return "absent"
	}
	require.Equal(s.t, 200, status, text)
	return text
}

func (s httpStore) revision() int64 {
	s.t.Helper()
	_, text := s.ask(http.MethodGet, "/v1/status", "")
	var status struct{ Store struct{ Revision int64 } }
	require.NoError(s.t, json.Unmarshal([]byte(text), &status), text)
	return status.Store.Revision
}

// filesIn reads a configuration directory.
func filesIn(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	list, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, entry := range list {
		text, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		require.NoError(t, err)
		files[entry.Name()] = string(text)
	}
	return files
}

// restoredServer serves a restored data directory on its own configuration directory.
func restoredServer(t *testing.T, data, conf string) *Process {
	t.Helper()
	p := process.New(t, conf)
	p.Data = data
	p.Start()
	return p
}

const backupWriters, keysPerBackupWriter = 4, 8

// While writers go on, a backup is as of one revision: each key in it is what the old server says
// it was then, and so are the documents.
func TestSoakBackupUnderLoadIsOneRevision(t *testing.T) {
	rounds := 2
	if os.Getenv("CONFCENTER_SOAK") == "1" {
		rounds = 60
	}
	p := process.Start(t, t.TempDir(), "--kv-history-versions=1000000")
	store := storeOf(t, p)
	var writing sync.WaitGroup
	var stop atomic.Bool
	var writes atomic.Int64
	for w := range backupWriters {
		writing.Go(func() {
			for n := 0; !stop.Load(); n++ {
				if n%10 == 9 && !store.setDocument(fmt.Sprintf("doc%d.json", w), fmt.Sprintf(`{"n":%d}`, n)) {
					return
				}
				if !store.put(fmt.Sprintf("%d/%d", w, n%keysPerBackupWriter), fmt.Sprint(n, strings.Repeat("x", n%5000))) {
					return
				}
				writes.Add(1)
			}
		})
	}
	defer writing.Wait()
	defer stop.Store(true)
	for round := range rounds {
		for before := writes.Load(); writes.Load() < before+50; {
			require.False(t, t.Failed())
			store.revision() // which takes a moment
		}
		file := filepath.Join(t.TempDir(), "all.backup")
		said := must(t, "backup", "--http", p.HTTP, "-o", "json", file)
		var made struct{ Revision, Rows int64 }
		require.NoError(t, json.Unmarshal([]byte(said), &made), said)
		require.NoFileExists(t, file+".partial")
		require.Contains(t, must(t, "verify", file), "no faults")
		data := filepath.Join(t.TempDir(), "data")
		must(t, "restore", file, data)
		require.Contains(t, must(t, "verify", data), "no faults")
		other := restoredServer(t, data, t.TempDir())
		restored := storeOf(t, other)
		for w := range backupWriters {
			for k := range keysPerBackupWriter {
				key := fmt.Sprintf("%d/%d", w, k)
				require.Equal(t, store.keyAt(key, made.Revision), restored.keyAt(key, 0), "round %d, revision %d", round, made.Revision)
			}
		}
		require.Greater(t, restored.revision(), store.revision(), "no revision of the old life comes again")
		for name, text := range filesIn(t, other.Conf) {
			_, asked := restored.ask(http.MethodGet, "/v1/config/file?name="+name, "")
			require.JSONEq(t, text, documentOf(t, asked), name)
		}
		require.Len(t, filesIn(t, other.Conf), backupWriters)
		other.Stop()
	}
}

// documentOf is the document in an answer of /v1/config/file.
func documentOf(t *testing.T, answer string) string {
	t.Helper()
	var file struct{ Text string }
	require.NoError(t, json.Unmarshal([]byte(answer), &file), answer)
	return file.Text
}

func TestRestoreAsOfAnEarlierRevisionAndTime(t *testing.T) {
	p := process.Start(t, t.TempDir())
	store := storeOf(t, p)
	store.setDocument("a.json", `{"v":1}`)
	store.put("key", "1")
	rev, at := store.revision(), time.Now()
	for time.Since(at) < 5*time.Millisecond { // times are kept in ms
		store.revision()
	}
	store.setDocument("a.json", `{"v":2}`)
	store.setDocument("b.json", `{}`)
	store.put("key", "2")
	store.put("new", "1")
	last := store.revision()
	file := filepath.Join(t.TempDir(), "all.backup")
	must(t, "backup", "--http", p.HTTP, file)
	then := store.keyAt("key", rev)
	for _, to := range [][]string{{"--revision", fmt.Sprint(rev)}, {"--time", at.Add(2 * time.Millisecond).Format(time.RFC3339Nano)}} {
		data := filepath.Join(t.TempDir(), "data")
		require.Contains(t, must(t, append([]string{"restore", file, data}, to...)...), fmt.Sprintf("revision %d;", rev))
		require.Contains(t, must(t, "verify", data), "no faults")
		conf := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(conf, "b.json"), []byte(`{}`), 0o644)) // as the old one has it
		other := restoredServer(t, data, conf)
		restored := storeOf(t, other)
		require.Equal(t, then, restored.keyAt("key", 0))
		require.Equal(t, "absent", restored.keyAt("new", 0))
		files := filesIn(t, conf)
		require.Len(t, files, 1)
		require.JSONEq(t, `{"v":1}`, files["a.json"])
		restored.setDocument("a.json", `{"v":3}`) // and it goes on
		other.Stop()
		require.Contains(t, must(t, "verify", data), "no faults")
	}
	code, said := tool(t, "restore", file, filepath.Join(t.TempDir(), "data"), "--revision", fmt.Sprint(last+1))
	require.Equal(t, 5, code, said)
	require.Contains(t, said, "in the future")
	code, said = tool(t, "restore", file, filepath.Join(t.TempDir(), "data"), "--time", "2001-01-01")
	require.Equal(t, 5, code, said)
	require.Contains(t, said, "the oldest possible one is")
}

// largeStore writes so much that a backup takes a while.
func largeStore(t *testing.T, p *Process) {
	t.Helper()
	store := storeOf(t, p)
	value := strings.Repeat("x", 1<<20)
	for i := range 24 {
		store.put(fmt.Sprint(i), value)
	}
}

// proxy passes connections on to a server, and only so many bytes of what it answers; then it
// waits until it is closed.
func proxy(t *testing.T, to string, most int64) (addr string, passed <-chan struct{}) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan struct{})
	var running sync.WaitGroup
	t.Cleanup(func() {
		_ = l.Close()
		running.Wait()
	})
	running.Go(func() {
		peer, err := l.Accept()
		if err != nil {
			return
		}
		defer peer.Close()
		server, err := net.Dial("tcp", to)
		if err != nil {
			return
		}
		defer server.Close()
		running.Go(func() {
			_, _ = io.Copy(server, peer)
			_ = server.Close()
		})
		_, _ = io.CopyN(peer, server, most)
		close(done)
		var one [1]byte
		_, _ = server.Read(one[:0])
		_, _ = io.Copy(io.Discard, server) // until the peer has gone
	})
	return l.Addr().String(), done
}

func TestABackupThatIsCutIsCalledPartial(t *testing.T) {
	p := process.Start(t, t.TempDir())
	largeStore(t, p)
	for _, kill := range []func(cmd *exec.Cmd){
		func(cmd *exec.Cmd) { _ = cmd.Process.Kill() },
		func(*exec.Cmd) { p.Kill() },
	} {
		file := filepath.Join(t.TempDir(), "all.backup")
		addr, passed := proxy(t, p.HTTP, 10<<20)
		cmd := toolCommand(t, "backup", "--http", addr, file)
		var said bytes.Buffer
		cmd.Stdout, cmd.Stderr = &said, &said
		require.NoError(t, cmd.Start())
		<-passed
		kill(cmd)
		require.Error(t, cmd.Wait())
		require.NoFileExists(t, file)
		require.FileExists(t, file+".partial")
		code, told := tool(t, "verify", file+".partial")
		require.Equal(t, 1, code, told)
		require.Contains(t, told, "incomplete")
		data := filepath.Join(t.TempDir(), "data")
		code, told = tool(t, "restore", file+".partial", data)
		require.Equal(t, 1, code, told)
		require.NoDirExists(t, data)
	}
}

func TestAnInterruptedRestoreIsNotServed(t *testing.T) {
	p := process.Start(t, t.TempDir())
	largeStore(t, p)
	file := filepath.Join(t.TempDir(), "all.backup")
	must(t, "backup", "--http", p.HTTP, file)
	data := filepath.Join(t.TempDir(), "data")
	cmd := toolCommand(t, "restore", file, data)
	require.NoError(t, cmd.Start())
	for { // the mark is the first thing there, and many MiB follow
		if _, err := os.Stat(filepath.Join(data, "restore.incomplete")); err == nil {
			break
		}
		require.Nil(t, cmd.ProcessState)
	}
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	for _, args := range [][]string{
		{"serve", "--listen", "127.0.0.1:0", "--http", "", "--conf", t.TempDir(), "--data", data},
		{"verify", data}, {"restore", file, data}, {"backup", "--data", data, file + "2"},
	} {
		code, said := tool(t, args...)
		require.NotZero(t, code, args)
		require.Contains(t, said, "did not finish", args)
	}
	require.NoError(t, os.RemoveAll(data))
	must(t, "restore", file, data)
	must(t, "verify", data)
}

// A backup in which every nth byte is another one is refused by name, and nothing is written.
func TestADamagedBackupIsRefused(t *testing.T) {
	p := process.Start(t, t.TempDir())
	store := storeOf(t, p)
	store.setDocument("a.json", `{"v":"`+strings.Repeat("x", 10_000)+`"}`)
	store.put("key", "1")
	file := filepath.Join(t.TempDir(), "all.backup")
	must(t, "backup", "--http", p.HTTP, file)
	good, err := os.ReadFile(file)
	require.NoError(t, err)
	bad := filepath.Join(t.TempDir(), "bad.backup")
	data := filepath.Join(t.TempDir(), "data")
	const places = 24
	for i := range places {
		at := i * len(good) / places
		text := bytes.Clone(good)
		text[at] ^= 0x20
		require.NoError(t, os.WriteFile(bad, text, 0o600))
		code, said := tool(t, "restore", bad, data)
		require.Equal(t, 1, code, "byte %d: %s", at, said)
		require.Contains(t, said, "backup")
		require.NoDirExists(t, data)
	}
	code, said := tool(t, "verify", bad)
	require.Equal(t, 1, code)
	require.Contains(t, said, bad)
	_, err = backup.Read(bytes.NewReader(good), func(backup.Head) error { return nil }, func(_, _ []byte) error { return nil })
	require.NoError(t, err)
}

func TestVerifyRefusesADirectoryInUse(t *testing.T) {
	p := process.Start(t, t.TempDir())
	storeOf(t, p).put("key", "1")
	for _, args := range [][]string{{"verify", p.Data}, {"backup", "--data", p.Data, filepath.Join(t.TempDir(), "f")}} {
		code, said := tool(t, args...)
		require.Equal(t, 5, code, said)
		require.Contains(t, said, "in use")
	}
	p.Kill()
	require.Contains(t, must(t, "verify", p.Data), "no faults")
	file := filepath.Join(t.TempDir(), "all.backup")
	must(t, "backup", "--data", p.Data, file)
	require.Contains(t, must(t, "verify", file), "no faults")
	names, err := filepath.Glob(filepath.Join(p.Data, "state", "db", "*.sst"))
	require.NoError(t, err)
	logs, err := filepath.Glob(filepath.Join(p.Data, "state", "db", "*.log"))
	require.NoError(t, err)
	require.NotEmpty(t, append(names, logs...))
	for _, name := range append(names, logs...) {
		require.NoError(t, os.Truncate(name, 0))
	}
	code, said := tool(t, "verify", p.Data)
	require.Equal(t, 1, code, said)
}

// Clients of a server whose data is restored, and older than what they have seen, are given what
// there is, and take nothing of what came after the backup for current.
func TestClientsOfARestoredServerBeginAnew(t *testing.T) {
	p := process.Start(t, t.TempDir())
	store := storeOf(t, p)
	store.setDocument("a.json", `{"v":1}`)
	store.put("key", "1")
	file := filepath.Join(t.TempDir(), "all.backup")
	must(t, "backup", "--http", p.HTTP, file)

	connected, err := client.Dial(t.Context(), client.Config{Addrs: []string{p.Addr}, Name: "watcher"})
	require.NoError(t, err)
	defer connected.Close()
	documents := make(chan string, 100)
	_, err = connected.Watch(t.Context(), client.Query{Name: "a.json"}, func(d *client.Document) { documents <- string(d.Raw()) })
	require.NoError(t, err)
	keys, err := connected.KV("load").Watch(t.Context(), client.WatchOptions{State: true})
	require.NoError(t, err)
	defer keys.Stop()
	known := map[string]string{}
	until := func(wanted map[string]string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for !assert.ObjectsAreEqual(wanted, known) {
			notice, err := keys.Next(ctx)
			require.NoError(t, err, "known is %v", known)
			if notice.Kind == kv.Resync {
				clear(known)
			}
			for _, e := range notice.Events {
				known[e.Entry.Key] = string(e.Entry.Value.Data)
			}
		}
	}
	document := func(wanted string) {
		t.Helper()
		deadline := time.After(time.Minute)
		for {
			select {
			case text := <-documents:
				if text == wanted {
					return
				}
			case <-deadline:
				require.FailNow(t, "the document did not come", wanted)
			}
		}
	}
	for i := 2; i <= 20; i++ {
		store.setDocument("a.json", fmt.Sprintf(`{"v":%d}`, i))
		store.put("key", fmt.Sprint(i))
	}
	store.put("new", "1")
	until(map[string]string{"key": "20", "new": "1"})
	document(`{"v":20}`)
	epoch, last := connected.Epoch(), store.revision()
	p.Kill()

	data := filepath.Join(t.TempDir(), "data")
	must(t, "restore", file, data)
	other := process.New(t, t.TempDir())
	other.Data, other.Addr = data, p.Addr
	other.Start()
	until(map[string]string{"key": "1"})
	document(`{"v":1}`)
	require.NotEqual(t, epoch, connected.Epoch())
	restored := storeOf(t, other)
	restored.put("key", "new life")
	restored.setDocument("a.json", `{"v":"new life"}`)
	until(map[string]string{"key": "new life"})
	document(`{"v":"new life"}`)
	status, text := restored.ask(http.MethodGet, fmt.Sprintf("/v1/store/key?ns=load&key=key&revision=%d", last), "")
	require.Equal(t, 410, status, text)
}
