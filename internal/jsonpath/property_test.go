package jsonpath_test

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"confcenter/internal/jsonpath"
	"confcenter/internal/jsontext"
)

// The keys are few, so that documents share keys and repeat them; some are written with escapes, some look like indexes, and
// some mean something to gjson.
var (
	plainKeys = []string{`"a"`, `"b"`, `"0"`, `"1"`, `"00"`, `"é"`, `"long key 0123456789"`, `""`, `" "`,
		`"a.b"`, `"*"`, `"?"`, `"#"`, `"@this"`, `"a|@this"`, `"!true"`, `"{a}"`, `"[a]"`, `"..a"`, `"a:b"`, `"<>"`}
	plainKey = rapid.SampledFrom(plainKeys)
	anyKey   = rapid.SampledFrom(append([]string{`"\u0061"`, `"\u00e9"`, `"q\"\\"`, `"a\\.b"`}, plainKeys...))
	anyPart  = rapid.SampledFrom([]string{"a", "a", "b", "0", "1", "00", "2", "é", `q"\`, `\u0061`, "long key 0123456789", "", " ", "4294967296", "2147483648",
		"-1", "x", "a.b", `a\.b`, "*", "?", "#", "@this", "a|@this", "!true", "{a}", "[a]", "..a", "a:b", "<>", "a*", "|", ".", "\x00", "\xff"})
	anyPlain = rapid.SampledFrom([]string{`1`, `-0.50`, `"x"`, `"a/b\n{"`, `null`, `true`, `18446744073709551616`, `[]`, `{}`})
)

func drawDocument(t *rapid.T) []byte {
	blank := rapid.SampledFrom([]string{"", "", " ", "\n\t"}).Draw(t, "blank")
	key := anyKey
	if rapid.Bool().Draw(t, "plain keys") {
		key = plainKey
	}
	return []byte(blank + drawValue(t, key, blank, 4) + blank)
}

func drawValue(t *rapid.T, key *rapid.Generator[string], blank string, depth int) string {
	kind := rapid.IntRange(0, 4).Draw(t, "kind")
	if depth == 0 || kind == 0 {
		return anyPlain.Draw(t, "plain")
	}
	var items []string
	for range rapid.IntRange(0, 4).Draw(t, "length") {
		item := drawValue(t, key, blank, depth-1) + blank
		if kind != 1 {
			item = key.Draw(t, "key") + blank + ":" + blank + item
		}
		items = append(items, item)
	}
	list := blank + strings.Join(items, ","+blank)
	if kind == 1 {
		return "[" + list + "]"
	}
	return "{" + list + "}"
}

func drawPattern(t *rapid.T) []byte {
	return []byte(strings.Join(rapid.SliceOfN(anyPart, 0, 5).Draw(t, "parts"), "/"))
}

// object is a JSON object in which, unlike in encoding/json's map, the first duplicate counts.
type object map[string]any

// decode builds the plain Go value of text with the standard library's tokens.
func decode(t require.TestingT, text []byte) any {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	v := decodeNext(t, d)
	require.False(t, d.More())
	return v
}

func decodeNext(t require.TestingT, d *json.Decoder) any {
	token, err := d.Token()
	require.NoError(t, err)
	switch token {
	case json.Delim('['):
		list := []any{}
		for d.More() {
			list = append(list, decodeNext(t, d))
		}
		_, err = d.Token()
		require.NoError(t, err)
		return list
	case json.Delim('{'):
		o := object{}
		for d.More() {
			key, err := d.Token()
			require.NoError(t, err)
			value := decodeNext(t, d)
			if _, seen := o[key.(string)]; !seen {
				o[key.(string)] = value
			}
		}
		_, err = d.Token()
		require.NoError(t, err)
		return o
	}
	return token
}

// modelLookup is the path rule on plain Go values.
func modelLookup(v any, pattern string) (any, bool) {
	for _, part := range strings.Split(pattern, "/") {
		if part == "" || part == " " {
			continue
		}
		switch at := v.(type) {
		case object:
			member, ok := at[part]
			if !ok {
				return nil, false
			}
			v = member
		case []any:
			if strings.Trim(part, "0123456789") != "" {
				return nil, false
			}
			wide, err := strconv.ParseInt(part, 10, 64)
			if err != nil {
				wide = math.MaxInt64
			}
			n := int(int32(wide))
			if n < 0 || n >= len(at) {
				return nil, false
			}
			v = at[n]
		default:
			return nil, false
		}
	}
	return v, true
}

// modelMerge lays plain Go values over each other, two at a time.
func modelMerge(docs []any, deep bool) object {
	merged := object{}
	for _, doc := range docs {
		if o, ok := doc.(object); ok {
			modelOverlay(merged, o, deep)
		}
	}
	return merged
}

func modelOverlay(weak, strong object, deep bool) {
	for key, value := range strong {
		under, ok1 := weak[key].(object)
		over, ok2 := value.(object)
		if !deep || !ok1 || !ok2 {
			weak[key] = modelClone(value)
			continue
		}
		modelOverlay(under, over, deep)
	}
}

func modelClone(v any) any {
	o, ok := v.(object)
	if !ok {
		return v
	}
	out := object{}
	modelOverlay(out, o, false)
	return out
}

func TestLookupIsTheModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		doc := drawDocument(t)
		x, plain := jsonpath.NewIndex(doc), decode(t, doc)
		for range 5 {
			requireLookup(t, doc, x, plain, drawPattern(t))
		}
	})
}

func requireLookup(t require.TestingT, doc []byte, x *jsonpath.Index, plain any, pattern []byte) {
	want, found := modelLookup(plain, string(pattern))
	got, ok := jsonpath.Lookup(doc, pattern)
	require.Equal(t, found, ok, "%s in %s", pattern, doc)
	if found {
		require.Equal(t, want, decode(t, got), "%s in %s", pattern, doc)
	}
	long, ok := jsonpath.Lookup(lengthened(doc), pattern)
	require.Equal(t, found, ok, "%s in long %s", pattern, doc)
	require.Equal(t, strings.TrimLeft(string(got), blanks), strings.TrimLeft(string(long), blanks), "%s in long %s", pattern, doc)
	indexed, ok := x.Lookup(pattern)
	require.Equal(t, found, ok, "%s in index of %s", pattern, doc)
	require.Equal(t, string(got), string(indexed))
}

const blanks = " \n\t"

// lengthened is doc with so many blanks in front that it is looked up as long documents are.
func lengthened(doc []byte) []byte { return append(bytes.Repeat([]byte(" "), 8<<10), doc...) }

func TestMergeIsTheModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var docs [][]byte
		for range rapid.IntRange(0, 4).Draw(t, "documents") {
			docs = append(docs, drawDocument(t))
		}
		requireMerge(t, docs)
	})
}

func requireMerge(t require.TestingT, docs [][]byte) {
	var plain []any
	for _, doc := range docs {
		plain = append(plain, decode(t, doc))
	}
	for _, deep := range []bool{false, true} {
		merged := jsonpath.Merge(docs, deep)
		require.Equal(t, modelMerge(plain, deep), decode(t, merged), "deep=%t %s", deep, docs)
		require.Equal(t, string(jsontext.AppendCompact(nil, merged)), string(merged), "compact")
		require.Equal(t, string(merged), string(jsonpath.Merge([][]byte{merged}, deep)), "merging what is merged changes nothing")
	}
}
