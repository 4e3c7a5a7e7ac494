package main

import (
	"bufio"
	"context"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	jsoniter "github.com/json-iterator/go"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"confcenter/cmd/confcenter/verb"
	"confcenter/internal/servertest"
	"confcenter/kv"
)

// store starts a server with an empty state store and returns its address.
func store(t *testing.T) string {
	t.Helper()
	return servertest.Start(t, servertest.Options{}).Addr().String()
}

// kvStep is a call of a kv verb and what it must lead to.
type kvStep struct {
	name, stdin    string
	args           []string
	code           int
	stdout, stderr string // regular expressions; "": nothing
}

func play(t *testing.T, addr string, steps []kvStep) {
	for _, s := range steps {
		t.Run(s.name, func(t *testing.T) {
			r := call(t, s.stdin, append([]string{"kv", s.args[0], "--addr", addr}, s.args[1:]...)...)
			require.Equal(t, s.code, r.code, r.stderr)
			match := func(pattern, text string) {
				if pattern == "" {
					pattern = "^$"
				}
				require.Regexp(t, pattern, text)
			}
			match(s.stdout, r.stdout)
			match(s.stderr, r.stderr)
		})
	}
}

func words(line string) []string { return strings.Fields(line) }

func TestSessionOfKVValues(t *testing.T) {
	dir := t.TempDir()
	plan := write(t, dir, "plan.json", `{"b": [1, 2.50]}`)
	number := write(t, dir, "number", "12\r\n")
	big := write(t, dir, "big", strings.Repeat("x", 1<<20+1))
	play(t, store(t), []kvStep{
		{"a string", "", []string{"put", "ns", "text", "some text"}, exitOK, `^revision \d+\n$`, ``},
		{"read it", "", words("get ns text"), exitOK, `^some text\n$`, ``},
		{"raw", "", words("get ns text -o raw"), exitOK, `^some text$`, ``},
		{"as JSON", "", words("get ns text -o json"), exitOK, `^\{"ns":"ns","key":"text","type":"string","value":"some text","create":(\d+),"mod":\d+,"version":1,"updated":\d+\}\n$`, ``},
		{"an int", "", words("put ns int --type int -- -5"), exitOK, `^revision \d+\n$`, ``},
		{"an int as JSON", "", words("get ns int -o json"), exitOK, `"type":"int","value":-5,`, ``},
		{"an int with a sign JSON has not", "", words("put ns plus +5 -t int"), exitOK, `^revision \d+\n$`, ``},
		{"comes back as it was", "", words("get ns plus -o json"), exitOK, `"type":"int","value":"\+5",`, ``},
		{"an int of a file", "", words("put ns file --type int @" + number), exitOK, `^revision \d+\n$`, ``},
		{"without its line end", "", words("get ns file -o raw"), exitOK, `^12$`, ``},
		{"no int", "", words("put ns int --type int 5x"), exitRefused, ``, `value "5x" is not of type int`},
		{"a double", "nan\n", words("put ns double - --type double"), exitOK, `^revision \d+\n$`, ``},
		{"a double as JSON", "", words("get ns double -o json"), exitOK, `"type":"double","value":"nan",`, ``},
		{"a bool", "", words("put ns bool true -t bool"), exitOK, `^revision \d+\n$`, ``},
		{"a bool as JSON", "", words("get ns bool -o json"), exitOK, `"value":true,`, ``},
		{"json of a file", "", words("put ns plan --json @" + plan), exitOK, `^revision \d+\n$`, ``},
		{"json for people", "", words("get ns plan"), exitOK, `^\{\n    "b": \[\n        1,\n        2.50\n    \]\n\}\n$`, ``},
		{"json byte for byte", "", words("get ns plan -o raw"), exitOK, `^\{"b": \[1, 2.50\]\}$`, ``},
		{"no json", "", words("put ns plan --json {"), exitFailed, ``, `not JSON`},
		{"no json of standard input", "{", words("put ns plan --json -"), exitFailed, ``, `not JSON`},
		{"no UTF-8 to compare with", "\xff", words("cas ns text - new"), exitFailed, ``, `not UTF-8`},
		{"bytes of standard input", "\x00\xff\n", words("put ns bytes - --type bytes"), exitOK, `^revision \d+\n$`, ``},
		{"bytes for people", "", words("get ns bytes"), exitOK, `^AP8K\n$`, ``},
		{"a string is UTF-8", "\xff", words("put ns text -"), exitFailed, ``, `not UTF-8`},
		{"too long", "", words("put ns text @" + big), exitRefused, ``, `at most 1048576 bytes`},
		{"no such file", "", words("put ns text @" + filepath.Join(dir, "none")), exitFailed, ``, `no such file`},
		{"an empty value", "", []string{"put", "ns", "empty", ""}, exitOK, `^revision \d+\n$`, ``},
		{"read it", "", words("get ns empty"), exitOK, `^\n$`, ``},
		{"unknown type", "", words("put ns a b --type text"), exitUsage, ``, `must be one of string, int`},
		{"a key that is not allowed", "", []string{"put", "ns", "a\nb", "x"}, exitRefused, ``, `control characters`},
		{"an absent key", "", words("get ns none"), exitNotFound, ``, `confcenter: .*none`},
	})
	addr := store(t)
	octets := "\x00\x01\xfe\xff\r\n"
	require.Equal(t, exitOK, call(t, octets, at(addr, "kv", "put", "ns", "b", "-", "--type", "bytes")...).code)
	require.Equal(t, octets, call(t, "", at(addr, "kv", "get", "ns", "b", "-o", "raw")...).stdout)
}

