package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// patience is how long a test waits for what must happen.
const patience = time.Minute

// logLine is what tests look at in a line of the server's log.
type logLine struct {
	Level, Message, Address, HTTP, Version, Reason string
	TLS, HTTPS                                     string
	Files                                          int
	ServerID                                       int `json:"server_id"`
}

// serverLog reads a server's log and hands out its lines.
type serverLog struct {
	lines chan logLine
	all   sync.WaitGroup
}

func readLog(in io.Reader) *serverLog {
	l := &serverLog{lines: make(chan logLine, 1000)}
	l.all.Go(func() {
		defer close(l.lines)
		for scanner := bufio.NewScanner(in); scanner.Scan(); {
			var line logLine
			if json.Unmarshal(scanner.Bytes(), &line) != nil {
				line.Message = scanner.Text()
			}
			l.lines <- line
		}
	})
	return l
}

// await returns the next line whose message contains text.
func (l *serverLog) await(t *testing.T, text string) logLine {
	t.Helper()
	late := time.After(patience)
	for {
		select {
		case line, ok := <-l.lines:
			require.True(t, ok, "the log ended without %q", text)
			if strings.Contains(line.Message, text) {
				return line
			}
		case <-late:
			t.Fatalf("no line with %q in the log", text)
		}
	}
}

