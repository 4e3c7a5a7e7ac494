package integration

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/integration/process"
	"confcenter/internal/servertest"
)

// pages are README and the documents in docs, in both languages.
func pages(t *testing.T) []string {
	t.Helper()
	files := []string{"README.md", "README.zh-CN.md"}
	for _, pattern := range []string{"../docs/*.md", "../docs/zh/*.md"} {
		found, err := filepath.Glob(pattern)
		require.NoError(t, err)
		require.NotEmpty(t, found)
		for _, file := range found {
			files = append(files, strings.TrimPrefix(file, "../"))
		}
	}
	return files
}

// shellBlocks are the shell blocks of a document, as written.
func shellBlocks(t *testing.T, file string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", file))
	require.NoError(t, err)
	var blocks []string
	for _, found := range regexp.MustCompile("(?s)\n```(?:sh|bash)\n(.*?\n)```\n").FindAllStringSubmatch(string(text), -1) {
		blocks = append(blocks, found[1])
	}
	return blocks
}

// readmeElsewhere lists the beginnings of lines that cannot run here.
var readmeElsewhere = []string{
	"make run",            // the test's own server runs instead
	"bin/ccdump live",     // needs root: TestDumpLive
	"ssh host tcpdump -i", // needs another machine
}

// readmeEndless finds commands that run until they are interrupted.
var readmeEndless = regexp.MustCompile(`(?m)^(bin/confcenter (kv )?watch|confcenter serve|curl -N|bin/ccdump tap) `)

// readmePrelude ends such a command once it has printed a line. A command that has failed
// by then has a different code from an interrupted one. A dry run that finds something is no
// failure. What a block exports is there for the next one, as in the shell of a reader.
const readmePrelude = `set -e
[ ! -f .exported ] || . ./.exported
trap 'export -p >.exported' EXIT
confcenter() {
  local code=0
  command confcenter "$@" || code=$?
  [[ "$code $*" != 6*--dry-run* ]] || code=0
  return $code
}
endless() {
  coproc { exec "$@" 2>&1; }
  local pid=$COPROC_PID line code=0
  IFS= read -r line <&"${COPROC[0]}"
  echo "$line"
  kill "$pid"
  wait "$pid" || code=$?
  [ "$code" = 0 ] || [ "$code" = 143 ]
}
`

// readmePast finds what the documents name as an earlier time, and as an earlier revision.
var readmePast = [2]*regexp.Regexp{regexp.MustCompile(`2026-11-2\d[T\d:]+Z?`), regexp.MustCompile(`\b4711\b`)}

// earlier is the server's past that a block can name.
type earlier struct {
	moment   time.Time
	revision int64
}

// readmeScript is a block as it is run, against the addresses of the test's server.
func readmeScript(block string, server *Process, then earlier) string {
	var script strings.Builder
lines:
	for line := range strings.Lines(block) {
		for _, begins := range readmeElsewhere {
			if strings.HasPrefix(line, begins) {
				continue lines
			}
		}
		script.WriteString(line)
	}
	text := readmeEndless.ReplaceAllString(script.String(), "endless $0")
	text = readmePast[0].ReplaceAllString(text, then.moment.UTC().Format(time.RFC3339Nano))
	text = readmePast[1].ReplaceAllString(text, strconv.FormatInt(then.revision, 10))
	_, web, _ := strings.Cut(server.HTTP, ":")
	_, secure, _ := strings.Cut(server.TLS, ":")
	_, secureWeb, _ := strings.Cut(server.HTTPS, ":")
	return readmePrelude + strings.NewReplacer(
		"conf.example.org:4843", "localhost:"+secure, "conf.example.org:8443", "localhost:"+secureWeb, "conf.example.org", "localhost",
		"0.0.0.0:4843", "127.0.0.1:0", "0.0.0.0:8443", "127.0.0.1:0", "10.1.0.5:4800", "127.0.0.1:0",
		"data/administrator.token", "administrator.token",
		"127.0.0.1:4800", server.Addr, "127.0.0.1/4800", strings.Replace(server.Addr, ":", "/", 1),
		"127.0.0.1:8080", server.HTTP, "10.0.0.7:8080", server.HTTP, "localhost:8080", "localhost:"+web, ":4900", "127.0.0.1:0",
		"confcenter serve", "confcenter serve --listen 127.0.0.1:0 --http 127.0.0.1:0",
		"/tmp/", "./", "/backups/", "./backups/", "/var/lib/", "./var/lib/", "/etc/", "./etc/",
	).Replace(text)
}

