package jsonpath_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"confcenter/internal/jsonpath"
	"confcenter/internal/jsontext"
)

func TestReplace(t *testing.T) {
	for _, c := range []struct{ name, doc, pattern, value, want string }{
		{"a member", `{"a":1, "key4" : 1234 ,"b":2}`, "/key4", `1235`, `{"a":1, "key4" : 1235 ,"b":2}`},
		{"the first of two", `{"a":1,"a":2}`, "a", `9`, `{"a":9,"a":2}`},
		{"below", `{"a":{"b":[1,{"c":2.50}]}}`, "/a/b/1/c", `"x"`, `{"a":{"b":[1,{"c":"x"}]}}`},
		{"an element", `[1,2,3]`, "/1", `[]`, `[1,[],3]`},
		{"the whole", `{"a":1}`, "/", `7`, `7`},
		{"a new member", `{"a":1}`, "/b", `2`, `{"a":1,"b":2}`},
		{"a new member of nothing", ` { } `, "/b", `2`, ` { "b":2} `},
		{"behind the lines of others", "{\n  \"a\": 1\n}\n", "/b", `2`, "{\n  \"a\": 1,\n\"b\":2}\n"},
		{"with those on the way", `{"a":{}}`, "/a/q\"/7", `2`, `{"a":{"q\"":{"7":2}}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := jsonpath.Replace([]byte(c.doc), []byte(c.pattern), []byte(c.value))
			require.NoError(t, err)
			require.Equal(t, c.want, string(got))
		})
	}
	for _, c := range []struct{ doc, pattern, want string }{
		{`[1,2]`, "/2", `the array has no element "2"`},
		{`{"a":[1]}`, "/a/x", `the array has no element "x"`},
		{`{"a":"text"}`, "/a/b", `"b" would have to be a member of a string`},
		{` 1`, "/b", `"b" would have to be a member of a number`},
	} {
		_, err := jsonpath.Replace([]byte(c.doc), []byte(c.pattern), []byte(`0`))
		require.EqualError(t, err, c.want)
	}
}

func TestReplaceIsWhatLookupFinds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		doc := []byte(sample)
		pattern := []byte(rapid.StringMatching(`(/(key3|subkey3|new|s|[0-3]|o|e| |é"))*`).Draw(t, "pattern"))
		changed, err := jsonpath.Replace(doc, pattern, []byte(`"here"`))
		require.Equal(t, sample, string(doc))
		if err != nil {
			_, found := jsonpath.Lookup(doc, pattern)
			require.False(t, found)
			return
		}
		_, err = jsontext.Check(changed)
		require.NoError(t, err)
		value, found := jsonpath.Lookup(changed, pattern)
		require.True(t, found)
		require.Equal(t, `"here"`, string(value))
	})
}
