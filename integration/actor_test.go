package integration

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/user"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/client"
	"confcenter/codes"
	"confcenter/confstore/history"
	"confcenter/internal/git/gittest"
	"confcenter/protocol"
)

// made is who made a change, and why, without what differs from run to run.
type made struct{ author, origin, comment, commit, token string }

// history is the log of a document as `confcenter log` prints it.
func (c *cli) history(name string) []history.Change {
	c.t.Helper()
	var answer history.LogAnswer
	require.NoError(c.t, json.Unmarshal([]byte(c.as("log").ok(name, "-o", "json")), &answer))
	return answer.Changes
}

// newest is who made the newest version of a document.
func (c *cli) newest(name string) (m made, peer string) {
	c.t.Helper()
	change := c.history(name)[0]
	return made{change.Author, change.Origin, change.Comment, change.Commit, change.Token}, change.Peer
}

// as runs another verb.
func (c *cli) as(verb string) *cli {
	other := *c
	other.verb = verb
	return &other
}

func (c *cli) requireBy(want made, name string) {
	c.t.Helper()
	got, peer := c.newest(name)
	require.Equal(c.t, want, got)
	if got.origin == "file" {
		require.Empty(c.t, peer)
	} else {
		require.Regexp(c.t, `^127\.0\.0\.1:\d+$`, peer)
	}
}

// becomes waits until git has told who made the newest version of a document.
func (c *cli) becomes(want made, name string) {
	c.t.Helper()
	eventually(c.t, name+" has its author", func() bool {
		got, _ := c.newest(name)
		return got == want
	})
}

// me is the user who runs the tests.
func me(t *testing.T) string {
	current, err := user.Current()
	require.NoError(t, err)
	return current.Username
}

func TestWhoAndWhyOnTheWire(t *testing.T) {
	t.Parallel()
	p := StartProcess(t, t.TempDir())
	c, peer := newCLI(t, p), p.Peer()
	set := func(body string) protocol.ConfigUpdated {
		t.Helper()
		reply, err := protocol.ParseConfigUpdated([]byte(peer.Call(protocol.SetConfig, body)))
		require.NoError(t, err)
		return reply
	}
	require.Zero(t, set(`{"filename":"a","contents":{"v":1}}`).Code)
	got, _ := c.newest("a")
	require.Regexp(t, `^\d+-0@peer$`, got.author, "as clients are called that say nothing")
	require.Equal(t, made{author: got.author, origin: "tcp"}, got)

	require.Zero(t, set(`{"filename":"a","contents":{"v":2},"author":"Zo\u00eb","comment":"first\nsecond \"line\"","token":"t-1"}`).Code)
	c.requireBy(made{author: "Zoë", origin: "tcp", comment: "first\nsecond \"line\"", token: "t-1"}, "a")
	require.Zero(t, set(`{"filename":"a","contents":{"v":3},"author":7,"comment":["x"],"token":null}`).Code, "of another type: absent, as everywhere")
	c.requireBy(made{author: got.author, origin: "tcp"}, "a")

	for body, code := range map[string]codes.Code{
		`"author":"` + strings.Repeat("a", 257) + `"`:   codes.TooLarge,
		`"comment":"` + strings.Repeat("c", 4097) + `"`: codes.TooLarge,
		`"token":"` + strings.Repeat("t", 129) + `"`:    codes.TooLarge,
		`"author":"a\u0000b"`:                           codes.BadRequest,
		`"comment":"\u001b[2J"`:                         codes.BadRequest,
		"\"author\":\"\xff\"":                           codes.BadRequest,
	} {
		reply := set(`{"filename":"a","contents":{"v":4},` + body + `}`)
		require.EqualValues(t, code, reply.Code, "%.40s", body)
		require.Contains(t, reply.Desc, "nothing was written")
	}
	require.Len(t, c.history("a"), 3)

	require.Zero(t, set(`{"filename":"a","author":"Zoe","comment":"no longer used"}`).Code)
	c.requireBy(made{author: "Zoe", origin: "tcp", comment: "no longer used"}, "a")
}

