//go:build soak

package integration

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/internal/jsontext"
	"confcenter/meta"
)

// serversProblems are the server's own sentences about problems: with _meta.json, with
// files, and with their surroundings.
func serversProblems(t *testing.T) []string {
	t.Helper()
	text := `{"conf_inherits":1,"inherit_options":{"*":{"chain":1,"merge":"up","other":1}},"inherit_options":1,
		"conf_inherit":{"":"a","t\tab":"a","a.json":"none","a":"b","n":1,"c":"x,","d":"e","e":"d","m":"a,b x"},
		"app_profile":{"":{},"s":1,"p":{"_idc":"x","web":1,"app":"none"}}}`
	m, problems, err := meta.Parse([]byte(text))
	require.NoError(t, err)
	var list []string
	for _, p := range append(problems, m.Check(func(string) bool { return false })...) {
		list = append(list, p.Text)
	}
	for _, wrong := range []string{"", "{", "[1 2]", `{"a" 1}`, `{1}`, `{"a":1 2}`, "x", "tru", "01", "1 2", `"\x"`, "\"\x01\"", `"\u12"`, `"\ud800"`, "1e999", "\uFEFF{}", strings.Repeat("[", 600), "-"} {
		_, err := jsontext.Check([]byte(wrong))
		var fault *jsontext.SyntaxError
		require.True(t, errors.As(err, &fault), wrong)
		line, column := fault.Position([]byte(wrong))
		at := fmt.Sprintf("is not valid JSON: line %d column %d: %s", line, column, fault.Reason)
		list = append(list, at, at+"; the last good version stays in service")
	}
	_, err = jsontext.CheckUTF8([]byte("\"\xff\""))
	require.Error(t, err)
	var fault *jsontext.SyntaxError
	require.True(t, errors.As(err, &fault))
	return append(list, "is not valid JSON: line 1 column 2: "+fault.Reason,
		"must hold a JSON object; the last good version stays in service", "cannot be read: permission denied", "is not a regular file",
		"is a symlink that cannot be followed inside the configuration directory; make it relative and keep it inside: path escapes from parent",
		`base "b.json" is no JSON object, so nothing of it is inherited`, `no address is written like this, so the section counts for none; write "::1"`,
		"is a symlink that leads to nothing: no such file or directory", "is a symlink to team/r.json, which can be changed by that name; put the role's own file in its place",
		"is larger than the limit of 100 bytes; make it smaller",
		"is not served: its name has a segment that begins with a dot; such files are not configuration",
		"the configuration directory is gone, its last contents stay in service: no such file or directory",
		"the disk of the data directory does not answer; files are read and written again when it does",
		"writing to /data/state has failed: input/output error",
		"writing to /data/state has ended because of a fault that the server's log describes: panic",
		"/data/state can only be read: read-only file system; writes resume when the server is restarted",
		"files in /data/state are gone; restore it from a backup: durable.mark is gone: file does not exist",
		"a file in /data/state cannot be read, so what needs it fails; restore a backup: input/output error",
		"the configuration store takes no changes until a restart, because a write has failed midway: the store is closed",
		"the disk of /data/state is full: no space left on device",
		"the disk of /data/state is full, and writes wait for space: no space left on device",
		"the disk of /data/state does not answer; writes go on when it does",
		"the disk is full: 1MiB are free, so not even deletes are accepted; free space on the server's disk",
		"the disk is nearly full: 9MiB are free, 64MiB are kept in reserve; free space on the server's disk, or delete something",
		"the store occupies 2MiB on disk, its limit is 1MiB; delete something or raise the server's --kv-quota",
		"the store takes no writes because of a fault of its own, which the server's log describes; restart the server",
		"cannot be watched, so its changes are found only by the scan every 10s: the kernel's limit fs.inotify.max_user_watches (8192) is reached; raise it, for example with sysctl -w fs.inotify.max_user_watches=16384",
		"file events are not available, changes are found only by the scan: the kernel's limit fs.inotify.max_user_instances (128) is reached; raise it, for example with sysctl -w fs.inotify.max_user_instances=16384, or let the server have more open files (ulimit -n)",
		"there are more files than the limit, or than there is memory for; those beyond are not served: remove some, or raise the server's --memory",
		"does not fit into the memory for configurations: it has 100 bytes, and all together may take 50; remove some or raise the server's --memory",
		"the configurations take more than the 50 bytes of memory that they may; all are served, and nothing can be added: remove some or raise the server's --memory",
		"a.json: cannot replace in the configuration directory: the disk is full; free space and write again; its new version is served, and the file is written when it can be",
		"a.json: cannot replace in the configuration directory: read-only file system; make the configuration directory writable, or edit the file there; its new version is served, and the file is written when it can be",
		"has changed, but its version is at the end of all versions, so that clients do not fetch it; edit the file itself, which always counts, or use another name; `confcenter renumber` begins all versions again, see docs/operator.md")
}

