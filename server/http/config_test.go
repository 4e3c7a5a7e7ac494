package http

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/access"
	"confcenter/confstore"
	"confcenter/confstore/snapshot"
	"confcenter/kvstore/memory"
)

// configKit is a gateway on a config store that finds what happens in its directory
// when it is told to.
type configKit struct {
	*kit
	conf, data string
	change     []func(*Config) // of the gateway
	log        *memory.Store
	files      *confstore.Store
}

func startConfig(t testing.TB, files map[string]string, change ...func(*Config)) *configKit {
	base := t.TempDir()
	k := &configKit{conf: filepath.Join(base, "conf"), data: filepath.Join(base, "data"), change: change, log: memory.ForTest(t)}
	require.NoError(t, os.Mkdir(k.conf, 0o755))
	for name, text := range files {
		k.write(t, name, text)
	}
	k.open(t)
	return k
}

// open starts store and gateway, again after close.
func (k *configKit) open(t testing.TB) {
	var err error
	k.files, err = confstore.Open(confstore.Config{Dir: k.conf, DataDir: k.data, State: k.log, NoEvents: true, SetTimeout: time.Minute})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, k.files.Close()) })
	k.kit = start(t, func(cfg *Config, stores *Stores) {
		stores.Config = k.files
		for _, change := range k.change {
			change(cfg)
		}
	})
}

func (k *configKit) close() {
	k.stop()
	require.NoError(k.t, k.files.Close())
}

