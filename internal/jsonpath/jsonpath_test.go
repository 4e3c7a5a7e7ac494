package jsonpath_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/internal/jsonpath"
	"confcenter/internal/jsontext"
)

const sample = `{"key3":{"subkey3":[10,{"x":"y"},[1,2,3]],"7":"member"},"key3":"second","7":["a","b"],"k\u00e9y/":1,` +
	`"q\"uote":{"back\\slash":true},"":"empty key"," ":"blank key","null":null,"s":"text","pair\uD83D\uDE00":-0.50,"A":1,"a":2,` +
	`"e":[],"o":{},"long":"0123456789 0123456789","kéy":"raw"}`

var lookups = []struct {
	name, doc, pattern, want string // want "" is a miss
}{
	{"nothing is the whole", sample, "", sample},
	{"slash is the whole", sample, "/", sample},
	{"slash and blank is the whole", sample, "/ /", sample},
	{"blank is the whole", sample, " ", sample},
	{"many slashes are the whole", sample, "////", sample},
	{"whole scalar", `"x"`, "/", `"x"`},
	{"member", sample, "/s", `"text"`},
	{"member without slash", sample, "s", `"text"`},
	{"slash at the end", sample, "s/", `"text"`},
	{"slashes doubled", sample, "//key3//subkey3", `[10,{"x":"y"},[1,2,3]]`},
	{"blank part skipped", sample, "/ /key3/ /subkey3/ ", `[10,{"x":"y"},[1,2,3]]`},
	{"two blanks are a key", sample, "/  /s", ""},
	{"first duplicate wins", sample, "/key3/7", `"member"`},
	{"first duplicate wins over array index", sample, "/key3/0", ""},
	{"case-sensitive", sample, "/A", "1"},
	{"case-sensitive, other", sample, "/a", "2"},
	{"unknown", sample, "/b", ""},
	{"prefix of a key", sample, "/lon", ""},
	{"key and more", sample, "/longer", ""},
	{"null is found", sample, "/null", "null"},
	{"number text", sample, "/pair😀", "-0.50"},
	{"escaped key", sample, `/q"uote`, `{"back\\slash":true}`},
	{"escaped key below", sample, `/q"uote/back\slash`, "true"},
	{"escapes are not for patterns", sample, `/q\"uote`, ""},
	{"raw text of an escaped key", sample, `/q"uote/back\\slash`, ""},
	{"raw UTF-8 key", sample, "/kéy", `"raw"`},
	{"key with slash is not reachable", sample, "/kéy/", `"raw"`},
	{"empty containers", sample, "/e", "[]"},
	{"nothing in an empty array", sample, "/e/0", ""},
	{"nothing in an empty object", sample, "/o/0", ""},
	{"numeric key of an object", sample, "/7", `["a","b"]`},
	{"array below numeric key", sample, "/7/1", `"b"`},
	{"beyond the array", sample, "/7/2", ""},
	{"element of a nested array", sample, "/key3/subkey3/2/1", "2"},
	{"member of an element", sample, "/key3/subkey3/1/x", `"y"`},
	{"below a scalar", sample, "/s/0", ""},
	{"below a number", sample, "/A/0", ""},
	{"below null", sample, "/null/x", ""},
	{"root array", `[1,[2,3]]`, "/1/0", "2"},
	{"zeros", `["zero","one"]`, "/00", `"zero"`},
	{"leading zero", `["zero","one"]`, "/01", `"one"`},
	{"very many zeros", `["zero","one"]`, "/" + strings.Repeat("0", 100) + "1", `"one"`},
	{"2^32 wraps", `["zero","one"]`, "/4294967296", `"zero"`},
	{"2^32+1 wraps", `["zero","one"]`, "/4294967297", `"one"`},
	{"2^33+1 wraps", `["zero","one"]`, "/8589934593", `"one"`},
	{"2^31 is negative", `["zero","one"]`, "/2147483648", ""},
	{"2^31-1 is large", `["zero","one"]`, "/2147483647", ""},
	{"2^63-1 is -1", `["zero","one"]`, "/9223372036854775807", ""},
	{"2^63 is clamped", `["zero","one"]`, "/9223372036854775808", ""},
	{"2^64 is clamped, not wrapped", `["zero","one"]`, "/18446744073709551616", ""},
	{"last value below the clamp that wraps to 1", `["zero","one"]`, "/9223372032559808513", `"one"`},
	{"minus one", `["zero","one"]`, "/-1", ""},
	{"plus one", `["zero","one"]`, "/+1", ""},
	{"minus zero", `["zero","one"]`, "/-0", ""},
	{"digits and more", `["zero","one"]`, "/1x", ""},
	{"fraction", `["zero","one"]`, "/1.0", ""},
	{"blank before digits", `["zero","one"]`, "/ 1", ""},
	{"leading zeros are another key", `{"1":"one"}`, "/01", ""},
	{"scalar root", `17`, "/x", ""},
	{"blanks in the text", " { \"a\" : [ 1 , { \"b\" : 2 } ] } ", "/a/1/b", "2"},
	{"escaped text of equal length", `{"\\\\":1,"\\\\\\\\":2}`, `/\\\\`, "2"},
	{"first duplicate wins though the second has it", `{"a":{"x":1},"a":{"y":2}}`, "/a/y", ""},
	{"key with a dot", `{"a":{"b":1},"a.b":2}`, "/a.b", "2"},
	{"star is no wildcard", `{"a":1,"*":2}`, "/*", "2"},
	{"nothing counts elements", `{"a":[1,2],"#":3}`, "/a/#", ""},
	{"no modifier", `{"a":1}`, "/@this", ""},
	{"no selector", `{"a":1,"{a}":2}`, "/{a}", "2"},
	{"no line of JSON lines", `[1,2]`, "/..0", ""},
	{"bracket in a string", `"{\"a\":1}"`, "/a", ""},
	{"bracket in a plain string", `"[1]"`, "/0", ""},
	{"escaped key behind its raw text", `{"\\a":1,"\u0061":2}`, `/a`, "2"},
}

