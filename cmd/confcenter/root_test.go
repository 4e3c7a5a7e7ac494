package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"confcenter/cmd/confcenter/verb"
	"confcenter/codes"
)

// result is what a call of the program led to.
type result struct {
	code           int
	stdout, stderr string
}

// call runs the program in this process.
func call(t *testing.T, stdin string, args ...string) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), args, strings.NewReader(stdin), &stdout, &stderr)
	return result{code, stdout.String(), stderr.String()}
}

// write makes a file below dir with its directories.
func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	file := filepath.Join(dir, filepath.FromSlash(name))
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
	require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	return file
}

func TestExitCodeOfErrors(t *testing.T) {
	cases := []struct {
		err  error
		want int
	}{
		{nil, exitOK},
		{errors.New("x"), exitFailed},
		{io.ErrClosedPipe, exitFailed},
		{codes.Errorf(codes.Internal, "x"), exitFailed},
		{codes.Errorf(codes.Storage, "x"), exitFailed},
		{codes.Errorf(codes.BadJSON, "x"), exitFailed},
		{verb.UsageError{Err: codes.Errorf(codes.NotFound, "x")}, exitUsage},
		{fmt.Errorf("set: %w", codes.Errorf(codes.NotFound, "x")), exitNotFound},
		{codes.NotSubscribed, exitNotFound},
		{codes.Unreachable, exitUnreachable},
		{codes.Timeout, exitUnreachable},
		{codes.Conflict, exitRefused},
		{codes.Older, exitRefused},
		{codes.BadName, exitRefused},
		{codes.TooLarge, exitRefused},
		{codes.Code(-1), exitFailed},
	}
	for _, c := range cases {
		t.Run(fmt.Sprint(c.err), func(t *testing.T) { require.Equal(t, c.want, exitCode(c.err)) })
	}
}

func TestWrongUsageIsExitCode2(t *testing.T) {
	for _, line := range []string{
		"frobnicate", "--frobnicate", "serve extra", "serve --loops many", "serve --loops", "serve --log-level loud",
		"get", "get a b c", "get a --timeout 5", "get a --timeout 0s", "get a -o xml", "get a --addr nowhere", "get a --addr 127.0.0.1:99999",
		"set", "set a b 1 c", "set a /b c", "set a --mtime now", "set a --if-mtime 3000000000", "rm", "rm a b", "ls a", "watch", "watch a --count x", "clients a b",
		"check", "check a b", "version a", "landing", "landing a --dsn sqlite:a", "landing --dsn nonsense", "landing --dsn sqlite:a --log-level loud", "landing --dsn sqlite:a -o json",
		"storage update bag 42 a", "storage update bag 42 a=1 a=2", "storage update bag 42 a=- b=-", "storage update bag 42 a=1 --if-version a", "storage update bag 42 a=? --base64",
		"storage incr bag 42 a=x", "storage incr bag 42 a=1 a", "storage remove bag 42 a --if-version a=1 --if-version a=2",
		"storage owners --limit -1", "storage owners --count --limit 3", "storage errors --limit -1",
	} {
		t.Run(line, func(t *testing.T) {
			r := call(t, "{}", strings.Fields(line)...)
			require.Equal(t, exitUsage, r.code, r.stderr)
			require.Empty(t, r.stdout)
			require.Contains(t, r.stderr, "confcenter: ")
			require.Contains(t, r.stderr, "--help' to see how to use it")
		})
	}
}