func TestSessionOfKVWrites(t *testing.T) {
	addr := store(t)
	first := call(t, "", at(addr, "kv", "put", "ns", "a", "1")...).stdout
	rev := strings.TrimPrefix(strings.TrimSpace(first), "revision ")
	play(t, addr, []kvStep{
		{"on a condition that holds", "", words("put ns a 2 --if-mod " + rev), exitOK, `^revision \d+\n$`, ``},
		{"on one that does not", "", words("put ns a 3 --if-mod " + rev), exitRefused, ``, `a of ns is not as expected: its revision is \d+ and its value "2"`},
		{"what must be absent", "", words("put ns a 3 --if-mod 0"), exitRefused, ``, `expected`},
		{"what must be there", "", words("put ns none 3 --if-mod 7"), exitRefused, ``, `none of ns is not as expected: it is absent`},
		{"with the entry before", "", words("put ns a 3 --prev -o json"), exitOK, `"entry":\{.*"value":"3".*"version":3.*\},"prev":\{.*"value":"2"`, ``},
		{"at a revision", "", words("get ns a --rev " + rev), exitOK, `^1\n$`, ``},
		{"at one to come", "", words("get ns a --rev 9999999"), exitRefused, ``, `9999999`},
		{"before it was", "", words("get ns b --rev " + rev), exitNotFound, ``, `b`},
		{"history", "", words("history ns a"), exitOK, `(?s)^REVISION +VERSION +TIME +TYPE +VALUE\n\d+ +3 +\S+Z +string +"3"\n\d+ +2 .*\n\d+ +1 `, ``},
		{"a part of it", "", words("history ns a --limit 1 -o json"), exitOK, `^\{"floor":\d+,"more":true,"versions":\[\{[^}]*"value":"3"[^}]*\}\]\}\n$`, ``},
		{"how to go on", "", words("history ns a --limit 1"), exitOK, `"3"`, `there are more; continue with --before \d+`},
		{"of nothing", "", words("history ns none"), exitNotFound, ``, `no version of none`},
		{"restore", "", words("restore ns a --rev " + rev), exitOK, `^revision \d+\n$`, ``},
		{"restored", "", words("get ns a"), exitOK, `^1\n$`, ``},
		{"restore without a revision", "", words("restore ns a"), exitUsage, ``, `rev`},
		{"restore what was not", "", words("restore ns none --rev " + rev), exitNotFound, ``, `none`},

		{"increment", "", words("incr ns n"), exitOK, `^1\n$`, ``},
		{"by", "", words("incr ns n --by -3"), exitOK, `^-2\n$`, ``},
		{"below the minimum", "", words("incr ns n --by -3 --min -4"), exitRefused, ``, `-5 is below min -4`},
		{"above the maximum", "", words("incr ns n --by 3 --max 0"), exitRefused, ``, `1 is above max 0`},
		{"initial", "", words("incr ns m --initial 1000 -o json"), exitOK, `"type":"int","value":1001,`, ``},
		{"of a text", "", words("incr ns a"), exitRefused, ``, `type`},
		{"beyond 64 bits", "", words("incr ns m --by 9223372036854775807"), exitRefused, ``, `64 bits`},

		{"compare and swap", "", words("cas ns a 1 new"), exitOK, `^revision \d+\n$`, ``},
		{"again", "", words("cas ns a 1 new"), exitRefused, ``, `its value "new"`},
		{"absent", "", words("cas ns c x --absent"), exitOK, `^revision \d+\n$`, ``},
		{"not absent", "", words("cas ns c x --absent"), exitRefused, ``, `expected`},
		{"neither", "", words("cas ns c x"), exitUsage, ``, `OLD`},

		{"with a token", "", words("incr ns once --token t1"), exitOK, `^1\n$`, ``},
		{"once", "", words("incr ns once --token t1"), exitOK, `^1\n$`, ``},
		{"the token for something else", "", words("incr ns twice --token t1"), exitRefused, ``, `token`},

		{"with a time", "", words("put ns short x --ttl 1h -o json"), exitOK, `"expires":\d+`, ``},
		{"at a moment", "", words("put ns short x --expires 2100-01-02T03:04:05Z -o json"), exitOK, `"expires":4102542245000`, ``},
		{"at a moment without a zone", "", words("put ns short x --expires 2100-01-02T03:04 -o json"), exitOK, `"expires":4102542240000`, `2100-01-02T03:04 is 2100-01-02T03:04:00Z`},
		{"at a moment elsewhere", "", words("put ns short x --expires 2100-01-02T11:04:05+08:00 -o json"), exitOK, `"expires":4102542245000`, `2100-01-02T11:04:05\+08:00 is 2100-01-02T03:04:05Z`},
		{"in the past", "", words("put ns short x --expires 5"), exitOK, `^revision \d+\n$`, ``},
		{"it has ended", "", words("get ns short"), exitNotFound, ``, `short`},
		{"both", "", words("put ns short x --ttl 1h --expires 5"), exitUsage, ``, `ttl`},
		{"time of nothing", "", words("put ns short x --ttl 0"), exitUsage, ``, `leave it out`},
		{"time of nothing of a count", "", words("incr ns short --ttl 0s"), exitUsage, ``, `leave it out`},
		{"no time", "", words("put ns short x --ttl -1h"), exitRefused, ``, `negative`},
		{"no moment", "", words("put ns short x --expires tomorrow"), exitUsage, ``, `tomorrow`},

		{"delete", "", words("del ns c"), exitOK, `^1\n$`, ``},
		{"what is not there", "", words("del ns c -o json"), exitOK, `^\{"deleted":0,"revision":\d+\}\n$`, ``},
		{"on a condition", "", words("del ns a --if-mod 1"), exitRefused, ``, `expected`},
		{"a prefix of nothing", "", []string{"del", "ns", "", "--prefix"}, exitUsage, ``, `drop`},
		{"a prefix", "", words("del ns o --prefix"), exitOK, `^1\n$`, ``},
		{"drop, said hastily", "", words("drop ns"), exitUsage, ``, `drop would delete all keys of 'ns' \([34]\); confirm with --confirm 'ns'`},
		{"not asked without a terminal", "ns\n", words("drop ns"), exitUsage, ``, `--confirm`},
		{"drop of another", "", words("drop ns --confirm sn"), exitRefused, ``, `confirm is "sn", but the keys to delete are in namespace "ns"`},
		{"in a transaction", `{"then":[{"op":"delete_prefix","prefix":""}]}`, words("txn ns"), exitRefused, ``, `all keys of namespace "ns" must be confirmed`},
		{"nothing is gone", "", words("list ns --count"), exitOK, `^[34]\n$`, ``},
		{"drop", "", words("drop ns --confirm ns"), exitOK, `^[34]\n$`, ``},
		{"nothing is left", "", words("list ns --count"), exitOK, `^0\n$`, ``},
	})
}

