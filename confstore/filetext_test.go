package confstore

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
)

func TestExactContentsAreTheFilesBytes(t *testing.T) {
	m := newMemKit(t, nil)
	for _, c := range []struct{ text, served string }{
		{"{\r\n\t\"b\" : 1.50,\r\n\t\"a\":[ 1,2 ]\r\n}\r\n\r\n", `{"b":1.50,"a":[1,2]}`},
		{`  {"name": "\u914d\u7f6e", "url": "a\/b"}`, `{"name":"\u914d\u7f6e","url":"a\/b"}`},
		{"[]", "[]"},
	} {
		r, err := m.set(SetRequest{Name: "a.json", Contents: []byte(c.text), Exact: true})
		require.NoError(t, err)
		require.Equal(t, c.text, m.file("a.json"))
		require.Equal(t, c.served, m.text("a"))
		require.Equal(t, []string{"a.json"}, names(m.next()))
		m.none() // a look at the file finds no other change
		m.reopen()
		require.Equal(t, c.served, m.text("a"))
		require.Equal(t, r.Mtime, m.mtime("a.json"), "nor does a start")
	}
	_, err := m.set(SetRequest{Name: "a.json", Contents: []byte(" null "), Exact: true})
	require.NoError(t, err)
	require.True(t, m.Snapshot().Node("a.json").Deleted())
}

func TestExactReformattingIsWrittenAndPushesNothing(t *testing.T) {
	m := newMemKit(t, map[string]string{"a.json": `{"v":1}`})
	for _, text := range []string{"{ \"v\": 1 }\n", "{\"v\":1}"} {
		r, err := m.set(SetRequest{Name: "a.json", Contents: []byte(text), Exact: true})
		require.NoError(t, err)
		require.EqualValues(t, 1000, r.Mtime, "the version is that of the contents")
		require.Equal(t, text, m.file("a.json"))
		m.none()
		require.Equal(t, noon.Unix(), int64(m.directory.read("a.json", false).mtime), "the file tells that it was written")
		m.reopen()
		require.EqualValues(t, 1000, m.mtime("a.json"))
		m.none()
	}
	r, err := m.set(SetRequest{Name: "a.json", Contents: []byte("{\"v\" :1}"), Exact: true, Mtime: 1500, HasMtime: true})
	require.NoError(t, err)
	require.EqualValues(t, 1500, r.Mtime, "unless the writer gives one")
	require.Equal(t, "{\"v\" :1}", m.file("a.json"))
	m.none()
}

func TestExactContentsAreCheckedAsOthersAre(t *testing.T) {
	m := newMemKit(t, nil)
	m.cfg.MaxFileBytes = 100
	m.reopen()
	for text, code := range map[string]codes.Code{
		"": codes.BadJSON, "{": codes.BadJSON, "\ufeff{}": codes.BadJSON, "\"\xff\"": codes.BadJSON,
		strings.Repeat("[", 40) + strings.Repeat(" ", 40) + strings.Repeat("]", 40): codes.TooLarge,
	} {
		_, err := m.set(SetRequest{Name: "a.json", Contents: []byte(text), Exact: true})
		require.ErrorIs(t, err, code, "%q", text)
	}
	_, err := m.set(SetRequest{Name: "_meta.json", Contents: []byte("[1]"), Exact: true})
	require.ErrorIs(t, err, codes.BadRequest)
	m.none()
}

func TestSetKeepsTheFilesLayout(t *testing.T) {
	for name, c := range map[string]struct{ before, after string }{
		"new":          {"", "{\n    \"b\": 2,\n    \"a\": [\n        1\n    ]\n}\n"},
		"two blanks":   {"{\n  \"a\": 1\n}\n", "{\n  \"b\": 2,\n  \"a\": [\n    1\n  ]\n}\n"},
		"tabs, no end": {"{\n\t\"a\": 1\n}", "{\n\t\"b\": 2,\n\t\"a\": [\n\t\t1\n\t]\n}"},
		"Windows":      {"{\r\n  \"a\": 1\r\n}\r\n", "{\r\n  \"b\": 2,\r\n  \"a\": [\r\n    1\r\n  ]\r\n}\r\n"},
		"one line":     {"{\"a\":1}\n", "{\"b\":2,\"a\":[1]}\n"},
		"broken":       {"{\n  \"a\" 1\n}", "{\n    \"b\": 2,\n    \"a\": [\n        1\n    ]\n}\n"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMemKit(t, nil)
			if c.before != "" {
				m.edit("a.json", c.before, 1000)
			}
			m.mustSet("a.json", `{"b":2,"a":[1]}`)
			require.Equal(t, c.after, m.file("a.json"), "in the order as sent")
			require.Equal(t, `{"b":2,"a":[1]}`, m.text("a"))
			m.drainedNone()
		})
	}
}

