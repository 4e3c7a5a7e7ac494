package http

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func rawQuery(name string) string { return fileQuery(name) + "&raw" }

func (k *configKit) onDisk(name string) string {
	k.t.Helper()
	text, err := os.ReadFile(filepath.Join(k.conf, name))
	require.NoError(k.t, err)
	return string(text)
}

// What GET gives PUT takes, and the file is what it was to the byte.
func TestRawFilesGoThereAndBack(t *testing.T) {
	for what, text := range map[string]string{
		"tabs":             "{\n\t\"a\":\t1.50\n}\n",
		"CRLF":             "{\r\n  \"a\" : 1\r\n}\r\n",
		"unicode":          "{\"配置\": \"\\u914d 😀\"}\n",
		"no final newline": "{ \"b\":1, \"a\":[ ] }",
		"blanks around":    "\n\n [1,\n2] \n\n\n",
		"a number":         "1e3",
	} {
		t.Run(what, func(t *testing.T) {
			k := startConfig(t, map[string]string{"a.json": text})
			a := k.get(rawQuery("a.json"))
			a.is(t, 200, text)
			require.Equal(t, "application/json", a.header.Get("Content-Type"))
			require.Equal(t, byteTag(k.mtime("a.json"), text), a.header.Get("ETag"))
			require.Equal(t, 200, k.do("PUT", fileQuery("b.json"), a.body).status)
			require.Equal(t, text, k.onDisk("b.json"))

			require.Equal(t, 200, k.do("PUT", rawQuery("a.json"), `{"between":1}`, "If-Match: "+a.header.Get("ETag")).status)
			require.Equal(t, 412, k.do("PUT", rawQuery("a.json"), a.body, "If-Match: "+a.header.Get("ETag")).status)
			require.Equal(t, `{"between":1}`, k.onDisk("a.json"))
			require.Equal(t, 200, k.do("PUT", rawQuery("a.json"), a.body, "If-Match: "+k.tag("a.json")).status)
			require.Equal(t, text, k.onDisk("a.json"))
		})
	}
}

func TestRawFormOfFiles(t *testing.T) {
	k := startConfig(t, map[string]string{"a.json": "{ }\n", "never.json": "{\xff", "gone.json": "1", "sub/b.json": "1"})
	for _, how := range []struct{ path, accept string }{
		{rawQuery("a.json"), "*/*"},
		{fileQuery("a.json") + "&raw=1", "*/*"},
		{fileQuery("a.json"), "application/vnd.confcenter.raw+json"},
		{fileQuery("a.json"), "text/html, application/vnd.confcenter.raw+json;q=0.9"},
	} {
		k.get(how.path, "Accept: "+how.accept).is(t, 200, "{ }\n")
	}
	f, _ := k.file(fileQuery("a.json") + "&raw=0")
	require.Equal(t, "good", f.State)

	a := k.do("HEAD", rawQuery("a.json"), "")
	require.Equal(t, 200, a.status)
	require.Empty(t, a.body)
	require.Equal(t, strconv.Itoa(len("{ }\n")), a.header.Get("Content-Length"))
	require.Equal(t, byteTag(k.mtime("a.json"), "{ }\n"), a.header.Get("ETag"))

	tag := k.tag("a.json")
	require.Equal(t, 200, k.do("PUT", rawQuery("a.json"), "{}").status)
	require.Equal(t, tag, k.tag("a.json"), "the contents are the same")
	k.get(rawQuery("a.json"), "If-None-Match: "+tag).is(t, 200, "{}")

	a = k.get(rawQuery("never.json"))
	a.is(t, 200, "{\xff")
	require.Equal(t, brokenTag(0, "{\xff"), a.header.Get("ETag"))
	require.Equal(t, 200, k.do("PUT", rawQuery("never.json"), "{}", "If-Match: "+a.header.Get("ETag")).status)

	k.remove("gone.json")
	require.Equal(t, 404, k.get(rawQuery("gone.json")).status)
	require.Equal(t, 404, k.get(rawQuery("none.json")).status)
	require.NoError(t, os.Remove(filepath.Join(k.conf, "sub/b.json")))
	require.Equal(t, 404, k.get(rawQuery("sub/b.json")).status, "nobody has seen yet that it is gone")
	require.Equal(t, 400, k.get(fileQuery("a.json")+"&raw=x").status)
	require.Equal(t, 400, k.do("DELETE", rawQuery("a.json"), "").status)
}