// A person at a terminal is asked for the name of the namespace.
func TestDropAsksAtATerminal(t *testing.T) {
	addr := store(t)
	require.Equal(t, exitOK, call(t, "", at(addr, "kv", "put", "old", "a", "1")...).code)
	for _, c := range []struct {
		typed          string
		code           int
		stdout, stderr string
	}{
		{"odl\n", exitRefused, "", "the name typed is not 'old'; nothing was deleted"},
		{"\n", exitRefused, "", "nothing was deleted"},
		{"y\n", exitRefused, "", "nothing was deleted"},
		{"\x04", exitRefused, "", "nothing was deleted"},
		{"old\n", exitOK, "1\n", ""},
	} {
		keyboard, terminal := openTerminal(t)
		_, err := keyboard.WriteString(c.typed)
		require.NoError(t, err)
		var stdout, stderr strings.Builder
		require.Equal(t, c.code, run(t.Context(), at(addr, "kv", "drop", "old"), terminal, &stdout, &stderr), "%q: %s", c.typed, stderr.String())
		require.Equal(t, c.stdout, stdout.String())
		require.Contains(t, stderr.String(), "This deletes all keys of 'old' (1) on "+addr+". To confirm, type the name: ")
		require.Contains(t, stderr.String(), c.stderr)
	}
}

