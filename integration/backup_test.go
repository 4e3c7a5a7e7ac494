package integration

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"confcenter/client"
	"confcenter/integration/process"
	"confcenter/kv"
	"confcenter/kvstore/backup"
)

func TestRestoreAsOfAnEarlierRevisionAndTime(t *testing.T) {
	p := process.Start(t, t.TempDir())
	store := process.StoreOf(t, p)
	store.SetDocument("a.json", `{"v":1}`)
	store.Put("key", "1")
	rev, at := store.Revision(), time.Now()
	for time.Since(at) < 5*time.Millisecond { // times are kept in ms
		store.Revision()
	}
	store.SetDocument("a.json", `{"v":2}`)
	store.SetDocument("b.json", `{}`)
	store.Put("key", "2")
	store.Put("new", "1")
	last := store.Revision()
	file := filepath.Join(t.TempDir(), "all.backup")
	process.Must(t, "backup", "--http", p.HTTP, file)
	then := store.KeyAt("key", rev)
	for _, to := range [][]string{{"--revision", fmt.Sprint(rev)}, {"--time", at.Add(2 * time.Millisecond).Format(time.RFC3339Nano)}} {
		data := filepath.Join(t.TempDir(), "data")
		require.Contains(t, process.Must(t, append([]string{"restore", file, data}, to...)...), fmt.Sprintf("revision %d;", rev))
		require.Contains(t, process.Must(t, "verify", data), "no faults")
		conf := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(conf, "b.json"), []byte(`{}`), 0o644)) // as the old one has it
		other := process.Restored(t, data, conf)
		restored := process.StoreOf(t, other)
		require.Equal(t, then, restored.KeyAt("key", 0))
		require.Equal(t, "absent", restored.KeyAt("new", 0))
		files := process.Files(t, conf)
		require.Len(t, files, 1)
		require.JSONEq(t, `{"v":1}`, files["a.json"])
		restored.SetDocument("a.json", `{"v":3}`) // and it goes on
		other.Stop()
		require.Contains(t, process.Must(t, "verify", data), "no faults")
	}
	code, said := process.Tool(t, "restore", file, filepath.Join(t.TempDir(), "data"), "--revision", fmt.Sprint(last+1))
	require.Equal(t, 5, code, said)
	require.Contains(t, said, "in the future")
	code, said = process.Tool(t, "restore", file, filepath.Join(t.TempDir(), "data"), "--time", "2001-01-01")
	require.Equal(t, 5, code, said)
	require.Contains(t, said, "the oldest possible one is")
}

// largeStore writes so much that a backup takes a while.
func largeStore(t *testing.T, p *Process) {
	t.Helper()
	store := process.StoreOf(t, p)
	value := strings.Repeat("x", 1<<20)
	for i := range 24 {
		store.Put(fmt.Sprint(i), value)
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
		cmd := process.ToolCommand(t, "backup", "--http", addr, file)
		var said bytes.Buffer
		cmd.Stdout, cmd.Stderr = &said, &said
		require.NoError(t, cmd.Start())
		<-passed
		kill(cmd)
		require.Error(t, cmd.Wait())
		require.NoFileExists(t, file)
		require.FileExists(t, file+".partial")
		code, told := process.Tool(t, "verify", file+".partial")
		require.Equal(t, 1, code, told)
		require.Contains(t, told, "incomplete")
		data := filepath.Join(t.TempDir(), "data")
		code, told = process.Tool(t, "restore", file+".partial", data)
		require.Equal(t, 1, code, told)
		require.NoDirExists(t, data)
	}
}

func TestAnInterruptedRestoreIsNotServed(t *testing.T) {
	p := process.Start(t, t.TempDir())
	largeStore(t, p)
	file := filepath.Join(t.TempDir(), "all.backup")
	process.Must(t, "backup", "--http", p.HTTP, file)
	data := filepath.Join(t.TempDir(), "data")
	cmd := process.ToolCommand(t, "restore", file, data)
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
		code, said := process.Tool(t, args...)
		require.NotZero(t, code, args)
		require.Contains(t, said, "did not finish", args)
	}
	require.NoError(t, os.RemoveAll(data))
	process.Must(t, "restore", file, data)
	process.Must(t, "verify", data)
}