// readmeHome makes a directory like a clone after make build, with the files that the blocks
// name.
func readmeHome(t *testing.T, dir string, server *Process) {
	t.Helper()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "bin"), 0o755))
	for name, build := range map[string]func() (string, error){"confcenter": process.Binary, "ccdump": buildDump} {
		path, err := build()
		require.NoError(t, err)
		require.NoError(t, os.Symlink(path, filepath.Join(dir, "bin", name)))
	}
	require.NoError(t, os.Symlink(server.Conf, filepath.Join(dir, "conf")))
	capture, err := os.ReadFile("../tools/ccdump/testdata/session.pcap")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "odd.pcap"), capture, 0o644))
	// Without it curl treats a refusal as success.
	require.NoError(t, os.WriteFile(filepath.Join(dir, ".curlrc"), []byte("fail\nsilent\nshow-error\n"), 0o644))
}

// prints lists texts that the blocks of a document, and of its translation, print. Every
// document with blocks is listed.
var prints = map[string][]string{
	"README.md":         {"more polite", `-    "greeting": "hello"`, "tour.json", "state done 1", `"gold":"5"`},
	"docs/access.md":    {"yes", "own files", "zoe", "refused, as it should be"},
	"docs/backup.md":    {"no faults", "as of revision"},
	"docs/bench.md":     {"IDLE_EXACT_ROLE_MATCH", "JOB_FINISHED", "task updated", "pong after 1 ms", `"state":"NODE_IDLE"`},
	"docs/debugging.md": {"listening on", "GETCONFIG seq=", "v   a   l   u   e   3"},
	"docs/flow.md":      {"node.N2  WAITING", "returned: 1"},
	"docs/history.md":   {"REVISION", "wins", "versions: 0", "nothing to do", `+    "key1": "at night"`, `"name":"_meta.json","kind":"deleted"`},
	"docs/http.md":      {"hejinlong", `"sold"`, `"k2"`},
	"docs/operator.md":  {"accepting", "confcenter_config_broken_files", `"clients"`},
	"docs/state.md":     {"ann", "revision"},
	"docs/storage.md":   {`"gold":100`, `"dirty":[]`, `"count":1`, `"errors":[]`},
}

// readmeBefore lists what a document takes for granted: the reader has made a backup, has changed
// files, and has git.
var readmeBefore = map[string]string{
	"docs/backup.md": "mkdir backups && confcenter backup backups/last.backup",
	"docs/history.md": `for n in 1 2 3 4; do confcenter set app1-dev /key3 $n; done
for name in a b; do echo '{"n":0}' | confcenter set $name; done
git config --global user.name Ann && git config --global user.email ann@example.org`,
}

// readmeServed is how the server of a document is started. The document's first block makes the
// files that this needs.
var readmeServed = map[string]func(dir string) []string{
	"docs/access.md": func(dir string) []string {
		return []string{"--access-control", "--tls-listen", "127.0.0.1:0", "--http-tls", "127.0.0.1:0",
			"--tls-cert", filepath.Join(dir, "server.pem"), "--tls-key", filepath.Join(dir, "server.key")}
	},
}