// serve runs a server in this process on a copy of the sample configuration
// until the test ends. It returns its address and its configuration directory.
func serve(t *testing.T, flags ...string) (addr, conf string) {
	t.Helper()
	dir := t.TempDir()
	conf = filepath.Join(dir, "conf")
	require.NoError(t, os.CopyFS(conf, os.DirFS("../../conf")))
	ctx, cancel := context.WithCancel(context.Background())
	reader, writer := io.Pipe()
	log := readLog(reader)
	code := make(chan int, 1)
	go func() {
		args := append([]string{"serve", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--loops", "1", "--conf", conf, "--data", filepath.Join(dir, "data")}, flags...)
		code <- run(ctx, args, strings.NewReader(""), io.Discard, writer)
		writer.Close()
	}()
	t.Cleanup(func() {
		cancel()
		require.Equal(t, exitOK, <-code)
		for range log.lines {
		}
		log.all.Wait()
	})
	return log.await(t, "ready").Address, conf
}

// at adds the address to a command line.
func at(addr string, words ...string) []string { return append(words, "--addr", addr) }

func TestSessionOfClientVerbs(t *testing.T) {
	addr, _ := serve(t)
	steps := []struct {
		name, stdin    string
		args           []string
		code           int
		stdout, stderr string // regular expressions
	}{
		{"a file", "", []string{"get", "app1.json"}, exitOK, `^\{\n    "key1": "key1 in app1",\n    "hojl": "hejinlong"\n\}\n$`, `^$`},
		{"without .json", "", []string{"get", "app2-dev"}, exitOK, `"key4": 1234`, `^$`},
		{"at a path", "", []string{"get", "app1-dev", "/key3/subkey3"}, exitOK, `^"value3"\n$`, `^$`},
		{"at a path, raw", "", []string{"get", "app1-dev", "/key3/subkey3", "--raw"}, exitOK, `^value3\n$`, `^$`},
		{"merged", "", []string{"get", "app1-dev", "/hojl", "-m"}, exitOK, `^"hejinlong"\n$`, `^$`},
		{"as JSON", "", []string{"get", "app1-dev", "/key3", "-o", "json"}, exitOK,
			`^\{"name":"app1-dev","path":"/key3","merged":false,"mtime":\d+,"exists":true,"contents":\{"subkey3":"value3"\}\}\n$`, `^$`},
		{"no such file", "", []string{"get", "none"}, exitNotFound, `^$`, `confcenter: .*none`},
		{"no such file, at a path", "", []string{"get", "none", "/a"}, exitNotFound, `^$`, `^confcenter: there is no file none\n$`},
		{"no such file, merged", "", []string{"get", "none", "/a", "-m"}, exitNotFound, `^$`, `^confcenter: there is no file none, and nothing at /a in what it inherits\n$`},
		{"nothing at the path", "", []string{"get", "app1", "/none"}, exitNotFound, `^$`, `/none`},
		{"inherited, but not asked for", "", []string{"get", "app1-dev", "/hojl"}, exitNotFound, `^$`, `/hojl`},

		{"set from standard input", `{"n": 1.50, "big": 12345678901234567890}`, []string{"set", "new"}, exitOK, `^new \d+\n$`, `^$`},
		{"numbers as they were", "", []string{"get", "new.json", "-o", "json"}, exitOK, `"contents":\{"n":1.50,"big":12345678901234567890\}`, `^$`},
		{"set with a version", `{"v":1}`, []string{"set", "versioned", "--mtime", "1600000000", "-o", "json"}, exitOK,
			`^\{"deleted":false,"mtime":1600000000,"name":"versioned"\}\n$`, `^$`},
		{"set something older", `{"v":0}`, []string{"set", "versioned", "--mtime", "1599999999"}, exitRefused, `^$`, `the mtime served is 1600000000`},
		{"set on a condition that fails", `{"v":2}`, []string{"set", "versioned", "--if-mtime", "5"}, exitRefused, `^$`, `the mtime served is 1600000000`},
		{"set what must not be there", `{"v":2}`, []string{"set", "versioned", "--if-mtime", "0"}, exitRefused, `^$`, `1600000000`},
		{"refused writes change nothing", "", []string{"get", "versioned", "/v"}, exitOK, `^1\n$`, `^$`},
		{"set on a condition that holds", `{"v":2}`, []string{"set", "versioned", "--if-mtime", "1600000000"}, exitOK, `^versioned \d{10}\n$`, `^$`},
		{"a name that is not allowed", `{}`, []string{"set", "../up"}, exitRefused, `^$`, `\.\./up`},
		{"remove on a condition that fails", "", []string{"rm", "versioned", "--if-mtime", "5"}, exitRefused, `^$`, `delete versioned: .*\d{10}`},
		{"remove", "", []string{"rm", "versioned"}, exitOK, `^versioned \d+\n$`, `^$`},
		{"removed", "", []string{"get", "versioned", "/v"}, exitNotFound, `^$`, `there is no file versioned`},
		{"remove what is gone", "", []string{"rm", "versioned"}, exitOK, `^versioned \d+\n$`, `^$`},
		{"remove what never was", "", []string{"rm", "never-there"}, exitNotFound, `^$`, `rm never-there: there is no such file, and never was`},

		{"set one value", "", []string{"set", "new", "/n", "2.50"}, exitOK, `^new \d+\n$`, `^$`},
		{"and nothing else", "", []string{"get", "new", "-o", "json"}, exitOK, `"contents":\{"n":2.50,"big":12345678901234567890\}`, `^$`},
		{"set a value below", "", []string{"set", "new", "/a/b", `"text"`}, exitOK, `^new \d+\n$`, `^$`},
		{"where it was missing", "", []string{"get", "new", "/a", "-o", "json"}, exitOK, `"contents":\{"b":"text"\}`, `^$`},
		{"set a value that is not JSON", "", []string{"set", "new", "/a", "text"}, exitUsage, `^$`, `VALUE text is not JSON: .*'"text"'`},
		{"set a value where none can be", "", []string{"set", "new", "/n/x", "1"}, exitRefused, `^$`, `set new /n/x: "x" would have to be a member of a number`},
		{"set a value of no file", "", []string{"set", "none", "/n", "1"}, exitNotFound, `^$`, `set none /n: there is no such file yet: .*set none`},
		{"set a value on a condition that fails", "", []string{"set", "new", "/n", "1", "--if-mtime", "5"}, exitRefused, `^$`, `the mtime served is \d+`},

		{"list", "", []string{"ls"}, exitOK, `(?s)NAME +STATE +SIZE +MTIME +TIME\n_meta\.json +good .*\nversioned\.json +deleted `, `^$`},
		{"list as JSON", "", []string{"ls", "-o", "json"}, exitOK, `^\{"files":\[.*\{"name":"versioned\.json",[^}]*"state":"deleted"\}.*\],"problems":\[\]\}\n$`, `^$`},
		{"clients", "", []string{"clients"}, exitOK, `^ID +NAME +TAG +ADDRESS\n2\d+ +confcenter +- +127\.0\.0\.1:\d+\n`, `^$`},
		{"clients as JSON", "", []string{"clients", "-o", "json"}, exitOK, `^\[\{.*"svrname":"confcenter".*\}\]\n$`, `^$`},
		{"the second address", "", []string{"get", "app1", "--addr", "127.0.0.1:1, " + addr}, exitOK, `hejinlong`, ``},
	}
	for _, s := range steps {
		t.Run(s.name, func(t *testing.T) {
			args := s.args
			if !strings.Contains(strings.Join(args, " "), "--addr") {
				args = at(addr, args...)
			}
			r := call(t, s.stdin, args...)
			require.Equal(t, s.code, r.code, r.stderr)
			require.Regexp(t, s.stdout, r.stdout)
			require.Regexp(t, s.stderr, r.stderr)
		})
	}
}

func TestClientAtTheHTTPPortNamesTheCause(t *testing.T) {
	_, flags := home(t)
	p := startServer(t, append(flags, "--listen", "127.0.0.1:0")...)
	ready := p.log.await(t, "ready")
	for _, verb := range []string{"ls", "get a", "watch a", "kv get a b"} {
		r := call(t, "", at(ready.HTTP, strings.Fields(verb)...)...)
		require.Equal(t, exitUnreachable, r.code)
		require.Regexp(t, ready.HTTP+`: the other side speaks HTTP; programs and the command line use the TCP port \(--listen, 4800\)`, r.stderr)
	}
	_, err := http.Get("http://" + ready.Address)
	require.Error(t, err)
	require.Contains(t, p.log.await(t, "connection closed by the server").Reason, "browsers and curl the HTTP port (--http, 8080)")
	p.signal(t, syscall.SIGTERM)
	require.Equal(t, exitOK, p.end())
}

// Each sets a member of its own in the same file: the slower one begins again.
func TestSetOfOneValueLosesNobodyElses(t *testing.T) {
	addr, _ := serve(t)
	require.Equal(t, exitOK, call(t, `{}`, at(addr, "set", "shared")...).code)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			r := call(t, "", at(addr, "set", "shared", fmt.Sprintf("/k%d", i), strconv.Itoa(i))...)
			assert.Equal(t, exitOK, r.code, r.stderr)
		})
	}
	all.Wait()
	got := call(t, "", at(addr, "get", "shared")...).stdout
	for i := range 8 {
		require.Contains(t, got, fmt.Sprintf(`"k%d": %d`, i, i))
	}
}

