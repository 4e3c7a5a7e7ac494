package jsontext_test

import (
	"encoding/json"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"confcenter/internal/jsontext"
)

var seeds = []string{
	request, document, ``, ` `, `null`, `-0`, `1e400`, `[1,2,{"a":[]}]`, `{"a":{"b":[{},[]]},"a":1}`, `"\uD83D\uDE00"`, `"\uD800"`, "\"\xff\"",
	`{"\u0061":"\/"}`, `[`, `{"a":`, `{"a"`, `"\`, `"\u12`, "\xEF\xBB\xBF{}", `{{}:{}}`, `]`, `[:::`, `{]`, "\x00", `[[[[[[[[[[[[`, `{"a":1,}`, `[1 2]`,
}

// FuzzScan feeds any bytes to everything that reads text: the scanner has to agree with the standard library, and what is meant for valid
// text must not panic on other text.
func FuzzScan(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		requireAgreement(t, text)
		if _, err := jsontext.Check(text); err == nil {
			requireWalk(t, text)
			compact := jsontext.AppendCompact(nil, text)
			require.Equal(t, string(compact), string(jsontext.AppendCompact(nil, jsontext.AppendIndent(nil, text, " "))))
			kept := jsontext.LayoutOf(text, fourBlanks).Append(nil, compact)
			require.Equal(t, string(compact), string(jsontext.AppendCompact(nil, kept)))
		} else {
			line, col := err.(*jsontext.SyntaxError).Position(text)
			require.Positive(t, line)
			require.Positive(t, col)
		}
		walkAnything(text, 3)
		_ = jsontext.AppendCompact(nil, text)
		_ = jsontext.LayoutOf(text, fourBlanks)
		require.Equal(t, jsontext.IndentLen(text, "  "), len(jsontext.AppendIndent(nil, text, "  ")))
	})
}

func walkAnything(text []byte, depth int) {
	for it := jsontext.Iterate(text); it.Next(); {
		it.SetEnd(it.Offset() - 1)
		_, _, _ = it.Key(), it.Kind(), it.KeyIs([]byte("a"))
		if inner := it.Enter(); depth > 0 && inner.Next() {
			walkAnything(text[it.Offset():], depth-1)
		}
		_ = it.Raw()
	}
}

// FuzzUnquote takes any bytes as text to quote and as a token to decode.
func FuzzUnquote(f *testing.F) {
	for _, s := range append(seeds, `"\`, `"\"`, `"\u"`, `"\uD800\u"`, `"\n\`, `"`, `""`) {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		requireQuoteRoundTrip(t, text)
		decoded := jsontext.Unquote(text)
		require.Equal(t, string(decoded), string(jsontext.AppendUnquote(nil, text)))
		_ = jsontext.UnquotedEqual(text, decoded)
		if kind, err := jsontext.Check(text); err != nil || kind != jsontext.String || text[0] != '"' || text[len(text)-1] != '"' {
			return
		}
		require.True(t, jsontext.UnquotedEqual(text, decoded))
		if utf8.Valid(text) {
			var want string
			require.NoError(t, json.Unmarshal(text, &want))
			require.Equal(t, want, string(decoded))
		}
	})
}