// Everything that the documents tell readers to paste works, in order, on a fresh clone,
// whichever document is read first.
func TestShellBlocksOfTheDocuments(t *testing.T) {
	t.Parallel()
	for _, file := range pages(t) {
		blocks := shellBlocks(t, file)
		english := strings.NewReplacer("README.zh-CN", "README", "docs/zh/", "docs/").Replace(file)
		expected := prints[english]
		require.Equal(t, len(expected) > 0, len(blocks) > 0, file)
		if len(blocks) == 0 {
			continue
		}
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			var flags []string
			if served := readmeServed[english]; served != nil {
				flags = served(dir)
			}
			server := process.New(t, sampleConf(t), flags...)
			readmeHome(t, dir, server)
			var printed strings.Builder
			run := func(block string, then earlier) {
				ctx, cancel := context.WithTimeout(t.Context(), servertest.Patience)
				defer cancel()
				cmd := exec.CommandContext(ctx, "bash", "-c", readmeScript(block, server, then))
				cmd.Dir = dir
				cmd.Env = []string{"CONFCENTER_ADDR=" + server.Addr, "CONFCENTER_HTTP=" + server.HTTP, "PATH=" + filepath.Join(dir, "bin") + ":" + os.Getenv("PATH"), "HOME=" + dir, "CURL_HOME=" + dir}
				var stderr bytes.Buffer
				cmd.Stdout, cmd.Stderr = &printed, &stderr
				require.NoError(t, cmd.Run(), "%s\n%s", block, stderr.String())
			}
			var then earlier
			if flags == nil {
				server.Start()
				run(readmeBefore[english], earlier{})
				then = earlier{time.Now(), process.StoreOf(t, server).Revision()}
			} else {
				run(blocks[0], then)
				blocks = blocks[1:]
				server.Start()
				require.NoError(t, os.Symlink(filepath.Join(server.Data, "administrator.token"), filepath.Join(dir, "administrator.token")))
			}
			for _, block := range blocks {
				run(block, then)
			}
			if strings.HasPrefix(file, "README") { // which newcomers try twice
				for _, block := range blocks {
					run(block, then)
				}
			}
			for _, text := range expected {
				require.Contains(t, printed.String(), text)
			}
			if strings.HasPrefix(file, "README") {
				requireReadmeLeft(t, server)
			}
		})
	}
}

// requireReadmeLeft checks what the blocks of README have written.
func requireReadmeLeft(t *testing.T, server *Process) {
	t.Helper()
	require.Regexp(t, `"value":"bob".*"expires":\d+`, newCLI(t, server).ok("get", "jobs", "owner", "-o", "json"), "the time to live outlives the cas")
	require.JSONEq(t, `{"greeting":"hello","size":2}`, textOf(t, server.Conf, "tour.json"))
	require.NoError(t, os.Remove(filepath.Join(server.Conf, "tour.json")))
	sample := sampleConf(t)
	for _, dir := range []string{sample, server.Conf} {
		files, err := filepath.Glob(dir + "/*")
		require.NoError(t, err)
		for _, file := range files {
			require.Equal(t, textOf(t, sample, filepath.Base(file)), textOf(t, server.Conf, filepath.Base(file)), "the tour changes a file of its own only")
		}
	}
	ignored, err := os.ReadFile("../.gitignore")
	require.NoError(t, err)
	require.Contains(t, string(ignored), "\n/conf/tour.json\n")
}

func textOf(t *testing.T, dir, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	require.NoError(t, err)
	return string(text)
}

// readmeGo returns the lines of the Go block that begins with text, without comments.
func readmeGo(t *testing.T, file, begins string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", file))
	require.NoError(t, err)
	_, block, found := strings.Cut(string(text), "\n"+begins)
	require.True(t, found, "%s has no block that begins with %s", file, begins)
	block, _, found = strings.Cut(begins+block, "\n```")
	require.True(t, found)
	var lines []string
	for line := range strings.Lines(block) {
		line, _, _ = strings.Cut(line, " //")
		lines = append(lines, strings.TrimSpace(line))
	}
	return lines
}

func TestGoBlockOfTheReadme(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"README.md", "README.zh-CN.md"} {
		lines := readmeGo(t, file, `s := c.KV("jobs")`)
		require.Len(t, lines, 11)
		example, err := os.ReadFile(filepath.Join("..", "client", "example_kv_test.go"))
		require.NoError(t, err)
		require.Contains(t, string(example), "\t"+strings.Join(lines, "\n\t")+"\n", "%s: what is run as an example", file)
	}
}

func TestGoProgramOfTheReadmeCompiles(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	_, program, found := strings.Cut(string(text), "```go\npackage main\n")
	require.True(t, found)
	program, _, _ = strings.Cut(program, "```")
	file := filepath.Join(t.TempDir(), "main.go")
	require.NoError(t, os.WriteFile(file, []byte("package main\n"+program), 0o644))
	vet := exec.CommandContext(t.Context(), "go", "vet", file)
	vet.Dir = ".." // where the module confcenter is
	vet.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := vet.CombinedOutput()
	require.NoError(t, err, string(out))
}
