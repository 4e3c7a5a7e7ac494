package jsontext_test

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"confcenter/internal/jsontext"
)

var (
	anyNumber  = rapid.StringMatching(`-?(0|[1-9][0-9]{0,12})(\.[0-9]{1,8})?([eE][+-]?[0-9]{1,2})?`)
	anyString  = rapid.StringMatching(`"([ a-z0-9äß😀{}\[\],:/]|\\["\\/bfnrt]|\\u00[0-7][0-9a-fA-F]|\\uD83D\\uDE0[0-9])*"`)
	anyBlanks  = rapid.StringMatching(`[ \t\r\n]{0,3}`)
	anyLiteral = rapid.SampledFrom([]string{"true", "false", "null"})
)

// drawText draws valid JSON text, with and without blanks.
func drawText(t *rapid.T) []byte {
	blanks := func() string { return "" }
	if rapid.Bool().Draw(t, "spread") {
		blanks = func() string { return anyBlanks.Draw(t, "blanks") }
	}
	return []byte(blanks() + drawValue(t, blanks, 4) + blanks())
}

func drawValue(t *rapid.T, blanks func() string, depth int) string {
	kinds := 3
	if depth > 0 {
		kinds = 5
	}
	switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
	case 0:
		return anyLiteral.Draw(t, "literal")
	case 1:
		return anyNumber.Draw(t, "number")
	case 2:
		return anyString.Draw(t, "string")
	case 3:
		return "[" + blanks() + drawList(t, blanks, func() string { return drawValue(t, blanks, depth-1) }) + "]"
	}
	return "{" + blanks() + drawList(t, blanks, func() string {
		return anyString.Draw(t, "key") + blanks() + ":" + blanks() + drawValue(t, blanks, depth-1)
	}) + "}"
}

func drawList(t *rapid.T, blanks func() string, item func() string) string {
	var items []string
	for range rapid.IntRange(0, 4).Draw(t, "length") {
		items = append(items, item()+blanks())
	}
	return strings.Join(items, ","+blanks())
}

func TestCheckAgreesWithStandardLibrary(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := drawText(t)
		_, err := jsontext.Check(text)
		require.NoError(t, err)
		requireAgreement(t, text)
	})
}