// The version stays the same when only blanks change, so the raw form has a tag of its bytes.
func TestRawFilesAreNotModifiedWhileTheirBytesAreTheSame(t *testing.T) {
	for how, asked := range map[string]struct{ method, path, accept string }{
		"raw":    {"GET", rawQuery("a.json"), "*/*"},
		"accept": {"GET", fileQuery("a.json"), rawType},
		"head":   {"HEAD", rawQuery("a.json"), "*/*"},
	} {
		t.Run(how, func(t *testing.T) {
			k := startConfig(t, map[string]string{"a.json": "{ }\n"})
			get := func(header ...string) answer {
				return k.do(asked.method, asked.path, "", append(header, "Accept: "+asked.accept)...)
			}
			tag, version := get().header.Get("ETag"), k.tag("a.json")
			require.Equal(t, byteTag(k.mtime("a.json"), "{ }\n"), tag)
			for _, same := range []string{tag, "W/" + tag, `"7", ` + tag, "*"} {
				a := get("If-None-Match: " + same)
				a.is(t, 304, "")
				require.Equal(t, tag, a.header.Get("ETag"))
				require.Equal(t, "no-store", a.header.Get("Cache-Control"))
			}
			require.Equal(t, 200, get("If-None-Match: "+version).status, "the version says nothing of blanks")
			require.Equal(t, 200, k.get(fileQuery("a.json"), "If-None-Match: "+tag).status, "each form has its own")
			k.get(fileQuery("a.json"), "If-None-Match: "+version).is(t, 304, "")

			k.write(t, "a.json", "{}") // blanks only, and perhaps not noticed yet
			require.Equal(t, 200, get("If-None-Match: "+tag).status)
			require.Equal(t, 412, k.do("PUT", rawQuery("a.json"), `{"c":1}`, "If-Match: "+tag).status, "these bytes are not there any more")
			require.Equal(t, version, k.tag("a.json"))
			for _, of := range []func() string{func() string { return get().header.Get("ETag") }, func() string { return k.tag("a.json") }} {
				require.Equal(t, 200, k.do("PUT", rawQuery("a.json"), `{"c":1}`, "If-Match: "+of()).status, "either tag")
				require.Equal(t, 200, k.do("PUT", fileQuery("a.json"), `{"c":2}`, "If-Match: "+of()).status, "either tag")
			}
			require.Equal(t, 412, k.do("PUT", rawQuery("a.json"), `{"c":3}`, "If-Match: "+tag).status)
			require.Equal(t, 412, k.do("DELETE", fileQuery("a.json"), "", "If-Match: "+tag).status)
			require.Equal(t, 200, k.do("DELETE", fileQuery("a.json"), "", "If-Match: "+get().header.Get("ETag")).status)
			require.Equal(t, 404, get("If-None-Match: *").status)
		})
	}
	k := startConfig(t, map[string]string{"b.json": "1"})
	k.write(t, "b.json", "{") // broken: its tag tells that, and is its own too
	tag := k.get(rawQuery("b.json")).header.Get("ETag")
	require.Equal(t, brokenTag(k.mtime("b.json"), "{"), tag)
	k.get(rawQuery("b.json"), "If-None-Match: "+tag).is(t, 304, "")
	require.Equal(t, 200, k.get(rawQuery("b.json"), "If-None-Match: *").status)
}

// Who sends back what GET says of a file would put the file into itself.
func TestPutOfWhatGetSaysOfAFileIsRefused(t *testing.T) {
	k := startConfig(t, map[string]string{"a.json": "{\n \"v\": 1 }"})
	said := k.get(fileQuery("a.json")).body
	a := k.do("PUT", fileQuery("a.json"), said, "If-Match: "+k.tag("a.json"))
	require.Equal(t, 400, a.status)
	require.Equal(t, "bad_request", errorName(t, a))
	require.Contains(t, a.body, "?raw")
	require.Equal(t, "{\n \"v\": 1 }", k.onDisk("a.json"))
	require.Equal(t, 200, k.do("PUT", rawQuery("a.json"), said).status, "if it is meant")
	require.Equal(t, said, k.onDisk("a.json"))
	for _, text := range []string{`{"name":1,"state":2,"mtime":3,"text":4}`, `["name","state","mtime","resolved_mtime","bases","text"]`} {
		require.Equal(t, 200, k.do("PUT", fileQuery("b.json"), text).status, "a file like any other")
	}
	require.Equal(t, "bad_json", errorName(t, k.do("PUT", fileQuery("b.json"), said[:len(said)-3])))
}

// Who names the raw form to say that it is not wanted does not get it.
func TestAcceptIsReadAsItIsMeant(t *testing.T) {
	k := startConfig(t, map[string]string{"a.json": "{ }\n"})
	for accept, raw := range map[string]bool{
		"Application/VND.confcenter.RAW+json":                                          true,
		"application/json;q=0.5, application/vnd.confcenter.raw+json":                  true,
		"application/json, application/vnd.confcenter.raw+json":                        true,
		"*/*;q=0.1,application/vnd.confcenter.raw+json; q=0.2":                         true,
		"application/json, application/vnd.confcenter.raw+json;q=0":                    false,
		"application/json, application/vnd.confcenter.raw+json;q=0.5":                  false,
		"application/vnd.confcenter.raw+json;q=0.000":                                  false,
		"application/vnd.confcenter.raw+jsonx":                                         false,
		"application/vnd.confcenter.raw+json;q=much, application/json":                 false,
		"text/html, application/xhtml+xml, application/xml;q=0.9, */*;q=0.8, ;;, a//b": false,
	} {
		a := k.get(fileQuery("a.json"), "Accept: "+accept)
		require.Equal(t, 200, a.status)
		require.Equal(t, raw, a.body == "{ }\n", accept)
	}
}

