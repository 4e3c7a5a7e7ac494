package main

import (
	"strconv"
	"strings"
	"testing"

	jsoniter "github.com/json-iterator/go"
	"github.com/stretchr/testify/require"
)

// liner runs watch until the test ends and hands out its next line.
func liner(t *testing.T, args ...string) (next func() string, stop func() int) {
	lines, stop := watching(t, args...)
	return func() string {
		t.Helper()
		require.True(t, lines.Scan())
		return lines.Text()
	}, stop
}

func TestWatchPrintsEveryRevision(t *testing.T) {
	addr, _ := serve(t)
	set := func(name, contents string) {
		t.Helper()
		r := call(t, contents, at(addr, "set", name)...)
		require.Equal(t, exitOK, r.code, r.stderr)
	}
	next, stop := liner(t, at(addr, "--prefix", "page", "--count", "6")...)
	require.Regexp(t, `^\d+ synced$`, next())
	set("page-a", `{"n": 1, "list": [1]}`)
	require.Regexp(t, `^\d+ put page-a\.json \{"n":1,"list":\[1\]\}$`, next())
	set("other", `{}`)
	set("page-b", `{"n": 2}`)
	require.Regexp(t, `^\d+ put page-b\.json \{"n":2\}$`, next())
	set("page-a", `{"n": 3, "list": [1]}`)
	require.Regexp(t, `^\d+ put page-a\.json \{"n":3,"list":\[1\]\}$`, next())
	require.Equal(t, exitOK, call(t, "", at(addr, "rm", "page-b")...).code)
	require.Regexp(t, `^\d+ delete page-b\.json$`, next())
	set("page-b", `{}`)
	require.Regexp(t, `^\d+ put page-b\.json \{\}$`, next())
	require.Equal(t, exitOK, stop(), "--count 6 ends after six lines")

	next, _ = liner(t, at(addr, "--prefix", "page", "--count", "3")...)
	require.Regexp(t, `^\d+ state page-a\.json \{"n":3,"list":\[1\]\}$`, next(), "the current contents come first")
	require.Regexp(t, `^\d+ state page-b\.json \{\}$`, next())
	require.Regexp(t, `^\d+ synced$`, next())
}

func TestWatchBeginsBehindARevision(t *testing.T) {
	addr, _ := serve(t)
	set := func(name, contents string) {
		t.Helper()
		r := call(t, contents, at(addr, "set", name)...)
		require.Equal(t, exitOK, r.code, r.stderr)
	}
	set("shop", `{}`)
	next, stop := liner(t, at(addr, "--prefix", "shop", "-o", "json")...)
	var line documentChange
	for line.Op != "synced" {
		line = documentChange{}
		require.NoError(t, jsoniter.UnmarshalFromString(next(), &line))
	}
	require.Equal(t, exitOK, stop(), "to be interrupted is how a watch ends")
	from := strconv.FormatInt(int64(line.Revision), 10)
	set("shop", `{"a": {"x": 1}}`)
	set("shop", `{"a": {"x": 1}, "b": 1}`)
	set("shop", `{"a": {"x": 2, "y/z": [true]}}`)
	require.Equal(t, exitOK, call(t, "", at(addr, "rm", "shop")...).code)

	next, _ = liner(t, at(addr, "shop", "/a", "--from", from, "--count", "3")...)
	require.Regexp(t, `^\d+ put shop\.json /a \{"x":1\}$`, next())
	require.Regexp(t, `^\d+ put shop\.json /a \{"x":2,"y/z":\[true\]\}$`, next(), "a revision that changes nothing there is none")
	require.Regexp(t, `^\d+ delete shop\.json /a$`, next())

	next, _ = liner(t, at(addr, "shop", "--changes", "--from", from, "--count", "6")...)
	require.Regexp(t, `^\d+ shop\.json /a absent -> \{"x":1\}$`, next())
	require.Regexp(t, `^\d+ shop\.json /b absent -> 1$`, next())
	require.Regexp(t, `^\d+ shop\.json /a/x 1 -> 2$`, next())
	require.Regexp(t, `^\d+ shop\.json /a/y~1z absent -> \[true\]$`, next())
	require.Regexp(t, `^\d+ shop\.json /b 1 -> absent$`, next())
	require.Regexp(t, `^\d+ shop\.json - \{.*\} -> absent$`, next())

	next, _ = liner(t, at(addr, "shop", "/a", "--changes", "--from", from, "-o", "json", "--count", "2")...)
	require.Regexp(t, `^\{"op":"put","revision":\d+,"name":"shop\.json","mtime":\d+,"changes":\[\{"path":"/a","new":\{"x":1\}\}\]\}$`, next())
	require.Regexp(t, `"changes":\[\{"path":"/a/x","old":1,"new":2\},\{"path":"/a/y~1z","new":\[true\]\}\]\}$`, next())
}

func TestWatchOfRevisionsFollowsWhatIsInherited(t *testing.T) {
	addr, conf := serve(t)
	next, _ := liner(t, at(addr, "--prefix", "app1", "--resolved", "-o", "json")...)
	line := ""
	for !strings.Contains(line, `"op":"synced"`) {
		line = next()
	}
	write(t, conf, "app1.json", `{"hojl": "from the base"}`)
	require.Regexp(t, `^\{"op":"put",.*"name":"app1-dev\.json",.*"contents":\{.*"hojl":"from the base".*\},"prev":\{.*"hojl":"hejinlong".*\},"more":true\}$`, next())
	require.Regexp(t, `"name":"app1-test\.json",.*"more":true\}$`, next())
	require.Regexp(t, `"name":"app1\.json",.*"prev":\{.*\}\}$`, next(), "all documents of a revision come together")
}

func TestWatchRefusesWhatItCannotWatch(t *testing.T) {
	addr, _ := serve(t)
	r := call(t, "", at(addr, "watch")...)
	require.Equal(t, exitUsage, r.code)
	require.Contains(t, r.stderr, "NAME is missing")
	require.Equal(t, exitUsage, call(t, "", at(addr, "watch", "--changes")...).code)
	require.Equal(t, exitUsage, call(t, "", at(addr, "watch", "shop", "--prefix", "s")...).code)
	require.Equal(t, exitUsage, call(t, "", at(addr, "watch", "shop", "/a", "/b")...).code)
	require.Equal(t, exitRefused, call(t, "", at(addr, "watch", "shop", "--from", "99999")...).code)
}