func TestArgumentErrorsNameTheArgument(t *testing.T) {
	for line, want := range map[string]string{
		"get":                            `NAME is missing; usage: confcenter get NAME [PATH]`,
		"get a b c":                      `"c" is one argument too many; usage: confcenter get NAME [PATH]`,
		"set":                            `NAME is missing; usage: confcenter set NAME [FILE|-] or confcenter set NAME PATH VALUE`,
		"set a /b 1 2":                   `"2" is one argument too many; usage: confcenter set`,
		"set a / 1":                      `PATH "/" names the whole file; to replace it use confcenter set NAME FILE`,
		"set a /b -1.5":                  `if it is a number, put -- before the arguments`,
		"kv put a b -5":                  `if it is a number, put -- before the arguments`,
		"kv put a b -x":                  `unknown shorthand flag: 'x' in -x` + "\n",
		"rm":                             `NAME is missing`,
		"ls a":                           `"a" is one argument too many; usage: confcenter ls`,
		"serve extra":                    `"extra" is one argument too many; usage: confcenter serve`,
		"clients a b":                    `"b" is one argument too many`,
		"watch":                          `NAME is missing`,
		"check":                          `DIR is missing`,
		"check a b":                      `"b" is one argument too many`,
		"kv get":                         `NS and KEY are missing; usage: confcenter kv get NS KEY`,
		"kv get jobs":                    `KEY is missing`,
		"kv mget jobs":                   `KEY is missing; usage: confcenter kv mget NS KEY…`,
		"kv put":                         `NS, KEY and VALUE are missing`,
		"kv put a b":                     `VALUE is missing`,
		"kv put a b c d":                 `"d" is one argument too many`,
		"kv cas a b":                     `OLD and NEW are missing; usage: confcenter kv cas NS KEY OLD NEW or confcenter kv cas NS KEY NEW --absent`,
		"kv cas a b c":                   `give OLD and NEW, or NEW and --absent`,
		"kv cas a b c d e":               `"e" is one argument too many`,
		"kv del a":                       `KEY is missing`,
		"kv drop":                        `NS is missing; usage: confcenter kv drop NS --confirm NS`,
		"kv incr a":                      `KEY is missing`,
		"kv restore a":                   `KEY is missing`,
		"kv restore a b":                 `"rev" not set`,
		"kv history a":                   `KEY is missing`,
		"kv list":                        `NS is missing`,
		"kv list a b c":                  `"c" is one argument too many`,
		"kv txn":                         `NS is missing`,
		"kv watch a b c":                 `"c" is one argument too many; usage: confcenter kv watch [NS [KEY]]`,
		"kv lock a b":                    `give NS and KEY, then --, then the command to run`,
		"kv lease grant":                 `TTL is missing`,
		"kv lease grant 5":               `TTL = 5: must be a duration like 30s`,
		"kv lease keep":                  `LEASE is missing`,
		"kv lease info x":                `LEASE = x: must be a number printed by grant`,
		"kv lease revoke 1 2":            `"2" is one argument too many`,
		"kv namespaces a":                `"a" is one argument too many`,
		"storage retry bag":              `OWNER and NAME are missing; usage: confcenter storage retry or confcenter storage retry LOGIC OWNER NAME…`,
		"storage drop bag 42":            `NAME is missing`,
		"kv stat a":                      `"a" is one argument too many`,
		"kv frobnicate":                  `unknown command "frobnicate"`,
		"get a --timeout 5":              `"5" for "--timeout"`,
		"get a --timeout 0s":             `timeout = 0s: must be more than 0`,
		"kv put a b c --ttl soon":        `"soon" for "--ttl"`,
		"kv put a b c --expires soon":    `expires = soon: must be a time like`,
		"kv lock a b --wait x -- true":   `"x" for "--wait"`,
		"serve --drain-timeout 10":       `"10" for "--drain-timeout"`,
		"set a --if-mtime 3000000000":    `"3000000000" for "--if-mtime"`,
		"kv put a b c --if-fence x":      `if-fence = x`,
		"kv watch a --prefix p --from x": `"x" for "--from"`,
	} {
		t.Run(line, func(t *testing.T) {
			r := call(t, "{}", strings.Fields(line)...)
			require.Equal(t, exitUsage, r.code, r.stderr)
			require.Contains(t, r.stderr, want)
		})
	}
}

func TestHelpOfEveryVerb(t *testing.T) {
	a := &verb.App{}
	for _, command := range rootCommand(a).Commands() {
		t.Run(command.Name(), func(t *testing.T) {
			require.NotEmpty(t, command.Short)
			require.NotEmpty(t, command.Long+command.Short)
			require.Contains(t, command.Example, "confcenter "+command.Name(), "an example")
			require.NotEmpty(t, command.GroupID)
			r := call(t, "", command.Name(), "--help")
			require.Equal(t, exitOK, r.code)
			require.Contains(t, r.stdout, "Examples:")
			require.Empty(t, r.stderr)
		})
	}
	require.Contains(t, call(t, "", "--help").stdout, exitCodesHelp)
}

func TestHelpOfTopLevelVerbsIsInTheImperative(t *testing.T) {
	short := map[string]string{}
	for _, verb := range historyCommands((&verb.App{})) {
		short[verb.Name()], _, _ = strings.Cut(verb.Short, " ")
		require.NotContains(t, verb.Long, "Lists")
	}
	for name, word := range map[string]string{"log": "List", "show": "Show", "diff": "Compare", "blame": "Tell", "explain": "Tell", "rollback": "Make"} {
		require.Equal(t, word, short[name], name)
	}
}

func TestAllowOpenSaysWhatItMeans(t *testing.T) {
	require.Contains(t, call(t, "", "serve", "--help").stdout, "anyone who reaches the port may read and write")
}

func TestVersion(t *testing.T) {
	r := call(t, "", "version")
	require.Equal(t, exitOK, r.code)
	require.Regexp(t, `^confcenter dev \(go\S+, \w+/\w+(, tags \S+)?\)\n$`, r.stdout)
	require.Equal(t, buildOf(buildTags()).String()+"\n", r.stdout)
	require.Contains(t, call(t, "", "version", "-o", "json").stdout, `"version":"dev"`)
}