// A backup in which every nth byte is another one is refused by name, and nothing is written.
func TestADamagedBackupIsRefused(t *testing.T) {
	p := process.Start(t, t.TempDir())
	store := process.StoreOf(t, p)
	store.SetDocument("a.json", `{"v":"`+strings.Repeat("x", 10_000)+`"}`)
	store.Put("key", "1")
	file := filepath.Join(t.TempDir(), "all.backup")
	process.Must(t, "backup", "--http", p.HTTP, file)
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
		code, said := process.Tool(t, "restore", bad, data)
		require.Equal(t, 1, code, "byte %d: %s", at, said)
		require.Contains(t, said, "backup")
		require.NoDirExists(t, data)
	}
	code, said := process.Tool(t, "verify", bad)
	require.Equal(t, 1, code)
	require.Contains(t, said, bad)
	_, err = backup.Read(bytes.NewReader(good), func(backup.Head) error { return nil }, func(_, _ []byte) error { return nil })
	require.NoError(t, err)
}

func TestVerifyRefusesADirectoryInUse(t *testing.T) {
	p := process.Start(t, t.TempDir())
	process.StoreOf(t, p).Put("key", "1")
	for _, args := range [][]string{{"verify", p.Data}, {"backup", "--data", p.Data, filepath.Join(t.TempDir(), "f")}} {
		code, said := process.Tool(t, args...)
		require.Equal(t, 5, code, said)
		require.Contains(t, said, "in use")
	}
	p.Kill()
	require.Contains(t, process.Must(t, "verify", p.Data), "no faults")
	file := filepath.Join(t.TempDir(), "all.backup")
	process.Must(t, "backup", "--data", p.Data, file)
	require.Contains(t, process.Must(t, "verify", file), "no faults")
	names, err := filepath.Glob(filepath.Join(p.Data, "state", "db", "*.sst"))
	require.NoError(t, err)
	logs, err := filepath.Glob(filepath.Join(p.Data, "state", "db", "*.log"))
	require.NoError(t, err)
	require.NotEmpty(t, append(names, logs...))
	for _, name := range append(names, logs...) {
		require.NoError(t, os.Truncate(name, 0))
	}
	code, said := process.Tool(t, "verify", p.Data)
	require.Equal(t, 1, code, said)
}

// Clients of a server whose data is restored, and older than what they have seen, are given what
// there is, and take nothing of what came after the backup for current.
func TestClientsOfARestoredServerBeginAnew(t *testing.T) {
	p := process.Start(t, t.TempDir())
	store := process.StoreOf(t, p)
	store.SetDocument("a.json", `{"v":1}`)
	store.Put("key", "1")
	file := filepath.Join(t.TempDir(), "all.backup")
	process.Must(t, "backup", "--http", p.HTTP, file)

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
		store.SetDocument("a.json", fmt.Sprintf(`{"v":%d}`, i))
		store.Put("key", fmt.Sprint(i))
	}
	store.Put("new", "1")
	until(map[string]string{"key": "20", "new": "1"})
	document(`{"v":20}`)
	epoch, last := connected.Epoch(), store.Revision()
	p.Kill()

	data := filepath.Join(t.TempDir(), "data")
	process.Must(t, "restore", file, data)
	other := process.New(t, t.TempDir())
	other.Data, other.Addr = data, p.Addr
	other.Start()
	until(map[string]string{"key": "1"})
	document(`{"v":1}`)
	require.NotEqual(t, epoch, connected.Epoch())
	restored := process.StoreOf(t, other)
	restored.Put("key", "new life")
	restored.SetDocument("a.json", `{"v":"new life"}`)
	until(map[string]string{"key": "new life"})
	document(`{"v":"new life"}`)
	status, text := restored.Ask(http.MethodGet, fmt.Sprintf("/v1/store/key?ns=load&key=key&revision=%d", last), "")
	require.Equal(t, 410, status, text)
}
