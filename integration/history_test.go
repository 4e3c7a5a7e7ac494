package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/client"
	"confcenter/client/calls"
	"confcenter/codes"
	"confcenter/confstore/history"
	"confcenter/confstore/log"
	"confcenter/integration/process"
	"confcenter/internal/servertest"
	"confcenter/kvstore"
	"confcenter/kvstore/disk"
)

// past is a server and those who ask it for the history of its documents.
type past struct {
	t      *testing.T
	server *Process
}

// verb runs a verb of the binary.
func (p *past) verb(args ...string) (code int, stdout, stderr string) {
	p.t.Helper()
	cli := newCLI(p.t, p.server)
	cli.verb = args[0]
	return cli.run("", args[1:]...)
}

func (p *past) ok(args ...string) string {
	p.t.Helper()
	code, stdout, stderr := p.verb(args...)
	require.Zero(p.t, code, "%v: %s", args, stderr)
	return stdout
}

// get asks over HTTP.
func (p *past) get(path string, query ...string) (status int, body string) {
	p.t.Helper()
	q := url.Values{}
	for i := 0; i < len(query); i += 2 {
		q.Set(query[i], query[i+1])
	}
	r, err := http.Get("http://" + p.server.HTTP + "/v1/history/" + path + "?" + q.Encode())
	require.NoError(p.t, err)
	defer func() { _ = r.Body.Close() }()
	text, err := io.ReadAll(r.Body)
	require.NoError(p.t, err)
	return r.StatusCode, string(text)
}

func (p *past) dial() *calls.HistoryCalls {
	p.t.Helper()
	c, err := client.Dial(p.t.Context(), client.Config{Addrs: []string{p.server.Addr}, Name: "history"})
	require.NoError(p.t, err)
	p.t.Cleanup(func() { require.NoError(p.t, c.Close()) })
	return calls.History(c)
}

// revisions are those of a document's log, newest first.
func (p *past) revisions(name string) (list []string) {
	p.t.Helper()
	var log history.LogAnswer
	require.NoError(p.t, json.Unmarshal([]byte(p.ok("log", name, "-o", "json")), &log))
	for _, c := range log.Changes {
		list = append(list, fmt.Sprint(c.Revision))
	}
	return list
}

func TestHistoryOverEveryEdge(t *testing.T) {
	t.Parallel()
	conf := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(conf, name), []byte(text), 0o644))
	}
	write("base.json", `{"db":{"host":"a","port":1}}`)
	write("_meta.json", `{"conf_inherit":{"app.json":"base"},"inherit_options":{"*":{"merge":"deep"}}}`)
	write("app.json", "{ \"n\": 1 }\n")
	p := &past{t, StartProcess(t, conf)}
	file := filepath.Join(t.TempDir(), "app.json")
	require.NoError(t, os.WriteFile(file, []byte("{ \"n\": 2,\n  \"db\": {\"host\": \"b\"} }\n"), 0o644))
	p.ok("set", "app", file)
	revs := p.revisions("app")
	require.Len(t, revs, 2)

	require.Regexp(t, `^REVISION +TIME +BY +CHANGE +COMMENT\n`+revs[0]+` +20.*Z .* changed .*\n`+revs[1]+` +20.* created `, p.ok("log", "app.json"))
	require.Regexp(t, `(?s)`+revs[0]+` .*app.json changed.*`+revs[1]+` .*_meta.json created, app.json created, base.json created`, p.ok("log"))
	require.Equal(t, "{ \"n\": 1 }\n", p.ok("show", "app@~1"))
	require.Equal(t, `{"db":{"host":"a","port":1},"n":1}`, p.ok("show", "app", revs[1], "--resolved"))
	require.Contains(t, p.ok("diff", "app"), "\n-{ \"n\": 1 }\n")
	require.Equal(t, "~ /n 1 -> 2\n+ /db {\"host\":\"b\"}\n", p.ok("diff", "app", "~1", revs[0], "--paths"))
	require.Regexp(t, `(?s)^PATH.*/db/host +app.json +`+revs[0]+` .*/db/port +base.json +`+revs[1]+` .*/n +app.json +`+revs[0], p.ok("blame", "app"))
	require.Regexp(t, `(?s)base.json +overridden +"a" +app.json is stronger and has it, too\napp.json +wins +"b" .*\n/db/host = "b"\n$`, p.ok("explain", "app", "/db/host"))

	require.NoError(t, os.Remove(filepath.Join(conf, "app.json")))
	require.Eventually(t, func() bool { return len(p.revisions("app")) == 3 }, servertest.Patience, 20*time.Millisecond)
	code, _, stderr := p.verb("show", "app")
	require.Equal(t, 3, code)
	require.Contains(t, stderr, "app.json was deleted by revision")
	require.Contains(t, p.ok("show", "app@~1"), `"host":"b"`)
	p.deletedWithBases("app", `{"db":{"host":"a","port":1}}`)
	require.Contains(t, p.ok("log", "app"), " deleted ")
	for want, args := range map[string][]string{
		"there has never been a document": {"show", "none"}, "is in the future": {"show", "app@999999999999999999"}, "revisions begin at 1": {"diff", "app", "--", "-3"},
		"is no revision": {"blame", "app", "--rev", "x"}, "app.json has no /n": {"explain", "app", "/n"}, "NAME is missing": {"show"},
	} {
		code, stdout, stderr := p.verb(args...)
		require.NotZero(t, code, "%v: %s", args, stdout)
		require.Contains(t, stderr, want, args)
	}

	for path, want := range map[string]string{
		"log": `"changes":[{`, "show": `"text":"{ \"n\": 1 }\n"`, "diff": `"what":"changed","old":1,"new":2`, "blame": `"path":"/db/port","file":"base.json"`, "explain": `"winner":"app.json","value":"b"`,
	} {
		query := []string{"name", "app"}
		switch path {
		case "show":
			query = append(query, "rev", "~2")
		case "diff":
			query = append(query, "from", "~2", "to", "~1", "paths", "1")
		case "blame":
			query = append(query, "rev", revs[0])
		case "explain":
			query = append(query, "rev", revs[0], "path", "/db/host")
		}
		status, body := p.get(path, query...)
		require.Equal(t, 200, status, body)
		require.Contains(t, body, want)
	}
	status, body := p.get("show", "name", "none")
	require.Equal(t, 404, status, body)

	calls := p.dial()
	show, err := calls.Show(t.Context(), &history.ShowAsk{Name: "app", Rev: "~2"})
	require.NoError(t, err)
	require.Equal(t, "{ \"n\": 1 }\n", show.Text)
	_, err = calls.Explain(t.Context(), &history.ExplainAsk{Name: "none"})
	require.Equal(t, codes.NotFound, codes.Of(err), "%v", err)

	// A file that is broken has no version, and one that is renamed is another document.
	write("broken.json", "{")
	write("odd name é.json", "1")
	require.NoError(t, os.Rename(filepath.Join(conf, "base.json"), filepath.Join(conf, "renamed.json")))
	require.Eventually(t, func() bool {
		code, _, _ := p.verb("log", "renamed")
		return code == 0 && len(p.revisions("base")) == 2
	}, servertest.Patience, 20*time.Millisecond)
	require.Equal(t, "1", p.ok("show", "odd name é"))
	code, _, _ = p.verb("log", "broken")
	require.Equal(t, 3, code)
	require.Equal(t, p.ok("show", "base@~1"), p.ok("show", "renamed"))

	p.server.Restart()
	require.Equal(t, "{ \"n\": 1 }\n", p.ok("show", "app@~2"), "it outlives the server")
}