// openTerminal returns both ends of a terminal.
func openTerminal(t *testing.T) (keyboard, terminal *os.File) {
	t.Helper()
	keyboard, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = keyboard.Close() })
	require.NoError(t, unix.IoctlSetPointerInt(int(keyboard.Fd()), unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(int(keyboard.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	terminal, err = os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = terminal.Close() })
	return keyboard, terminal
}

func TestSessionOfKVLists(t *testing.T) {
	addr := store(t)
	for _, key := range []string{"t/1", "t/2", "t/3", "u"} {
		require.Equal(t, exitOK, call(t, "", at(addr, "kv", "put", "my ns", key, "v of "+key)...).code)
	}
	require.Equal(t, exitOK, call(t, "", at(addr, "kv", "put", "other", "long", strings.Repeat("é", 100))...).code)
	play(t, addr, []kvStep{
		{"all", "", []string{"list", "my ns"}, exitOK, `(?s)^KEY +TYPE +VALUE +REVISION +VERSION +ENDS\nt/1 +string +"v of t/1" +\d+ +1 +-\n.*\nu .*\n$`, ``},
		{"a page", "", []string{"list", "my ns", "t/", "--limit", "2"}, exitOK, `(?s)t/1 .*t/2 [^\n]*\n$`, `there are more; continue with --after 't/2'`},
		{"the rest", "", []string{"list", "my ns", "t/", "--after", "t/2", "--keys"}, exitOK, `^t/3\n$`, ``},
		{"as JSON", "", []string{"list", "my ns", "t/", "--limit", "1", "-o", "json"}, exitOK, `^\{"entries":\[\{[^}]*"key":"t/1"[^}]*\}\],"more":true,"revision":\d+\}\n$`, `--after`},
		{"keys as JSON", "", []string{"list", "my ns", "--keys", "-o", "json"}, exitOK, `"keys":\["t/1","t/2","t/3","u"\],"more":false`, ``},
		{"everything as lines", "", []string{"list", "my ns", "--all", "-o", "json"}, exitOK, `(?s)^(\{[^\n]*\}\n){4}$`, ``},
		{"everything", "", []string{"list", "my ns", "--all", "--keys"}, exitOK, `^t/1\nt/2\nt/3\nu\n$`, ``},
		{"count", "", []string{"list", "my ns", "t/", "--count"}, exitOK, `^3\n$`, ``},
		{"count as JSON", "", []string{"list", "my ns", "--count", "-o", "json"}, exitOK, `^\{"count":4\}\n$`, ``},
		{"nothing", "", words("list none"), exitOK, `^KEY .*\n$`, ``},
		{"nothing as JSON", "", words("list none -o json"), exitOK, `"entries":\[\]`, ``},
		{"a long value is cut", "", words("list other"), exitOK, `"é+…`, ``},
		{"limit", "", words("list ns --limit 0"), exitUsage, ``, `limit = 0`},
		{"two questions", "", words("list ns --count --all"), exitUsage, ``, `count`},
		{"several", "", []string{"mget", "my ns", "u", "none", "t/1"}, exitOK, `(?s)^KEY [^\n]*\nu [^\n]*\nt/1 [^\n]*\n$`, ``},
		{"several as JSON", "", []string{"mget", "my ns", "u", "none", "-o", "json"}, exitOK, `^\[\{.*"key":"u".*\},null\]\n$`, ``},
		{"namespaces", "", words("namespaces"), exitOK, `^NAMESPACE +KEYS +BYTES\nmy ns +4 +\d+\nother +1 +204\n$`, ``},
		{"namespaces as JSON", "", words("namespaces -o json"), exitOK, `^\[\{"bytes":\d+,"keys":4,"name":"my ns"\},.*\]\n$`, ``},
		{"numbers", "", words("stat"), exitOK, `(?s)^revision +5\nnamespaces +2\nkeys +5\n`, ``},
		{"numbers as JSON", "", words("stat -o json"), exitOK, `"keys":5,`, ``},
	})
	t.Setenv("CONFCENTER_ADDR", addr)
	require.Equal(t, []string{"my ns"}, complete(t, "kv", "get", "m"))
	require.Equal(t, []string{"t/1", "t/2", "t/3"}, complete(t, "kv", "get", "my ns", "t"))
	require.Empty(t, complete(t, "kv", "get", "my ns", "u", ""))
	require.Contains(t, complete(t, "kv", "mget", "my ns", "u", ""), "t/3")
	require.Equal(t, []string{"text", "json", "raw"}, complete(t, "kv", "get", "-o", ""))
	require.Contains(t, complete(t, "kv", "put", "--type", ""), "double")
	require.Contains(t, complete(t, "kv", ""), "watch")
}

func TestSessionOfKVTxn(t *testing.T) {
	dir := t.TempDir()
	claim := write(t, dir, "claim.json", `{"if":[{"key":"owner","target":"version","op":"=","number":0}],
		"then":[{"op":"put","key":"owner","value":"ann"},{"op":"incr","key":"claims"},{"op":"put","ns":"else where","key":"k","value":{"a":1}}],
		"else":[{"op":"get","key":"owner"}]}`)
	play(t, store(t), []kvStep{
		{"holds", "", words("txn ns " + claim), exitOK, `^revision \d+, conditions hold\nput owner "ann"\nincr claims 1\nput k \{"a":1\}\n$`, ``},
		{"does not hold", "", words("txn ns " + claim), exitOK, `^revision \d+, conditions do not hold\nget owner "ann"\n$`, ``},
		{"as JSON", "", words("txn ns -o json " + claim), exitOK, `^\{"held":false,"results":\[\{"entry":\{.*\},"op":"get"\}\],"revision":\d+\}\n$`, ``},
		{"without else", `{"if":[{"key":"owner","target":"value","op":"=","value":"bob"}],"then":[{"op":"delete","key":"owner"}]}`, words("txn ns"), exitRefused,
			`^revision \d+, conditions do not hold\n$`, `nothing was changed`},
		{"a batch", `{"then":[{"op":"put","key":"x","value":1},{"op":"put","key":"x","value":2},{"op":"get","key":"x"},{"op":"delete","key":"none"},{"op":"delete_prefix","prefix":"cl"},{"op":"grant","ttl":60000}]}`,
			words("batch ns -"), exitOK, `(?s)^revision \d+, conditions hold\nput x .*\nget x 2\ndelete none deleted 0\ndelete_prefix cl deleted 1\ngrant \d+ 1m0s\n$`, ``},
		{"elsewhere", "", []string{"get", "else where", "k", "-o", "raw"}, exitOK, `^\{"a":1\}$`, ``},
		{"broken", "{\n  \"then\": [,]}", words("txn ns"), exitFailed, ``, `standard input:2:`},
		{"no object", `[{"op":"put","key":"x","value":"y"}]`, words("txn ns"), exitFailed, ``, `standard input: not a JSON object`},
		{"a misspelt member", `{"thn":[{"op":"put","key":"x","value":"y"}]}`, words("txn ns"), exitRefused, ``, `standard input: member "thn" is not known here`},
		{"a member in capitals", `{"Then":[{"op":"put","key":"x","value":"y"}]}`, words("txn ns"), exitRefused, ``, `standard input: member "Then" is not known here`},
		{"two times", `{"then":[{"op":"put","key":"x","value":"y","ttl":5000,"ttl_ms":5}]}`, words("txn ns"), exitRefused, ``, `then 0: ttl and ttl_ms differ`},
		{"a misspelt member of an operation", `{"then":[{"op":"put","key":"x","valeu":"y"}]}`, words("txn ns"), exitRefused, ``, `then 0: member "valeu" is not known here`},
		{"an unknown operation", `{"then":[{"op":"fly"}]}`, words("txn ns"), exitRefused, ``, `there is no operation "fly"`},
		{"a part that is wrong", `{"then":[{"op":"get","key":"x"},{"op":"put","key":"x","value":"y","type":"int"}]}`, words("txn ns"), exitRefused, ``, `operation 1: .*int`},
		{"no such file", "", words("txn ns " + filepath.Join(dir, "none")), exitFailed, ``, `no such file`},
	})
}

func TestSessionOfLeases(t *testing.T) {
	addr := store(t)
	r := call(t, "", at(addr, "kv", "lease", "grant", "1h")...)
	require.Equal(t, exitOK, r.code, r.stderr)
	id := strings.TrimSpace(r.stdout)
	_, err := strconv.Atoi(id)
	require.NoError(t, err)
	lease := func(line string) []string { return append([]string{"lease"}, words(line)...) }
	for _, s := range []kvStep{
		{"put", "", words("put ns a x --lease " + id), exitOK, `^revision \d+\n$`, ``},
		{"listed", "", words("list ns"), exitOK, `lease ` + id, ``},
		{"info", "", lease("info " + id), exitOK, `^lease ` + id + ` of 1h0m0s: (1h0m0s|59m\S+) left, 1 keys\n$`, ``},
		{"info as JSON", "", lease("info -o json " + id), exitOK, `^\{"keys":1,"lease":` + id + `,"left_ms":\d+,"ttl_ms":3600000\}\n$`, ``},
		{"keep", "", lease("keep " + id), exitOK, `^` + id + ` 1h0m0s\n$`, ``},
		{"revoke", "", lease("revoke " + id), exitOK, `^1\n$`, ``},
		{"its keys are gone", "", words("get ns a"), exitNotFound, ``, `a`},
		{"keep what is gone", "", lease("keep " + id), exitNotFound, ``, `lease`},
		{"info of it", "", lease("info " + id), exitNotFound, ``, `lease`},
		{"put with it", "", words("put ns a x --lease " + id), exitNotFound, ``, `lease`},
		{"no number", "", lease("info abc"), exitUsage, ``, `abc`},
		{"no time", "", lease("grant soon"), exitUsage, ``, `soon`},
		{"too short", "", lease("grant 1ms"), exitRefused, ``, `the limits are 100ms and`},
		{"no verb", "", []string{"lease"}, exitUsage, ``, `verb`},
	} {
		t.Run(s.name, func(t *testing.T) {
			r := call(t, "", at(addr, append([]string{"kv"}, s.args...)...)...)
			if s.name == "no verb" {
				r = call(t, "", "kv", "lease")
			}
			require.Equal(t, s.code, r.code, r.stderr)
			require.Regexp(t, "^$|"+s.stdout, r.stdout)
			require.Regexp(t, "^$|"+s.stderr, r.stderr)
			require.Equal(t, s.stdout == "", r.stdout == "")
		})
	}
}

func TestKVLockRunsACommand(t *testing.T) {
	addr := store(t)
	t.Setenv("CONFCENTER_ADDR", addr)
	file, err := binary()
	require.NoError(t, err)
	lock := func(flags string, command ...string) result {
		return call(t, "input", append(append([]string{"kv", "lock", "ns", "job"}, append(words(flags), "--")...), command...)...)
	}
	r := lock("", "sh", "-c", `cat; echo " $CONFCENTER_LOCK_NS $CONFCENTER_LOCK_KEY $CONFCENTER_LOCK_FENCE"`)
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Regexp(t, `^input ns job \d+\n$`, r.stdout)
	require.Equal(t, exitNotFound, call(t, "", "kv", "get", "ns", "job").code, "it was given back")

	require.Equal(t, 7, lock("", "sh", "-c", "exit 7").code)
	require.Equal(t, 128+9, lock("", "sh", "-c", "kill -KILL $$").code)
	r = lock("", "no-such-command")
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.stderr, "no-such-command")
	require.Equal(t, exitUsage, call(t, "", "kv", "lock", "ns", "job", "true").code)
	require.Equal(t, exitUsage, call(t, "", "kv", "lock", "ns", "job", "--").code)

	r = lock("--holder me", "sh", "-c", file+` kv get ns job; `+file+` kv lock ns job --no-wait -- true; echo $?; `+
		file+` kv lock ns job --wait 50ms -- true; echo $?; `+file+` kv put ns job other; echo $?; `+file+` kv put ns out mine --fenced`)
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Regexp(t, `^me\n5\n5\n5\nrevision \d+\n$`, r.stdout)
	require.Contains(t, r.stderr, `job of ns: held by "me"`)
	require.Regexp(t, `was not free within 50ms: held by "me" since revision \d+\n`, r.stderr)
	require.Regexp(t, `a lock that is held by "me" since revision \d+`, r.stderr)

	r = lock("", "sh", "-c", `trap late=1 TERM; `+file+` kv del ns job; until [ "$late" ]; do sleep 0.01; done; `+file+` kv put ns out late --fenced; echo $?`)
	require.Regexp(t, `(?m)^5$`, r.stdout, "a late write is refused; what deletes the lock may be ended before it says so")
	require.Equal(t, "mine\n", call(t, "", "kv", "get", "ns", "out").stdout)

	r = lock("", "sh", "-c", file+` kv del ns job; trap 'exit 3' TERM; while :; do sleep 0.05; done`)
	require.Equal(t, exitRefused, r.code)
	require.Contains(t, r.stderr, "the lock was lost")

	require.Equal(t, exitUsage, call(t, "", "kv", "put", "ns", "out", "x", "--fenced").code, "outside of a lock")
	require.Equal(t, exitRefused, call(t, "", "kv", "put", "ns", "out", "x", "--if-fence", "job=77").code)
	require.Equal(t, exitUsage, call(t, "", "kv", "put", "ns", "out", "x", "--if-fence", "job").code)
}

