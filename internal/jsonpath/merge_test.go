package jsonpath_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/internal/jsonpath"
	"confcenter/internal/jsontext"
)

func TestMerge(t *testing.T) {
	for _, c := range []struct {
		name, shallow, deep string // deep "" is the same as shallow
		docs                []string
	}{
		{"none", `{}`, ``, nil},
		{"empty text", `{}`, ``, []string{``}},
		{"one", `{"a":1}`, ``, []string{`{"a":1}`}},
		{"empty one", `{}`, ``, []string{`{}`}},
		{"comes out compact", `{"a":[1,{"b":" x "}],"c":{"d":1}}`, ``, []string{" {\n\"a\" : [ 1 , { \"b\" : \" x \" } ] } ", `{ "c" : { "d" : 1 } }`}},
		{"stronger wins in place", `{"a":3,"b":2,"c":4}`, ``, []string{`{"a":1,"b":2}`, `{"c":4,"a":3}`}},
		{"non-objects are skipped", `{"a":1,"b":2}`, ``, []string{`[1]`, `{"a":1}`, `null`, `"x"`, `{"b":2}`, `7`}},
		{"only non-objects", `{}`, ``, []string{`[1]`, `null`}},
		{"null replaces", `{"a":null}`, ``, []string{`{"a":{"b":1}}`, `{"a":null}`}},
		{"null is replaced", `{"a":{"b":1}}`, ``, []string{`{"a":null}`, `{"a":{"b":1}}`}},
		{"objects", `{"a":{"y":2}}`, `{"a":{"x":1,"y":2}}`, []string{`{"a":{"x":1}}`, `{"a":{"y":2}}`}},
		{"empty object over object", `{"a":{}}`, `{"a":{"x":1}}`, []string{`{"a":{"x":1}}`, `{"a":{}}`}},
		{"arrays are replaced", `{"a":[3]}`, ``, []string{`{"a":[1,2]}`, `{"a":[3]}`}},
		{"array over object", `{"a":[]}`, ``, []string{`{"a":{"x":1}}`, `{"a":[]}`}},
		{"a scalar between cuts off what is weaker", `{"a":{"z":3}}`, ``, []string{`{"a":{"x":1}}`, `{"a":1}`, `{"a":{"z":3}}`}},
		{"several levels, several documents", `{"a":{"b":{"z":3}}}`, `{"a":{"b":{"x":3,"y":2,"z":3},"q":[{}],"r":1}}`,
			[]string{`{"a":{"b":{"x":1},"q":[{}]}}`, `{"a":{"b":{"y":2},"r":1}}`, `{"a":{"b":{"z":3,"x":3}}}`, `{"a":{"b":{"z":3}}}`}},
		{"first duplicate of the weaker", `{"a":1,"b":2}`, ``, []string{`{"a":1,"a":9}`, `{"b":2}`}},
		{"first duplicate of the stronger", `{"a":2}`, ``, []string{`{"a":1}`, `{"a":2,"a":9}`}},
		{"first duplicate below", `{"a":{"x":2,"x":9}}`, `{"a":{"x":2}}`, []string{`{"a":{"x":1,"x":8}}`, `{"a":{"x":2,"x":9}}`}},
		{"duplicate that is an object", `{"a":{"x":1}}`, ``, []string{`{"a":{"x":1},"a":{"y":1}}`}},
		{"duplicate object is no layer", `{"a":{"z":3},"b":{"c":1}}`, `{"a":{"x":1,"z":3},"b":{"c":1}}`, []string{`{"a":{"x":1},"a":{"y":2},"b":{"c":1}}`, `{"a":{"z":3},"b":{"c":1}}`}},
		{"equal keys written differently", `{"\u0061":2}`, ``, []string{`{"\u0061":1}`, `{"a":2}`}},
		{"numbers and strings as they were", `{"n":1.50,"u":18446744073709551616,"s":"\u0041\/","e":1E+02}`, ``,
			[]string{`{"n":1.50,"u":18446744073709551616}`, `{"s":"\u0041\/","e":1E+02}`}},
		{"empty keys merge too", `{"":{"b":2}," ":1}`, `{"":{"a":1,"b":2}," ":1}`, []string{`{"":{"a":1}," ":0}`, `{"":{"b":2}," ":1}`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var docs [][]byte
			for _, d := range c.docs {
				docs = append(docs, []byte(d))
			}
			deep := c.deep
			if deep == "" {
				deep = c.shallow
			}
			require.Equal(t, c.shallow, string(jsonpath.Merge(docs, false)))
			require.Equal(t, deep, string(jsonpath.Merge(docs, true)))
			for i, d := range c.docs {
				require.Equal(t, d, string(docs[i]), "inputs are left alone")
			}
		})
	}
}

func TestMergeSharesNothing(t *testing.T) {
	doc := []byte(`{"a":1}`)
	for _, deep := range []bool{false, true} {
		merged := jsonpath.Merge([][]byte{doc}, deep)
		copy(merged, "XXXXXXX")
		require.Equal(t, `{"a":1}`, string(doc))
	}
}

// Text nested deeper than Scan allows must not take the stack along: below the limit the stronger value replaces.
func TestMergeDepthIsLimited(t *testing.T) {
	chain := func(levels int, leaf string) []byte {
		return []byte(strings.Repeat(`{"a":`, levels) + leaf + strings.Repeat("}", levels))
	}
	at := jsontext.MaxDepth - 1
	merged := jsonpath.Merge([][]byte{chain(at, `{"x":1}`), chain(at, `{"y":2}`)}, true)
	require.Equal(t, string(chain(at, `{"x":1,"y":2}`)), string(merged))
	merged = jsonpath.Merge([][]byte{chain(at+1, `{"x":1}`), chain(at+1, `{"y":2}`)}, true)
	require.Equal(t, string(chain(at+1, `{"y":2}`)), string(merged))
}