// logsProblems are the sentences of the state store, and of the log in it, when nothing can be
// written.
func logsProblems() []string {
	return []string{
		"the write was not tried: the disk of /data/state does not answer; writes go on when it does",
		"it is not known whether the write takes effect, so ask again with its token, or read: the store's log has not answered for 10s",
		"it is not known whether the write has taken effect, so read after the restart, or ask again with its token: writing to /data/state has failed: input/output error",
		"nothing was changed: the disk is nearly full: 9MiB are free, 64MiB are kept in reserve; free space on the server's disk, or delete something",
		"the store's keys, values and leases take 12 bytes of memory, its limit is 10: delete something",
		"the store has 12 keys, its limit is 10: delete something",
		"1024 transactions are waiting, which is the limit",
		"1024 bytes of transactions are waiting, the limit is 1024",
		"what the transaction requires does not hold",
		"what the state store has of the configurations is damaged: doc/a.json: it is missing; restore the data directory from a backup",
		"the store cannot be opened: input/output error",
		"the data directory is in use by another process: resource temporarily unavailable",
		"the store is closed",
	}
}

// whys are the sentences that say why a file has what say in a value.
func whys() []string {
	return []string{
		"has no /a/b", "there is no such file", "was deleted", "is not an object, so that nothing of it is merged",
		"replaces /a as a whole, and has no /a/b", "app.json is stronger and has it, too", "app.json is stronger and replaces /a as a whole",
		"its members are merged with those of stronger files", "is the strongest of the files that have it",
		"is the strongest of the files whose members are merged", "inherits nothing",
	}
}

func TestConsoleProblemsAreTranslated(t *testing.T) {
	p := StartProcess(t, confWith(t, map[string]string{"_meta.json": `{"conf_inherit":{"web.json":"absent"}}`, "never.json": "{\n  \"a\": oops\n}"}))
	require.NoError(t, os.Symlink("/etc", filepath.Join(p.Conf, "away")))
	tb := startBrowser(t).open(p, "status", view{language: "zh-CN"})
	tb.sees("#problems", "基础文件“absent.json”不存在")
	tb.sees("#problems", "不是有效的 JSON：第 2 行第 8 列：意外的 'o'：此处应为一个值")
	tb.sees("#problems", "无法在配置目录内跟随的符号链接：")
	tb.load("configs/never.json")
	tb.sees("#broken", "第 2 行第 8 列")

	sentences, err := json.Marshal(slices.Concat(serversProblems(t), logsProblems(), whys()))
	require.NoError(t, err)
	type pair struct{ From, To string }
	chinese := regexp.MustCompile(`\p{Han}`)
	for _, one := range eval[[]pair](tb, fmt.Sprintf(`import(new URL("problems.js", document.baseURI)).then(({problemText}) => %s.map(text => ({From: text, To: problemText(text)})))`, sentences)) {
		require.Regexp(t, chinese, one.To, one.From)
		if !strings.Contains(one.From, ": ") {
			require.NotRegexp(t, `[a-z]+ [a-z]+ [a-z]+`, one.To, one.From)
		}
	}
	tb.click("#language")
	tb.load("status")
	tb.sees("#problems", `base "absent.json" does not exist`)
}