// deletedWithBases asserts that of a deleted file is told what programs get that still ask for it.
func (p *past) deletedWithBases(name, want string) {
	p.t.Helper()
	require.Contains(p.t, p.ok("get", name, "--merged", "-o", "json"), `"contents":`+want+`}`, "over TCP")
	r, err := http.Get("http://" + p.server.HTTP + "/v1/config/resolved?name=" + name + ".json")
	require.NoError(p.t, err)
	defer func() { _ = r.Body.Close() }()
	body, err := io.ReadAll(r.Body)
	require.NoError(p.t, err)
	require.Contains(p.t, string(body), `"document":`+want+`,`, "over HTTP")

	require.Equal(p.t, want, p.ok("show", name, "--resolved"))
	require.Contains(p.t, p.ok("explain", name), "\n/ = "+want+"\n")
	require.Contains(p.t, p.ok("explain", name, "/db/host"), "\n/db/host = \"a\"\n")
	require.Regexp(p.t, `(?s)/db/host +base.json .*/db/port +base.json `, p.ok("blame", name))
	require.Equal(p.t, "~ /db/host \"b\" -> \"a\"\n- /n 2\n", p.ok("diff", name, "--resolved", "--paths"))
	for path, query := range map[string]string{"show": "resolved", "diff": "resolved", "explain": "path", "blame": "path"} {
		status, body := p.get(path, "name", name, query, map[string]string{"resolved": "1", "path": "/"}[query])
		require.Equal(p.t, 200, status, body)
	}
}

// A file as long as files may be is shown byte for byte.
func TestTheHistoryOfALongFile(t *testing.T) {
	t.Parallel()
	conf := t.TempDir()
	text := `["` + strings.Repeat("é\\n", (16<<20-64)/4) + "\"]\n"
	require.NoError(t, os.WriteFile(filepath.Join(conf, "long.json"), []byte(text), 0o644))
	p := &past{t, StartProcess(t, conf, "--memory", "4GiB")}
	require.Eventually(t, func() bool { code, _, _ := p.verb("log", "long"); return code == 0 }, servertest.Patience, 20*time.Millisecond)
	require.True(t, text == p.ok("show", "long", "--timeout", "30s"))
	require.True(t, strings.TrimSuffix(text, "\n") == p.ok("show", "long", "--resolved", "--timeout", "30s"))
	require.NoError(t, os.WriteFile(filepath.Join(conf, "long.json"), []byte("1"), 0o644))
	require.Eventually(t, func() bool { return len(p.revisions("long")) == 2 }, servertest.Patience, 20*time.Millisecond)
	require.Equal(t, fmt.Sprintf("~ / (%d bytes) -> 1\n", len(text)-1), p.ok("diff", "long", "--paths", "--timeout", "30s"))
	require.Contains(t, p.ok("diff", "long", "--timeout", "30s"), "\n+1\n")
}

