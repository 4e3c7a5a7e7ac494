package documents_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/kv"
	"confcenter/kv/documents"
	"confcenter/kv/kvjson"
)

func entry(text string) *kv.Entry {
	return &kv.Entry{NS: documents.Own, Key: "a.json", Value: kv.JSONValue([]byte(text)), Create: 9, Mod: 9, Version: 1, Updated: 77000}
}

// changed is an event; "" is nothing.
func changed(before, after string) kv.Event {
	e := kv.Event{Kind: kv.Put}
	if before != "" {
		e.Prev = entry(before)
	}
	if e.Entry = entry(after); after == "" {
		e.Kind, e.Entry.Value, e.Entry.Version = kv.Delete, kv.Value{}, 0
	}
	return e
}

func spelled(e kv.Event, prev, changes bool) string {
	w := kvjson.Writer{Buf: []byte("{")}
	documents.AppendEvent(&w, &e, prev, changes)
	text := strings.TrimPrefix(string(w.End()), `{"op":"`)
	return strings.Replace(text, `","name":"a.json","mod":9,"mtime":77`, "", 1)
}

func TestAnEventIsSpelledAsItWasAskedFor(t *testing.T) {
	for _, test := range []struct {
		before, after string
		prev, changes bool
		want          string
	}{
		{``, `1`, true, true, `put,"contents":1}`},
		{`2`, `1`, false, false, `put,"contents":1}`},
		{`2`, `1`, true, false, `put,"contents":1,"prev":2}`},
		{`2`, `1`, true, true, `put,"changes":[{"path":"","old":2,"new":1}]}`},
		{`{"a":[1,2],"b/c":1}`, `{"a":[1,3],"d":null}`, false, true, `put,"changes":[{"path":"/a/1","old":2,"new":3},{"path":"/b~1c","old":1},{"path":"/d","new":null}]}`},
		{`2`, ``, false, true, `delete}`},
		{`2`, ``, true, true, `delete,"prev":2}`},
	} {
		require.Equal(t, test.want, spelled(changed(test.before, test.after), test.prev, test.changes), "%+v", test)
	}
}

func TestWhatIsAtAPathIsLikeADocument(t *testing.T) {
	for _, test := range []struct{ before, after, state, want string }{
		{`{"x":1}`, `{"x":1,"y":2}`, `put,"contents":1,"prev":1}`, ``},
		{`{"x":1}`, `{"x":[2]}`, `put,"contents":[2],"prev":1}`, `put,"contents":[2],"prev":1}`},
		{`{}`, `{"x":null}`, `put,"contents":null}`, `put,"contents":null}`},
		{``, `{"x":3}`, `put,"contents":3}`, `put,"contents":3}`},
		{`{"x":1}`, `{}`, `delete,"prev":1}`, `delete,"prev":1}`},
		{`{"x":1}`, ``, `delete,"prev":1}`, `delete,"prev":1}`},
		{`{}`, ``, ``, ``},
		{`7`, `8`, ``, ``},
	} {
		for state, want := range map[bool]string{true: test.state, false: test.want} {
			var got string
			for _, e := range documents.Narrow([]kv.Event{changed(test.before, test.after)}, "/x", state) {
				got += spelled(e, true, false)
			}
			require.Equal(t, want, got, "%+v", test)
		}
	}
}

func TestAWatchIsCompletedOrRefused(t *testing.T) {
	q := documents.Watch{Filter: kv.Filter{NS: documents.Own, Text: "a", Exact: true}, Past: true}
	require.NoError(t, q.Complete())
	require.Equal(t, "a.json", q.Filter.Text)
	q.State = true
	require.ErrorContains(t, q.Complete(), "from and state exclude each other")
	for code, q := range map[codes.Code]documents.Watch{
		codes.TooLarge: {Path: strings.Repeat("/", documents.MaxPath+1), Filter: kv.Filter{NS: documents.Own}},
		codes.BadKey:   {Filter: kv.Filter{NS: documents.Own, Exact: true}},
	} {
		require.Equal(t, code, codes.Of(q.Complete()), fmt.Sprint(q.Filter))
	}
}

// A document of 80 KB can have changed at paths that take 256 MB to say, and one of 16 MiB at more than there is memory.
func TestPathsAreSaidOnlyWhereTheyAreShort(t *testing.T) {
	long := func(n int) kv.Event {
		one := func(digit string) string {
			return `{"` + strings.Repeat("k", 64<<10) + `":[` + strings.Repeat(digit+",", n-1) + digit + `]}`
		}
		return changed(one("1"), one("2"))
	}
	require.Equal(t, 15, strings.Count(spelled(long(15), false, true), `{"path":"/kkk`))
	whole := func(e kv.Event) bool {
		return spelled(e, false, true) == `put,"changes":[{"path":"","old":`+string(e.Prev.Value.Data)+`,"new":`+string(e.Entry.Value.Data)+`}]}`
	}
	require.True(t, whole(long(4096)))
	text := `"` + strings.Repeat("x", 3<<20) + `"`
	require.Contains(t, spelled(changed(`{"k":1,"s":`+text+`}`, `{"k":2,"s":3}`), false, true), `{"path":"/k","old":1,"new":2},{"path":"/s"`, "values are no more than the documents have")

	members := func(n int) string { // as many objects as have to be looked through
		var b strings.Builder
		for i := range 50_000 {
			fmt.Fprintf(&b, `"%d":0,`, i)
		}
		return fmt.Sprintf(`{%s"n":%d}`, b.String(), n)
	}
	require.False(t, whole(changed(members(1), members(2))))
	require.True(t, whole(changed(`{"o":`+members(1)+`,`+members(1)[1:], `{"o":`+members(2)+`,`+members(2)[1:])), "while both are looked through")
}