// byteTag is that of the raw form.
func byteTag(version int32, text string) string { return brokenTag(version, text) }

// brokenTag is that of a file that someone has edited by hand.
func brokenTag(version int32, text string) string {
	return fmt.Sprintf(`"%d-%x"`, version, sha256.Sum256([]byte(text)))
}

// TestWhatSomeoneEditsByHandCounts: while the file is broken, noticed or not, no condition holds but
// the tag that says which bytes are there.
func TestWhatSomeoneEditsByHandCounts(t *testing.T) {
	for _, text := range []string{"{\n\"a\":}", "", "{\xff"} {
		for _, noticed := range []bool{false, true} {
			k := startConfig(t, map[string]string{"g.json": `{"a":1}`})
			version, tag := k.mtime("g.json"), k.tag("g.json")
			k.write(t, "g.json", text)
			if noticed {
				k.files.Reload()
			}
			want := brokenTag(version, text)
			for _, method := range []string{"PUT", "DELETE"} {
				for _, header := range []string{"If-Match: " + tag, "If-Match: *", "If-None-Match: *", `If-Match: "0"`, brokenTag(version, "{"), brokenTag(version-1, text)} {
					if !strings.HasPrefix(header, "If-") {
						header = "If-Match: " + header
					}
					a := k.do(method, fileQuery("g.json"), `{"a":2}`, header)
					require.Equal(t, 412, a.status, header)
					require.Equal(t, want, a.header.Get("ETag"))
					require.Contains(t, a.body, "g.json")
					require.Equal(t, text, k.onDisk("g.json"))
				}
			}
			f, a := k.file(fileQuery("g.json"))
			require.Equal(t, "broken", f.State)
			require.Equal(t, want, a.header.Get("ETag"))
			require.Equal(t, want, `"`+f.Tag+`"`)
			require.Equal(t, want, k.get(rawQuery("g.json")).header.Get("ETag"))
			a = k.do("PUT", fileQuery("g.json"), `{"a":2}`, "If-Match: "+want)
			require.Equal(t, 200, a.status, a.body)
			require.Equal(t, k.tag("g.json"), a.header.Get("ETag"))
			require.Equal(t, `{"a":2}`, k.onDisk("g.json"))
		}
	}
}

// A file that was never good has version 0, as one that is not there. It is someone's all the same.
func TestIfNoneMatchSparesABrokenFile(t *testing.T) {
	k := startConfig(t, map[string]string{"never.json": "{oops", "once.json": "{}"})
	for _, query := range []string{fileQuery("never.json"), rawQuery("never.json")} {
		a := k.do("PUT", query, "{}", "If-None-Match: *")
		require.Equal(t, 412, a.status)
		require.Equal(t, brokenTag(0, "{oops"), a.header.Get("ETag"))
		require.Contains(t, a.body, "broken")
		require.Equal(t, "{oops", k.onDisk("never.json"))
	}
	require.Equal(t, 412, k.do("PUT", fileQuery("once.json"), "1", "If-None-Match: *").status)
	require.Equal(t, 200, k.do("PUT", fileQuery("new.json"), "1", "If-None-Match: *").status)
}

func TestCodedBodiesAreRefusedByName(t *testing.T) {
	k := startConfig(t, map[string]string{"a.json": "1"})
	a := k.do("PUT", fileQuery("a.json"), "\x1f\x8b", "Content-Encoding: gzip")
	require.Equal(t, 400, a.status)
	require.Contains(t, a.body, `Content-Encoding \"gzip\"`)
	require.Equal(t, 200, k.do("PUT", fileQuery("a.json"), "2", "Content-Encoding: identity").status)
}

// TestReadyzSaysThatMetaWasNeverGood: programs would get the wrong configuration, and no later one.
func TestReadyzSaysThatMetaWasNeverGood(t *testing.T) {
	k := startConfig(t, map[string]string{"_meta.json": "{", "a.json": "{}"})
	a := k.get("/readyz")
	require.Equal(t, 503, a.status)
	require.Contains(t, a.body, "[-]meta failed: _meta.json is broken and was never good: line 1 column 2")
	require.Equal(t, 200, k.get("/readyz?exclude=meta").status)
	k.edit("_meta.json", "{}")
	require.Equal(t, 200, k.get("/readyz").status)
	k.edit("_meta.json", "{")
	require.Equal(t, 200, k.get("/readyz").status, "the last good one is in force")

	k = startConfig(t, map[string]string{"a.json": "{}", "win.json": "{"})
	k.edit("_meta.json", "{")
	require.Equal(t, 200, k.get("/readyz").status, "whoever makes one does not stop the server")
	a = k.get(configRoot + "resolved?name=win.json")
	require.Equal(t, 404, a.status)
	require.Contains(t, a.body, "win.json is broken and was never good: line 1 column 2")
}