func TestLookup(t *testing.T) {
	for _, c := range lookups {
		t.Run(c.name, func(t *testing.T) {
			_, err := jsontext.Check([]byte(c.doc))
			require.NoError(t, err)
			got, ok := jsonpath.Lookup([]byte(c.doc), []byte(c.pattern))
			require.Equal(t, c.want != "", ok)
			require.Equal(t, c.want, string(got))

			got, ok = jsonpath.Lookup(lengthened([]byte(c.doc)), []byte(c.pattern))
			require.Equal(t, c.want != "", ok, "long")
			require.Equal(t, strings.TrimLeft(c.want, blanks), strings.TrimLeft(string(got), blanks), "long")

			got, ok = jsonpath.NewIndex([]byte(c.doc)).Lookup([]byte(c.pattern))
			require.Equal(t, c.want != "", ok, "index")
			require.Equal(t, c.want, string(got), "index")
		})
	}
}

func TestResultCannotGrowIntoTheDocument(t *testing.T) {
	doc := []byte(`{"a":1,"b":[2,3]}`)
	x := jsonpath.NewIndex(doc)
	for _, pattern := range []string{"/a", "/b", "/b/0"} {
		value, _ := jsonpath.Lookup(doc, []byte(pattern))
		_ = append(value, "XXXX"...)
		value, _ = x.Lookup([]byte(pattern))
		_ = append(value, "XXXX"...)
	}
	require.Equal(t, `{"a":1,"b":[2,3]}`, string(doc))
}

func TestDeepDocuments(t *testing.T) {
	const depth = 200000 // beyond what Scan lets in: the stack must hold all the same
	for _, c := range []struct{ name, open, end, pattern string }{
		{"arrays", "[", "]", "/0/0/0"},
		{"objects", `{"0":`, "}", "/0/0/0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			doc := []byte(strings.Repeat(c.open, depth) + "[]" + strings.Repeat(c.end, depth))
			want := string(doc[3*len(c.open) : len(doc)-3*len(c.end)])
			got, ok := jsonpath.Lookup(doc, []byte(c.pattern))
			require.True(t, ok)
			require.True(t, want == string(got))
			got, ok = jsonpath.NewIndex(doc).Lookup([]byte(c.pattern))
			require.True(t, ok)
			require.True(t, want == string(got))
			merged := jsonpath.Merge([][]byte{doc, doc}, true)
			if c.open == "[" {
				require.Equal(t, "{}", string(merged))
			} else {
				require.True(t, string(merged) == string(doc))
			}
		})
	}
}