func TestAChangeAskedForAgainWithItsTokenIsMadeOnce(t *testing.T) {
	t.Parallel()
	p := StartProcess(t, t.TempDir())
	c, err := client.Dial(t.Context(), client.Config{Addrs: []string{p.Addr}, Name: "writer"})
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	request := client.SetRequest{Name: "a.json", Contents: []byte(`{"v":1}`), Author: "ann", Comment: "why", Token: "once"}
	first, err := c.Set(t.Context(), request)
	require.NoError(t, err)
	later, err := c.Set(t.Context(), client.SetRequest{Name: "a.json", Contents: []byte(`{"v":2}`)})
	require.NoError(t, err)
	again, err := c.Set(t.Context(), request)
	require.NoError(t, err)
	require.Greater(t, later.Mtime, first.Mtime)
	require.Equal(t, later, again, "the version now served")
	doc, err := c.Get(t.Context(), "a.json")
	require.NoError(t, err)
	require.JSONEq(t, `{"v":2}`, string(doc.Raw()))
	require.Len(t, newCLI(t, p).history("a.json"), 2)

	request.Contents = []byte(`{"v":3}`)
	_, err = c.Set(t.Context(), request)
	require.ErrorIs(t, err, codes.TokenReused)
	request.Author = "a\tb"
	_, err = c.Set(t.Context(), request)
	require.ErrorContains(t, err, "the author has control characters")
	require.True(t, client.SafeToRetry(err), "it was not sent")
}

func TestWhoAndWhyOverHTTP(t *testing.T) {
	t.Parallel()
	p := StartProcess(t, t.TempDir())
	c := newCLI(t, p)
	path := "/v1/config/file?name=a.json"
	ask := func(method, body string, headers ...string) (status int, text string) {
		t.Helper()
		r, err := http.NewRequest(method, "http://"+p.HTTP+path, strings.NewReader(body))
		require.NoError(t, err)
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		reply, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
		require.NoError(t, err)
		defer reply.Body.Close()
		answer, err := io.ReadAll(reply.Body)
		require.NoError(t, err)
		return reply.StatusCode, string(answer)
	}
	const author, comment, token, origin = "X-Confcenter-Author", "X-Confcenter-Comment", "X-Confcenter-Token", "X-Confcenter-Origin"
	for i, step := range []struct {
		headers []string
		want    made
	}{
		{nil, made{origin: "http"}},
		{[]string{author, "ann", comment, "50% more", token, "t"}, made{"ann", "http", "50% more", "", "t"}},
		{[]string{author, "Zo%C3%AB", comment, "two%0Alines"}, made{author: "Zoë", origin: "http", comment: "two\nlines"}},
		{[]string{comment, "als UTF-8: ä", origin, "console"}, made{origin: "console", comment: "als UTF-8: ä"}},
	} {
		status, text := ask("PUT", fmt.Sprintf(`{"v":%d}`, i), step.headers...)
		require.Equal(t, 200, status, text)
		c.requireBy(step.want, "a")
	}
	for want, headers := range map[string][]string{
		"the author has 257 bytes, and the limit is 256": {author, strings.Repeat("a", 257)},
		"the comment has control characters":             {comment, "%1B[2J"},
		"the comment is not UTF-8":                       {comment, "%FF"},
		"X-Confcenter-Origin is":                         {origin, "rollback"},
	} {
		status, text := ask("PUT", `{"v":"not written"}`, headers...)
		require.Contains(t, []int{400, 413}, status)
		require.Contains(t, text, want)
		require.Contains(t, text, "nothing was written")
	}
	require.Len(t, c.history("a"), 4)
	status, _ := ask("DELETE", "", author, "ann", comment, "gone")
	require.Equal(t, 200, status)
	c.requireBy(made{author: "ann", origin: "http", comment: "gone"}, "a")

	path = "/v1/history/rollback"
	status, text := ask("POST", `{"name":"a","author":"bob","comment":"back again"}`, author, "ann")
	require.Equal(t, 200, status, text)
	c.requireBy(made{author: "bob", origin: "rollback", comment: "back again"}, "a")
	status, text = ask("POST", `{"name":"a","rev":"~3","token":"again"}`, author, "ann", comment, "further back")
	require.Equal(t, 200, status, text)
	c.requireBy(made{author: "ann", origin: "rollback", comment: "further back", token: "again"}, "a")
}