func TestListTellsWhatIsBroken(t *testing.T) {
	addr, conf := serve(t)
	write(t, conf, "app1.json", `{"key1": `)
	write(t, conf, "_meta.json", `{"conf_inherit": {"app1.json": "gone.json"}}`)
	require.Eventually(t, func() bool {
		r := call(t, "", at(addr, "ls")...)
		return r.code == exitOK && strings.Contains(r.stdout, "broken (") && strings.Contains(r.stderr, "gone.json")
	}, patience, 20*time.Millisecond)
	require.Contains(t, call(t, "", at(addr, "get", "app1")...).stdout, "hejinlong", "the last good version is served")
	require.Equal(t, exitFailed, call(t, "", "check", conf).code, "check finds the same")
}

// What is served of a broken file is not what lies there: someone is at work on that.
func TestSetOfOneValueSparesABrokenFile(t *testing.T) {
	addr, conf := serve(t)
	const half = `{"key1": `
	write(t, conf, "app1.json", half)
	require.Eventually(t, func() bool {
		return strings.Contains(call(t, "", at(addr, "ls")...).stdout, "broken (")
	}, patience, 20*time.Millisecond)
	for _, name := range []string{"app1", "app1.json"} {
		r := call(t, "", at(addr, "set", name, "/key1", "1")...)
		require.Equal(t, exitRefused, r.code)
		require.Regexp(t, `set \S+ /key1: the file is broken, .*; fix it first, or set the whole file`, r.stderr)
	}
	text, err := os.ReadFile(filepath.Join(conf, "app1.json"))
	require.NoError(t, err)
	require.Equal(t, half, string(text))
	require.Equal(t, exitOK, call(t, "{}", at(addr, "set", "app1")...).code)
	require.Equal(t, exitOK, call(t, "", at(addr, "set", "app1", "/key1", "1")...).code)
}