func TestVersionNamesTheTagsOfTheBuild(t *testing.T) {
	for _, c := range []struct {
		tags       []string
		text, json string
	}{
		{nil, ")", `"tags":[]}`},
		{[]string{"nosqlite"}, ", tags nosqlite)", `"tags":["nosqlite"]}`},
		{[]string{"nognet", "nosqlite"}, ", tags nognet,nosqlite)", `"tags":["nognet","nosqlite"]}`},
	} {
		b := buildOf(c.tags)
		about := runtime.Version() + ", " + runtime.GOOS + "/" + runtime.GOARCH
		require.Equal(t, "confcenter dev ("+about+c.text, b.String())
		line, err := verb.Encoding.Marshal(b)
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintf(`{"version":"dev","go":%q,"platform":"%s/%s",`, runtime.Version(), runtime.GOOS, runtime.GOARCH)+c.json, string(line))
	}
}

func TestNobodyThereIsExitCode4(t *testing.T) {
	for _, verb := range []string{"get a", "set a", "rm a", "ls", "watch a", "clients"} {
		t.Run(verb, func(t *testing.T) {
			r := call(t, "{}", append(strings.Fields(verb), "--addr", "127.0.0.1:1")...)
			require.Equal(t, exitUnreachable, r.code, r.stderr)
			require.Empty(t, r.stdout)
		})
	}
}

func TestSetRefusesWhatIsNotADocument(t *testing.T) {
	dir := t.TempDir()
	broken := write(t, dir, "broken.json", "{\n  \"a\": 1,\n}")
	cases := []struct {
		name, stdin string
		args        []string
		want        int
		stderr      string
	}{
		{"broken file", "", []string{broken}, exitFailed, broken + ":3:1: "},
		{"broken input", "{", nil, exitFailed, "standard input:1:2: "},
		{"broken input, asked for", "[1", []string{"-"}, exitFailed, "standard input:1:3: "},
		{"no input", "", nil, exitFailed, "standard input:1:1: "},
		{"null", " null ", nil, exitRefused, "to delete the file use rm"},
		{"no value", "", []string{"/nosuch/key"}, exitFailed, "if /nosuch/key is a key path, VALUE is missing"},
		{"no such file", "", []string{filepath.Join(dir, "none")}, exitFailed, "no such file"},
		{"a directory", "", []string{dir}, exitFailed, "directory"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := call(t, c.stdin, append([]string{"set", "a", "--addr", "127.0.0.1:1"}, c.args...)...)
			require.Equal(t, c.want, r.code, r.stderr)
			require.Contains(t, r.stderr, c.stderr)
		})
	}
}

func TestEndlessInputIsRefused(t *testing.T) {
	a := &verb.App{Stdin: zeros{}}
	_, err := readDocument(a, "-")
	require.ErrorIs(t, err, codes.TooLarge)
}

// zeros is an endless standard input.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestCompletionScripts(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		t.Run(shell, func(t *testing.T) {
			r := call(t, "", "completion", shell)
			require.Equal(t, exitOK, r.code, r.stderr)
			require.Contains(t, r.stdout, "__complete")
		})
	}
}

// complete asks as a shell does; the last word is the one being typed.
func complete(t *testing.T, words ...string) []string {
	t.Helper()
	r := call(t, "", append([]string{cobra.ShellCompRequestCmd}, words...)...)
	require.Equal(t, exitOK, r.code, r.stderr)
	var found []string
	for line := range strings.Lines(r.stdout) {
		if !strings.HasPrefix(line, ":") {
			word, _, _ := strings.Cut(strings.TrimSpace(line), "\t")
			found = append(found, word)
		}
	}
	return found
}

func TestCompletionOfWhatIsFixed(t *testing.T) {
	require.Equal(t, []string{"secret", "serve", "set"}, complete(t, "se"))
	require.Equal(t, []string{"text", "json"}, complete(t, "get", "-o", ""))
	require.Contains(t, complete(t, "serve", "--log-level", ""), "debug")
	require.Contains(t, complete(t, "serve", "--allow"), "--allow-open")
	require.Empty(t, complete(t, "get", "--addr", "127.0.0.1:1", ""), "no server, no names, no complaint")
	require.Contains(t, call(t, "", cobra.ShellCompRequestCmd, "check", "").stdout, fmt.Sprintf(":%d", cobra.ShellCompDirectiveFilterDirs))
}

func TestNamesFromPeersCannotSteerTheTerminal(t *testing.T) {
	var out bytes.Buffer
	a := &verb.App{Stdout: &out}
	require.NoError(t, printClients(a, []map[string]string{{"svrid": "2001", "svrname": "\x1b[2Jx", "clisock": "127.0.0.1:5"}}))
	require.Equal(t, "ID    NAME        TAG  ADDRESS\n2001  \"\\x1b[2Jx\"  -    127.0.0.1:5\n", out.String())
}