func TestWhoAndWhyOnTheCommandLine(t *testing.T) {
	t.Parallel()
	c := newCLI(t, StartProcess(t, t.TempDir()))
	value := filepath.Join(t.TempDir(), "a.json")
	require.NoError(t, os.WriteFile(value, []byte(`{"v":1}`), 0o600))
	for _, step := range []struct {
		verb string
		args []string
		want made
	}{
		{"set", []string{"a", value}, made{author: me(t), origin: "tcp"}},
		{"set", []string{"a", "/v", "2", "-m", "more of it"}, made{author: me(t), origin: "tcp", comment: "more of it"}},
		{"set", []string{"a", "/v", "3", "--author", "a robot", "--comment", "by night"}, made{author: "a robot", origin: "tcp", comment: "by night"}},
		{"rm", []string{"a", "-m", "no longer used"}, made{author: me(t), origin: "tcp", comment: "no longer used"}},
		{"rollback", []string{"a", "~1", "-m", "it was used"}, made{author: me(t), origin: "rollback", comment: "it was used"}},
		{"rollback", []string{"a", "~1", "--author", "a robot", "-m", "by night"}, made{author: "a robot", origin: "rollback", comment: "by night"}},
		{"apply", []string{filepath.Dir(value), "-m", "as it should be"}, made{author: me(t), origin: "tcp", comment: "as it should be"}},
	} {
		c.as(step.verb).ok(step.args...)
		if step.verb != "set" && step.verb != "rm" { // the client makes tokens for questions
			step.want.token = c.history("a")[0].Token
			require.NotEmpty(t, step.want.token)
		}
		c.requireBy(step.want, "a")
	}
	code, _, stderr := c.as("set").run("", "a", value, "-m", strings.Repeat("long ", 1000))
	require.Equal(t, 5, code)
	require.Contains(t, stderr, "the comment has 5000 bytes, and the limit is 4096")
}

func TestFilesOfAPullAreItsAuthors(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	origin, work, deployed := filepath.Join(base, "origin"), filepath.Join(base, "work"), filepath.Join(base, "deployed")
	gittest.Git(t, base, "init", "--quiet", "--bare", origin)
	gittest.Git(t, base, "clone", "--quiet", origin, work)
	commit := func(message string, files map[string]string) string {
		for name, text := range files {
			gittest.Write(t, work, name, text)
		}
		hash := gittest.Commit(t, work, message)
		gittest.Git(t, work, "push", "--quiet", "origin", "HEAD:main")
		return hash
	}
	const ada = "Ada Lovelace <ada@example.com>"
	first := commit("the beginning", map[string]string{"conf/a.json": `{"v":1}`, "conf/sub/b.json": `{}`, "README": "not served"})
	gittest.Git(t, base, "clone", "--quiet", "--branch", "main", origin, deployed)
	p := StartProcess(t, filepath.Join(deployed, "conf"))
	c := newCLI(t, p)
	c.becomes(made{ada, "file", "the beginning", first, ""}, "a")
	c.becomes(made{ada, "file", "the beginning", first, ""}, "sub/b")

	files := map[string]string{"conf/a.json": `{"v":2}`}
	for i := range 200 {
		files[fmt.Sprintf("conf/many/%d.json", i)] = fmt.Sprintf(`{"n":%d}`, i)
	}
	require.NoError(t, os.Remove(filepath.Join(work, "conf/sub/b.json")))
	second := commit("raise v\n\nfor the sale", files)
	gittest.Git(t, deployed, "pull", "--quiet", "--ff-only")
	want := made{ada, "file", "raise v", second, ""}
	eventually(t, "all files are served", func() bool { return strings.Count(c.as("ls").ok(), "many/") == len(files)-1 })
	eventually(t, "a.json is the new one", func() bool { return len(c.history("a")) == 2 })
	eventually(t, "b.json is removed", func() bool { return len(c.history("sub/b")) == 2 })
	for _, name := range []string{"a", "many/0", "many/199", "sub/b"} {
		c.becomes(want, name)
	}
	require.Len(t, c.history("a"), 2, "who made it is no version")

	require.NoError(t, os.WriteFile(filepath.Join(deployed, "conf/a.json"), []byte(`{"v":"in a hurry"}`), 0o644))
	eventually(t, "the edit is served", func() bool { return len(c.history("a")) == 3 })
	c.requireBy(made{author: me(t), origin: "file"}, "a")

	p.Stop()
	gittest.Write(t, deployed, "conf/both.json", `{}`)
	inTime := gittest.Commit(t, deployed, "one of two")
	gittest.Write(t, deployed, "conf/mine.json", `{}`)
	p.Start()
	c = newCLI(t, p)
	both := regexp.MustCompile(`file +both.json created by ` + regexp.QuoteMeta(ada) + `, mine.json created by ` + regexp.QuoteMeta(me(t)))
	eventually(t, "each has its author", func() bool { return both.MatchString(c.as("log").ok("--limit", "1")) })

	require.NoError(t, os.WriteFile(filepath.Join(deployed, "conf/other.json"), []byte(`{}`), 0o644))
	eventually(t, "a later file is served", func() bool { return strings.Contains(c.as("ls").ok(), "other.json") })
	c.becomes(made{ada, "file", "tidy up", gittest.Commit(t, deployed, "tidy up"), ""}, "other")
	require.Len(t, c.history("a"), 3, "that it was committed later makes no version")
	c.becomes(made{ada, "file", "one of two", inTime, ""}, "a")
}
