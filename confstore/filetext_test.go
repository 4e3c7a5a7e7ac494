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
		require.Equal(t, noon.Unix(), int64(m.kit.read(m.root, "a.json").mtime), "the file tells that it was written")
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