func TestCheckAgreesOnDamagedText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := drawText(t)
		for range rapid.IntRange(1, 3).Draw(t, "damages") {
			at := rapid.IntRange(0, len(text)).Draw(t, "at")
			end := min(len(text), at+rapid.IntRange(0, 2).Draw(t, "removed"))
			piece := rapid.SampledFrom([]string{"", ",", ":", `"`, `\`, "{", "}", "[", "]", "0", "-", ".", "e", " ", "\x00", "\n", "\xff", "t", `\u`, "/"})
			text = []byte(string(text[:at]) + piece.Draw(t, "piece") + string(text[end:]))
		}
		requireAgreement(t, text)
	})
}

func TestNumberRangeIsThatOfDouble(t *testing.T) {
	digits := rapid.StringMatching(`[1-9][0-9]{0,30}`)
	rapid.Check(t, func(t *rapid.T) {
		number := digits.Draw(t, "digits") + strings.Repeat("0", rapid.IntRange(0, 320).Draw(t, "zeros"))
		if rapid.Bool().Draw(t, "fraction") {
			number = "0." + strings.Repeat("0", rapid.IntRange(0, 320).Draw(t, "small")) + number
		}
		number += "e" + strconv.Itoa(rapid.IntRange(-700, 700).Draw(t, "exponent"))
		_, want := strconv.ParseFloat(number, 64)
		_, got := jsontext.Check([]byte(number))
		require.Equal(t, want == nil, got == nil, number)
	})
}

func TestFormatsAgreeWithStandardLibrary(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := drawText(t)
		var want bytes.Buffer
		require.NoError(t, json.Compact(&want, text))
		compact := jsontext.AppendCompact(nil, text)
		require.Equal(t, want.String(), string(compact))
		require.Equal(t, string(compact), string(jsontext.AppendCompact(nil, compact)))

		want.Reset()
		require.NoError(t, json.Indent(&want, compact, "", "    "))
		indented := jsontext.AppendIndent(nil, text, "    ")
		require.Equal(t, want.String(), string(indented))
		require.Equal(t, len(indented), jsontext.IndentLen(text, "    "))
		require.Equal(t, string(compact), string(jsontext.AppendCompact(nil, indented)))
		require.Equal(t, string(indented), string(jsontext.AppendIndent(nil, indented, "    ")))
	})
}

func TestWalksAgreeWithScan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { requireWalk(t, drawText(t)) })
}

// requireWalk steps through valid text in every way and down every level, and compares with what Scan says.
func requireWalk(t require.TestingT, text []byte) {
	members, kind, err := jsontext.Scan(nil, text)
	require.NoError(t, err)
	inner := bytes.Trim(text, " \t\r\n")
	require.Equal(t, kind, jsontext.KindOf(inner))
	require.Equal(t, len(inner), jsontext.Skip(inner, 0))

	var walked []jsontext.Member
	jsontext.EachMember(text, func(key, raw []byte, kind jsontext.Kind) bool {
		walked = append(walked, jsontext.Member{Key: key, Raw: raw, Kind: kind})
		return true
	})
	require.Equal(t, len(members), len(walked))
	it := jsontext.Iterate(text)
	for i, m := range members {
		require.Equal(t, m, walked[i])
		require.True(t, it.Next())
		require.True(t, it.KeyIs(m.Key))
		require.Equal(t, string(m.Key), string(it.Key()))
		requireWalk(t, m.Raw)
	}
	if kind == jsontext.Array {
		jsontext.EachElement(text, func(raw []byte, kind jsontext.Kind) bool {
			require.True(t, it.Next())
			require.Equal(t, kind, it.Kind())
			requireWalk(t, raw)
			return true
		})
	}
	require.False(t, it.Next())
}

func TestQuoteRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.SliceOf(rapid.Byte()), rapid.Map(rapid.String(), func(s string) []byte { return []byte(s) })).Draw(t, "text")
		requireQuoteRoundTrip(t, text)
	})
}

func requireQuoteRoundTrip(t require.TestingT, text []byte) {
	token := jsontext.AppendQuote(nil, text)
	kind, err := jsontext.Check(token)
	require.NoError(t, err)
	require.Equal(t, jsontext.String, kind)
	require.Equal(t, string(text), string(jsontext.Unquote(token)))
	require.True(t, jsontext.UnquotedEqual(token, text))
	if utf8.Valid(text) {
		var decoded string
		require.NoError(t, json.Unmarshal(token, &decoded))
		require.Equal(t, string(text), decoded)
	}
}

func TestUnquoteAgreesWithStandardLibrary(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		token := []byte(anyString.Draw(t, "token"))
		var want string
		require.NoError(t, json.Unmarshal(token, &want))
		require.Equal(t, want, string(jsontext.Unquote(token)))
		require.True(t, jsontext.UnquotedEqual(token, []byte(want)))
		other := anyString.Draw(t, "other")
		var decoded string
		require.NoError(t, json.Unmarshal([]byte(other), &decoded))
		require.Equal(t, want == decoded, jsontext.UnquotedEqual(token, []byte(decoded)))
	})
}

func TestInt32IsTheLiteralsValue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.OneOf(rapid.Int64(), rapid.Int64Range(math.MinInt32-3, math.MinInt32+3), rapid.Int64Range(math.MaxInt32-3, math.MaxInt32+3)).Draw(t, "v")
		got, ok := jsontext.Int32([]byte(strconv.FormatInt(v, 10)))
		require.Equal(t, v >= math.MinInt32 && v <= math.MaxInt32, ok)
		if ok {
			require.Equal(t, v, int64(got))
		}
	})
}