func (k *configKit) write(t testing.TB, name, text string) {
	path := filepath.Join(k.conf, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	// By rename, as editors do: no scan finds a file that is half written.
	written := filepath.Join(filepath.Dir(k.conf), "written")
	require.NoError(t, os.WriteFile(written, []byte(text), 0o644))
	require.NoError(t, os.Rename(written, path))
}

// edit writes a file and has it found.
func (k *configKit) edit(name, text string) {
	k.write(k.t, name, text)
	k.files.Reload()
}

func (k *configKit) remove(name string) {
	require.NoError(k.t, os.Remove(filepath.Join(k.conf, name)))
	k.files.Reload()
}

func (k *configKit) mtime(name string) int32 {
	node := k.files.Snapshot().Node(name)
	require.NotNil(k.t, node, name)
	return node.Mtime(false)
}

func (k *configKit) tag(name string) string { return fmt.Sprintf(`"%d"`, k.mtime(name)) }

func fileQuery(name string) string { return configRoot + "file?name=" + name }

type fileAnswer struct {
	Name, State, Text, Error string
	Tag                      string
	Size                     int
	Mtime, Given_mtime       int32
	Resolved_mtime           int32
	Revision                 int64
	Resolved_revision        int64
	Bases                    []string
	Invalid_utf8, Gone       bool
	Seq                      uint64
	Last                     string
	Document                 json.RawMessage
	Origins                  map[string]string
	Incomplete               bool
	Files                    []fileAnswer
}

func (k *configKit) file(path string) (f fileAnswer, a answer) {
	k.t.Helper()
	a = k.get(path)
	require.Equal(k.t, 200, a.status, a.body)
	d := json.NewDecoder(strings.NewReader(a.body))
	d.DisallowUnknownFields()
	require.NoError(k.t, d.Decode(&f), a.body)
	return f, a
}

func TestConfigFilesShowsAllStates(t *testing.T) {
	k := startConfig(t, map[string]string{
		"good.json": `{"a":1}`, "sub/broken.json": `{"a":1}`, "gone.json": "1", "never.json": "{", "heir.json": "{}",
		"_meta.json": `{"conf_inherit":{"heir.json":"good.json","ghost.json":"good.json"}}`,
	})
	k.edit("sub/broken.json", "{\n\"a\":}")
	k.remove("gone.json")
	list, _ := k.file(configRoot + "files")
	require.Equal(t, k.files.Snapshot().Seq(), list.Seq)
	require.Equal(t, k.id(list.Seq), list.Last)
	states := map[string]string{}
	for _, f := range list.Files {
		states[f.Name] = f.State
		switch f.Name {
		case "good.json":
			first := int64(k.files.Snapshot().Node("good.json").Revision(false))
			require.Positive(t, first)
			require.Equal(t, fileAnswer{Name: "good.json", State: "good", Size: 7, Mtime: k.mtime("good.json"), Resolved_mtime: k.mtime("good.json"), Revision: first, Resolved_revision: first, Bases: []string{}}, f)
		case "heir.json":
			require.Equal(t, []string{"good.json"}, f.Bases)
		case "sub/broken.json":
			require.Equal(t, 7, f.Size, "of the last good version")
			require.Contains(t, f.Error, "line 2 column 5")
		case "never.json":
			require.Zero(t, f.Mtime)
			require.Contains(t, f.Error, "is not valid JSON")
		}
	}
	require.Equal(t, map[string]string{"_meta.json": "good", "good.json": "good", "gone.json": "deleted", "heir.json": "good", "never.json": "broken", "sub/broken.json": "broken"}, states)
}

// requireOverHTTP requires what is known of an actor that comes by HTTP.
func requireOverHTTP(t *testing.T, actor *access.Actor) {
	t.Helper()
	require.NotNil(t, actor)
	require.Regexp(t, `^http 127\.0\.0\.1:\d+$`, actor.String())
	require.Equal(t, access.Actor{Origin: access.OverHTTP, Address: actor.Address}, *actor)
}

func TestConfigWritersAreNamed(t *testing.T) {
	k := startConfig(t, nil)
	told := make(chan *access.Actor, 2)
	k.files.Subscribe(func(b *snapshot.Batch) { told <- b.Changes[0].Actor })
	require.Equal(t, 200, k.do("PUT", fileQuery("a.json"), `{}`).status)
	requireOverHTTP(t, <-told)
	require.Equal(t, 200, k.do("DELETE", fileQuery("a.json"), "").status)
	requireOverHTTP(t, <-told)
	require.Equal(t, 200, k.do("PUT", fileQuery("a.json"), `{}`, "X-Confcenter-Author: Zo%C3%AB", "X-Confcenter-Comment: 100%", "X-Confcenter-Origin: console").status)
	said := <-told
	require.Equal(t, access.Actor{Origin: access.InConsole, Address: said.Address, Author: "Zoë", Comment: "100%"}, *said)
	require.NotEmpty(t, said.Address)
}

func TestWhatIsSaidOfWritersHasLimits(t *testing.T) {
	k := startConfig(t, nil)
	for _, path := range []string{fileQuery("a.json"), storeRoot + "key?ns=n&key=k", plumRoot + "/n/k"} {
		for _, header := range []string{"X-Confcenter-Comment: " + strings.Repeat("c", access.MaxComment+1), "X-Confcenter-Author: %00", "X-Confcenter-Origin: http"} {
			answer := k.do("PUT", path, `{"value":"1"}`, header)
			require.Contains(t, []int{400, 413}, answer.status, answer.body)
			require.Contains(t, answer.body, "nothing was written")
		}
	}
	require.Nil(t, k.files.Snapshot().Node("a.json"))
}

func TestConfigGetIsTheFileAsWritten(t *testing.T) {
	k := startConfig(t, map[string]string{"a.json": "{ \"a\" :\t1.0 }\n\n", "latin.json": "\"\xe9\"", "never.json": "{", "dir/b.json": "[]"})
	f, a := k.file(fileQuery("a.json"))
	require.Equal(t, "{ \"a\" :\t1.0 }\n\n", f.Text)
	require.Equal(t, "good", f.State)
	require.Equal(t, k.files.Snapshot().Node("a.json").GivenMtime(), f.Given_mtime)
	require.Equal(t, k.tag("a.json"), a.header.Get("ETag"))
	require.Equal(t, 304, k.get(fileQuery("a.json"), "If-None-Match: "+k.tag("a.json")).status)

	f, _ = k.file(fileQuery("latin.json"))
	require.Equal(t, "broken", f.State)
	require.Contains(t, f.Error, "offset 1 is not UTF-8")
	require.True(t, f.Invalid_utf8)
	require.Equal(t, "\"\uFFFD\"", f.Text)

	f, a = k.file(fileQuery("never.json"))
	require.Equal(t, "broken", f.State)
	require.Equal(t, "{", f.Text, "so that it can be mended")
	require.Equal(t, brokenTag(0, "{"), a.header.Get("ETag"))

	tag, version := k.tag("a.json"), k.mtime("a.json")
	k.edit("a.json", `{"a":`)
	f, a = k.file(fileQuery("a.json"))
	require.Equal(t, "broken", f.State)
	require.Equal(t, `{"a":`, f.Text)
	require.Equal(t, brokenTag(version, `{"a":`), a.header.Get("ETag"), "the version that is in service, and what is there")
	require.Equal(t, 200, k.get(fileQuery("a.json"), "If-None-Match: "+tag).status, "the text is another")

	require.NoError(t, os.Remove(filepath.Join(k.conf, "dir/b.json")))
	f, _ = k.file(fileQuery("dir/b.json"))
	require.Equal(t, "[]\n", f.Text, "nobody has seen yet that it is gone")
	k.files.Reload()
	f, a = k.file(fileQuery("dir/b.json"))
	require.Equal(t, "deleted", f.State)
	require.Empty(t, f.Text)
	require.Equal(t, `"0"`, a.header.Get("ETag"))
}

func TestConfigResolved(t *testing.T) {
	k := startConfig(t, map[string]string{
		"base.json": `{"a":1,"o":{"x":1.50}}`, "app.json": `{"b":2,"o":{"y":1}}`,
		"_meta.json": `{"conf_inherit":{"app.json":"base.json","ghost.json":"base.json"},"inherit_options":{"*":{"merge":"deep"}}}`,
	})
	f, a := k.file(configRoot + "resolved?name=app.json")
	require.Contains(t, a.body, `"document":{"a":1,"o":{"x":1.50,"y":1},"b":2}`, "as text")
	require.Equal(t, map[string]string{"/a": "base.json", "/b": "app.json", "/o": "app.json", "/o/x": "base.json", "/o/y": "app.json"}, f.Origins)
	require.Equal(t, k.files.Snapshot().Node("app.json").Mtime(true), f.Mtime)
	f, _ = k.file(configRoot + "resolved?name=ghost.json")
	require.Equal(t, `{"a":1,"o":{"x":1.50}}`, string(f.Document))

	big := `{"k":"` + strings.Repeat("x", 100_000) + `"}`
	k.edit("base.json", big)
	f, _ = k.file(configRoot + "resolved?name=ghost.json")
	require.Equal(t, big, string(f.Document), "beyond what is merged at once")
}

// The revision is what people know a version by. One that inherits is as new as the newest of its parts.
func TestConfigAnswersWithTheRevision(t *testing.T) {
	k := startConfig(t, map[string]string{"base.json": `{"a":1}`, "app.json": `{}`, "never.json": "{", "_meta.json": `{"conf_inherit":{"app.json":"base.json"}}`})
	first, _ := k.file(fileQuery("app.json"))
	require.Equal(t, first.Revision, first.Resolved_revision)
	k.put("base.json", `{"a":2}`)
	base, _ := k.file(fileQuery("base.json"))
	require.Greater(t, base.Revision, first.Revision)
	app, _ := k.file(fileQuery("app.json"))
	require.Equal(t, [2]int64{first.Revision, base.Revision}, [2]int64{app.Revision, app.Resolved_revision})
	resolved, _ := k.file(configRoot + "resolved?name=app.json")
	require.Equal(t, base.Revision, resolved.Revision)
	never, _ := k.file(fileQuery("never.json"))
	require.Zero(t, never.Revision)
}

func TestConfigWrites(t *testing.T) {
	k := startConfig(t, map[string]string{"a.json": `{"v":1}`, "never.json": "{"})
	old := k.tag("a.json")
	wrote := func(name string) string { return fmt.Sprintf(`{"name":%q,"mtime":%d}`, name, k.mtime(name)) }
	step := func(method, name, text, header string, status int, code string) answer {
		t.Helper()
		var lines []string
		if header != "" {
			lines = []string{header}
		}
		a := k.do(method, fileQuery(name), text, lines...)
		require.Equal(t, status, a.status, "%s %s %s: %s", method, name, text, a.body)
		if status >= 400 {
			require.Equal(t, code, errorName(t, a), a.body)
		} else {
			require.Equal(t, wrote(name)+"\n", a.body)
			if method == "PUT" {
				require.Equal(t, k.tag(name), a.header.Get("ETag"))
			}
		}
		return a
	}
	step("PUT", "a.json", "{\"v\":2}\n", "If-Match: "+old, 200, "")
	onDisk, err := os.ReadFile(filepath.Join(k.conf, "a.json"))
	require.NoError(t, err)
	require.JSONEq(t, `{"v":2}`, string(onDisk))
	a := step("PUT", "a.json", `{"v":3}`, "If-Match: "+old, 412, "conflict")
	require.Equal(t, k.tag("a.json"), a.header.Get("ETag"), "what is there")
	step("PUT", "a.json", `{"v":3}`, `If-Match: "99999999999"`, 412, "conflict")
	step("PUT", "a.json", `{"v":3}`, `If-Match: "x"`, 412, "conflict")
	step("PUT", "a.json", `{"v":3}`, "If-None-Match: *", 412, "conflict")
	step("PUT", "a.json", `{"v":3}`, "If-Match: *", 200, "")
	step("PUT", "none.json", `{"v":3}`, "If-Match: *", 412, "conflict")
	step("PUT", "new/deep/n.json", `{"v":3}`, "If-None-Match: *", 200, "")
	for _, tag := range []string{`"0-` + strings.Repeat("0", 64) + `"`, `"0-"`} {
		step("PUT", "never.json", `{"v":3}`, "If-Match: "+tag, 412, "conflict")
		step("DELETE", "never.json", "", "If-Match: "+tag, 412, "conflict")
		step("PUT", "new.json", `{"v":3}`, "If-Match: "+tag, 412, "conflict")
	}
	a = step("PUT", "never.json", `{"v":3}`, `If-Match: "0"`, 412, "conflict")
	step("PUT", "never.json", `{"v":3}`, "If-Match: "+a.header.Get("ETag"), 200, "")
	step("PUT", "a.json", `{"v":4}`, "", 200, "")

	a = step("PUT", "a.json", "{\"v\":\n }", "", 400, "bad_json")
	require.Contains(t, a.body, "line 2 column 2")
	a = step("PUT", "a.json", "\"\xe9\"", "", 400, "bad_json")
	require.Contains(t, a.body, "offset 1 is not UTF-8")
	step("PUT", "a.json", "", "", 400, "bad_json")
	step("PUT", "a.json", " null\n", "", 400, "bad_request")
	step("PUT", "_meta.json", "[]", "", 400, "bad_request")
	step("PUT", "../a.json", "{}", "", 400, "bad_name")
	step("PUT", "a.txt", "{}", "", 400, "bad_name")
	step("PUT", "a.json/b.json", "{}", "", 400, "bad_name")

	step("DELETE", "a.json", "", "If-Match: "+old, 412, "conflict")
	step("DELETE", "a.json", "", "If-Match: "+k.tag("a.json"), 200, "")
	require.NoFileExists(t, filepath.Join(k.conf, "a.json"))
	step("DELETE", "a.json", "", "", 200, "")
	step("DELETE", "a.json", "", "If-Match: *", 412, "conflict")
	step("DELETE", "never-was.json", "", "", 404, "not_found")
	step("PUT", "a.json", `{"v":5}`, `If-Match: "0"`, 200, "")
}

// An edit on the disk that no one has seen yet is not overwritten.
func TestConfigPutSeesAnEditNobodyHasSeen(t *testing.T) {
	k := startConfig(t, map[string]string{"a.json": `{"v":1}`})
	tag := k.tag("a.json")
	k.write(t, "a.json", `{"v":"mine"}`)
	a := k.do("PUT", fileQuery("a.json"), `{"v":2}`, "If-Match: "+tag)
	require.Equal(t, http.StatusPreconditionFailed, a.status)
	f, _ := k.file(fileQuery("a.json"))
	require.Equal(t, `{"v":"mine"}`, f.Text)
}

func TestConfigRefusals(t *testing.T) {
	k := startConfig(t, map[string]string{"a.json": `{}`})
	k.exchange([]exchange{
		{"GET", configRoot + "file", "", "", 400, "bad_request", ""},
		{"GET", fileQuery("none.json"), "", "", 404, "not_found", ""},
		{"GET", fileQuery("a"), "", "", 400, "bad_name", ""},
		{"GET", fileQuery("..%2Fa.json"), "", "", 400, "bad_name", ""},
		{"GET", fileQuery("a.json") + "&x=1", "", "", 400, "bad_request", ""},
		{"GET", configRoot + "resolved?name=none.json", "", "", 404, "not_found", ""},
		{"GET", configRoot + "files?after=a", "", "", 400, "bad_request", ""},
		{"GET", configRoot + "stream?lst=1", "", "", 400, "bad_request", ""},
		{"POST", fileQuery("a.json"), "{}", "", 405, "bad_method", ""},
	})
}
