package jsonpath_test

import (
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"confcenter/internal/jsonpath"
	"confcenter/internal/jsontext"
)

// modelled reports whether the model, which replaces what is not UTF-8, has to agree about text.
func modelled(texts ...[]byte) bool {
	for _, text := range texts {
		if _, err := jsontext.Check(text); err != nil || !utf8.Valid(text) {
			return false
		}
	}
	return true
}

func addLookups(f *testing.F) {
	for _, c := range lookups {
		f.Add([]byte(c.doc), []byte(c.pattern))
	}
	for _, broken := range []string{``, `{`, `{"a":`, `{"a"`, `[[`, `{{}:{}}`, `]`, `[:::`, `{]`, `{"a":1}}`, `{"\`, "\x00"} {
		f.Add([]byte(broken), []byte("/a/0"))
	}
}

// FuzzLookup compares with the model and expects no panic on text that is no JSON.
func FuzzLookup(f *testing.F) {
	addLookups(f)
	f.Fuzz(func(t *testing.T, doc, pattern []byte) {
		value, ok := jsonpath.Lookup(doc, pattern)
		_, long := jsonpath.Lookup(lengthened(doc), pattern)
		if !modelled(doc, jsontext.AppendQuote(nil, pattern)) {
			return
		}
		want, found := modelLookup(decode(t, doc), string(pattern))
		require.Equal(t, found, ok)
		require.Equal(t, found, long)
		if found {
			require.Equal(t, want, decode(t, value))
		}
	})
}

// FuzzIndex expects the index to find what the scan finds, byte for byte, whatever encoding the keys have.
func FuzzIndex(f *testing.F) {
	addLookups(f)
	f.Fuzz(func(t *testing.T, doc, pattern []byte) {
		x := jsonpath.NewIndex(doc)
		value, ok := x.Lookup(pattern)
		require.Positive(t, x.Size())
		if _, err := jsontext.Check(doc); err != nil {
			return
		}
		want, found := jsonpath.Lookup(doc, pattern)
		require.Equal(t, found, ok)
		require.Equal(t, string(want), string(value))
	})
}

// FuzzMerge compares with the model and expects no panic on text that is no JSON.
func FuzzMerge(f *testing.F) {
	for _, c := range [][3]string{
		{`{"a":{"x":1}}`, `{"a":{"y":2}}`, `{"a":1}`}, {sample, sample, `{}`}, {`{"a":{"b":{"c":1}}}`, `{"a":{"b":{"c":{}},"d":2}}`, `[]`},
		{`{"a":1,"a":2}`, `{"\u0061":{}}`, `null`}, {`{`, `{"a":`, `{{}:{}}`}, {`{"a":{]}`, `{"a":{}}}`, `{"a":[}]`}, {``, `]`, `}`},
	} {
		f.Add([]byte(c[0]), []byte(c[1]), []byte(c[2]))
	}
	f.Fuzz(func(t *testing.T, weak, middle, strong []byte) {
		docs := [][]byte{weak, middle, strong}
		for _, deep := range []bool{false, true} {
			merged := jsonpath.Merge(docs, deep)
			if modelled(docs...) {
				_, err := jsontext.Check(merged)
				require.NoError(t, err)
			}
		}
		if modelled(docs...) {
			requireMerge(t, docs)
		}
	})
}