func TestCompletionOfNames(t *testing.T) {
	addr, _ := serve(t)
	require.Equal(t, exitOK, call(t, "", at(addr, "rm", "app1-test")...).code)
	require.Equal(t, []string{"app1-default.json", "app1-dev.json", "app1.json"}, complete(t, "get", "--addr", addr, "app1"), "a deleted file is not offered")
	t.Setenv("CONFCENTER_ADDR", addr)
	require.Equal(t, []string{"web.json"}, complete(t, "watch", "we"))
	require.Empty(t, complete(t, "get", "web.json", ""), "a path is not completed")
}

// watching runs watch until the test ends and hands out its lines.
func watching(t *testing.T, args ...string) (lines *bufio.Scanner, stop func() int) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	reader, writer := io.Pipe()
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, append([]string{"watch"}, args...), strings.NewReader(""), writer, io.Discard)
		writer.Close()
	}()
	var once sync.Once
	result := 0
	stop = func() int {
		once.Do(func() {
			cancel()
			go func() { _, _ = io.Copy(io.Discard, reader) }() // ends when watch's side is closed
			result = <-code
		})
		return result
	}
	t.Cleanup(func() { stop() })
	return bufio.NewScanner(reader), stop
}

func TestWatchPrintsOneLineAChange(t *testing.T) {
	addr, conf := serve(t)
	lines, stop := watching(t, at(addr, "app2-dev", "/key4")...)
	next := func() string {
		t.Helper()
		require.True(t, lines.Scan())
		return lines.Text()
	}
	require.Regexp(t, `^\d+ app2-dev /key4 1234$`, next())
	require.Equal(t, exitOK, call(t, `{"key4": {"a": [1, 2]}}`, at(addr, "set", "app2-dev")...).code)
	require.Regexp(t, `^\d+ app2-dev /key4 \{"a":\[1,2\]\}$`, next())
	write(t, conf, "app2-dev.json", `{"key4": "by hand"}`)
	require.Regexp(t, `^\d+ app2-dev /key4 "by hand"$`, next())
	require.Equal(t, exitOK, call(t, "", at(addr, "rm", "app2-dev")...).code)
	require.Regexp(t, `^\d+ app2-dev /key4 absent$`, next())
	require.Equal(t, exitOK, stop(), "to be interrupted is how a watch ends")
}

func TestWatchAsJSONFollowsWhatIsInherited(t *testing.T) {
	addr, conf := serve(t)
	lines, _ := watching(t, at(addr, "app1-dev.json", "--merged", "-o", "json", "--count", "2")...)
	require.True(t, lines.Scan())
	require.Regexp(t, `^\{"name":"app1-dev\.json","merged":true,"mtime":\d+,"exists":true,"contents":\{.*"hojl":"hejinlong".*\}\}$`, lines.Text())
	write(t, conf, "app1.json", `{"hojl": "from the base"}`)
	require.True(t, lines.Scan())
	require.Contains(t, lines.Text(), `"hojl":"from the base"`)
	require.False(t, lines.Scan(), "--count 2 ends after two lines")
}