func TestKVLocksWaitInLine(t *testing.T) {
	addr := store(t)
	t.Setenv("CONFCENTER_ADDR", addr)
	log := filepath.Join(t.TempDir(), "log")
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() {
			r := call(t, "", "kv", "lock", "ns", "job", "--", "sh", "-c", "echo in >> "+log+"; sleep 0.02; echo out >> "+log)
			if r.code != exitOK {
				t.Error(r.stderr)
			}
		})
	}
	all.Wait()
	text, err := os.ReadFile(log)
	require.NoError(t, err)
	require.Equal(t, strings.Repeat("in\nout\n", 5), string(text))
}

// watchLines runs kv watch until the test ends and hands out its lines.
func watchLines(t *testing.T, args ...string) (next func() string, stop func() int) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	reader, writer := io.Pipe()
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, append([]string{"kv", "watch"}, args...), strings.NewReader(""), writer, io.Discard)
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
	lines := bufio.NewScanner(reader)
	next = func() string {
		t.Helper()
		require.True(t, lines.Scan())
		return lines.Text()
	}
	return next, stop
}

func TestKVWatch(t *testing.T) {
	addr := store(t)
	t.Setenv("CONFCENTER_ADDR", addr)
	kv := func(line string) {
		t.Helper()
		r := call(t, "", append([]string{"kv"}, words(line)...)...)
		require.Equal(t, exitOK, r.code, r.stderr)
	}
	kv("put ns a 1")
	kv("put ns b 1")
	next, stop := watchLines(t, "ns", "a", "--state")
	require.Regexp(t, `^\d+ state a "1"$`, next())
	require.Regexp(t, `^\d+ synced$`, next())
	kv("put ns b 2")
	kv("put ns a 2")
	require.Regexp(t, `^\d+ put a "2"$`, next())
	kv("del ns a")
	require.Regexp(t, `^\d+ delete a$`, next())
	kv("put ns a x --ttl 1ms")
	require.Regexp(t, `^\d+ put a "x"$`, next())
	require.Regexp(t, `^\d+ expire a$`, next())
	require.Equal(t, exitOK, stop(), "to be interrupted is how a watch ends")

	next, _ = watchLines(t, "--from", "1", "--count", "1")
	require.Regexp(t, `^2 put ns b "1"$`, next())
	next, _ = watchLines(t, "ns", "--prefix", "b", "--from", "1", "--prev", "-o", "json")
	type event struct {
		Op          string
		Entry, Prev jsoniter.RawMessage
	}
	var e event
	require.NoError(t, jsoniter.Unmarshal([]byte(next()), &e))
	require.Equal(t, "put", e.Op)
	require.Nil(t, e.Prev)
	e = event{}
	require.NoError(t, jsoniter.Unmarshal([]byte(next()), &e))
	require.Equal(t, "2", jsoniter.Get(e.Entry, "value").ToString())
	require.Equal(t, "1", jsoniter.Get(e.Prev, "value").ToString())

	require.Equal(t, exitUsage, call(t, "", "kv", "watch", "ns", "a", "--prefix", "b").code)
	require.Equal(t, exitUsage, call(t, "", "kv", "watch", "--prefix", "b").code)
	require.Equal(t, exitUsage, call(t, "", "kv", "watch", "--state", "--from", "1").code)
	require.Equal(t, exitRefused, call(t, "", "kv", "watch", "ns", "--from", "99999").code)
}