// longAgo makes a data directory whose log has versions of a.json from long ago.
func longAgo(t *testing.T, versions int, text func(n int) string) (conf, data string) {
	t.Helper()
	conf, data = t.TempDir(), filepath.Join(t.TempDir(), "data")
	require.NoError(t, os.MkdirAll(filepath.Join(data, "state"), 0o700))
	store, err := disk.Open(disk.StoreConfig{
		Disk:   disk.Config{Dir: filepath.Join(data, "state")},
		Engine: kvstore.Config{WriteTimeout: time.Hour}, // as long as a busy disk takes
	})
	require.NoError(t, err)
	defer func() { require.NoError(t, store.Close()) }()
	past, err := log.Open(context.Background(), store, "")
	require.NoError(t, err)
	var list []log.Change
	long := time.Now().Add(-2 * 365 * 24 * time.Hour)
	for n := range versions {
		list = append(list, log.Change{By: log.By{Author: "ann", Time: long.Add(time.Duration(n) * time.Second).UnixMilli()},
			Versions: []log.Version{{Name: "a.json", Served: int32(1000 + n), Given: int32(1000 + n), File: []byte(text(n + 1))}}})
	}
	_, err = past.Commit(t.Context(), list)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(conf, "a.json"), []byte(text(versions)), 0o644))
	return conf, data
}

func TestVersionsThatArePrunedAreCompacted(t *testing.T) {
	t.Parallel()
	conf, data := longAgo(t, 1010, func(n int) string { return fmt.Sprint(n) })
	p := &past{t, process.New(t, conf)}
	p.server.Data = data
	p.server.Start()
	require.Equal(t, "1", p.ok("show", "a@~1009"))
	require.Contains(t, p.ok("history", "prune", "--dry-run"), "versions: 10\n")
	require.Equal(t, "1", p.ok("show", "a@~1009"), "nothing is gone")
	require.Contains(t, p.ok("history", "prune"), "versions: 10\n")
	require.Equal(t, "11", p.ok("show", "a@~999"))
	code, _, stderr := p.verb("show", "a@~1000")
	require.NotZero(t, code)
	require.Contains(t, stderr, "version 10 of a.json is no longer kept")
	status, body := p.get("show", "name", "a", "rev", "~1000")
	require.Equal(t, 410, status)
	require.Contains(t, body, `"compacted"`)
	_, err := p.dial().Show(t.Context(), &history.ShowAsk{Name: "a@~1009"})
	require.Equal(t, codes.Compacted, codes.Of(err), "%v", err)
	require.True(t, strings.HasSuffix(p.ok("log", "a", "--limit", "1000"), "\nearlier ones are no longer kept\n"))
	require.Contains(t, p.ok("history", "prune", "--keep", "5", "--days", "30"), "versions: 995\n")
	p.server.Restart()
	require.Equal(t, "1006", p.ok("show", "a@~4"))
	code, _, stderr = p.verb("history", "prune", "--days", "-1")
	require.NotZero(t, code)
	require.Contains(t, stderr, "days is -1")
}

// A server that is killed while it removes versions loses none of the others, and the next removal
// finishes it.
func TestKilledWhileVersionsAreRemoved(t *testing.T) {
	t.Parallel()
	text := func(n int) string { return fmt.Sprintf(`["%s",%d]`, strings.Repeat("x", 5000), n) }
	const versions = 3000
	conf, data := longAgo(t, versions, text)
	p := &past{t, process.New(t, conf)}
	p.server.Data = data
	p.server.Start()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _, _ = p.verb("history", "prune", "--keep", "10")
	}()
	cli := newCLI(t, p.server)
	require.Eventually(t, func() bool { code, _, _ := cli.run("", "get", "@conf", "retention"); return code == 0 }, servertest.Patience, time.Millisecond)
	p.server.Kill()
	<-done
	p.server.Start()
	require.GreaterOrEqual(t, len(p.revisions("a")), 10)
	for _, back := range []int{0, 1, 9} {
		require.Equal(t, text(versions-back), p.ok("show", fmt.Sprintf("a@~%d", back)))
	}
	p.ok("history", "prune", "--keep", "10")
	require.Equal(t, text(versions-9), p.ok("show", "a@~9"))
	code, _, stderr := p.verb("show", "a@~10")
	require.NotZero(t, code)
	require.Contains(t, stderr, "no longer kept")
	require.Len(t, p.revisions("a"), 10)
}