// One changed value is a change of one line, whatever the file looks like.
func TestSetChangesNoLinesButThoseOfTheValue(t *testing.T) {
	m := newMemKit(t, nil)
	const before, after = "{\n\t\"ports\": [80, 443],\n\n\t\"a\" : 1 ,\n\t\"o\": { \"x\": 1, \"y\": [ ] }\n}", "{\n\t\"ports\": [80, 443],\n\n\t\"a\" : 12345 ,\n\t\"o\": { \"x\": 1, \"y\": [ ] }\n}"
	m.edit("a.json", before, 1000)
	m.mustSet("a.json", `{"ports":[80,443],"a":12345,"o":{"x":1,"y":[]}}`)
	require.Equal(t, after, m.file("a.json"))
	require.Equal(t, `{"ports":[80,443],"a":12345,"o":{"x":1,"y":[]}}`, m.text("a"))
	m.drainedNone()
	m.edit("deep.json", strings.Repeat("[", 400)+"1"+strings.Repeat("]", 400), 1000)
	m.mustSet("deep.json", strings.Repeat("[", 400)+"2"+strings.Repeat("]", 400))
	require.Equal(t, strings.Repeat("[", 400)+"2"+strings.Repeat("]", 400), m.text("deep"))
}

// What CppCloud's console and Python SDK send: all but ASCII escaped.
func TestSetStoresReadableText(t *testing.T) {
	m := newMemKit(t, nil)
	sent := `{"\u914d\u7f6e":"\ud83d\ude00 \u0022\u005c\u0000\u2028\ufeff\u202e","n":1.50}`
	stored := `{"配置":"😀 \u0022\u005c\u0000\u2028\ufeff\u202e","n":1.50}`
	r := m.mustSet("a.json", sent)
	require.Equal(t, stored, m.text("a"))
	require.Equal(t, "{\n    \"配置\": \"😀 \\u0022\\u005c\\u0000\\u2028\\ufeff\\u202e\",\n    \"n\": 1.50\n}\n", m.file("a.json"))
	require.Equal(t, []string{"a.json"}, names(m.next()))
	m.none() // what a look at the file gives is the same
	require.Equal(t, r.Mtime, m.mustSet("a.json", sent).Mtime, "the same again is no change")
	m.none()
	m.reopen()
	require.Equal(t, r.Mtime, m.mtime("a.json"))
	require.Equal(t, stored, m.text("a"))
	v, found, _ := m.Snapshot().Node("a.json").Lookup(false, []byte("/配置"))
	require.True(t, found)
	require.Equal(t, `"😀 \u0022\u005c\u0000\u2028\ufeff\u202e"`, string(v))
}

// A file with escapes is its author's; saying the same in other words changes
// nothing.
func TestSetOfOtherEscapesOnlyChangesNothing(t *testing.T) {
	const file = `{ "\u914d" : 1 }`
	m := newMemKit(t, map[string]string{"a.json": file})
	for _, text := range []string{`{"\u914d":1}`, `{"配":1}`, `{"\u914D":1}`} {
		require.EqualValues(t, 1000, m.mustSet("a.json", text).Mtime)
		require.Equal(t, file, m.file("a.json"))
		m.none()
	}
	r, err := m.setAt("a.json", `{"配":1}`, 2000)
	require.NoError(t, err)
	require.EqualValues(t, 2000, r.Mtime)
	m.none()
	m.reopen()
	m.none()
	require.EqualValues(t, 2000, m.mtime("a.json"))
	m.mustSet("a.json", `{"\u914d":2}`)
	require.Equal(t, `{"配":2}`, m.file("a.json"))
}

func TestFileThatIsNotUTF8IsBroken(t *testing.T) {
	m := newMemKit(t, map[string]string{"a.json": `{"v":1}`, "never.json": "{\"v\":\"\xe9\"}"})
	require.Contains(t, m.Fault("never.json"), "line 1 column 7: byte 0xE9 at offset 6 is not UTF-8")
	m.edit("a.json", "{\n\"v\":\"caf\xe9\"}", 2000)
	require.Equal(t, `{"v":1}`, m.text("a"), "the last good version stays in service")
	require.Contains(t, m.Snapshot().Node("a.json").Broken(), "is not valid JSON: line 2 column 9: byte 0xE9 at offset 10 is not UTF-8, save the text as UTF-8")
	m.none()
	m.reopen()
	require.Equal(t, `{"v":1}`, m.text("a"))
	m.edit("a.json", "{\"v\":\"café\"}", 3000)
	require.Empty(t, m.Snapshot().Node("a.json").Broken())
	require.Equal(t, `{"v":"café"}`, m.text("a"))
}

func TestContentsThatAreNotUTF8AreRefused(t *testing.T) {
	m := newMemKit(t, nil)
	for _, exact := range []bool{false, true} {
		_, err := m.set(SetRequest{Name: "a.json", Contents: []byte("{\"v\":\"\xff\"}"), Exact: exact})
		require.ErrorIs(t, err, codes.BadJSON)
		require.ErrorContains(t, err, `contents of "a.json": line 1 column 7: byte 0xFF at offset 6 is not UTF-8`)
	}
	m.none()
}

func TestContentsTooLargeForAFileAreRefused(t *testing.T) {
	m := newMemKit(t, nil)
	m.cfg.MaxFileBytes = 100
	m.reopen()
	m.mustSet("a.json", `"`+strings.Repeat("x", 97)+`"`)
	_, err := m.set(SetRequest{Name: "a.json", Contents: []byte(`"` + strings.Repeat("x", 98) + `"`)})
	require.ErrorIs(t, err, codes.TooLarge)
	m.drainedNone()
}