// What follows from the row of an operation can be typed, whatever it does.
func TestVerbsThatFollowFromRows(t *testing.T) {
	addr := store(t)
	for _, kind := range kv.OpKinds() {
		if !kind.Follows() {
			continue
		}
		args := []string{"kv", kind.String(), "ns", kind.String(), "--addr", addr, "-o", "json", "--prev"}
		if kind.Has(kv.MemberValue) {
			args = append(args, "x")
		}
		r := call(t, "", args...)
		require.Equal(t, exitOK, r.code, "%s: %s", kind, r.stderr)
		require.Equal(t, kind.Sets(), jsoniter.Get([]byte(r.stdout), "entry", "key").ToString() == kind.String(), r.stdout)
		require.Contains(t, r.stdout, `"prev":null`, kind)
	}
}

func TestHelpOfKVVerbs(t *testing.T) {
	for _, group := range []string{"kv", "kv lease"} {
		command, _, err := rootCommand((&verb.App{})).Find(words(group))
		require.NoError(t, err)
		for _, verb := range command.Commands() {
			t.Run(group+" "+verb.Name(), func(t *testing.T) {
				require.NotEmpty(t, verb.Short)
				require.Contains(t, verb.Example, "confcenter "+group)
			})
		}
	}
	require.Equal(t, exitUsage, call(t, "", "kv").code)
	require.Equal(t, exitUsage, call(t, "", "kv", "frobnicate").code)
	for _, verb := range []string{"get a b", "put a b c", "list a", "txn a", "watch a", "stat", "lock a b -- true", "lease info 1", "drop a", "drop a --confirm a"} {
		r := call(t, `{"then":[]}`, append(append([]string{"kv"}, words(verb)[0], "--addr", "127.0.0.1:1"), words(verb)[1:]...)...)
		if strings.HasPrefix(verb, "lease") {
			r = call(t, "", "kv", "lease", "info", "1", "--addr", "127.0.0.1:1")
		}
		require.Equal(t, exitUnreachable, r.code, verb+": "+r.stderr)
	}
}
