package jsontext_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/internal/jsontext"
)

func TestCheckAccepts(t *testing.T) {
	for _, c := range []struct {
		name, text string
		kind       jsontext.Kind
	}{
		{"null", `null`, jsontext.Null},
		{"true", `true`, jsontext.Bool},
		{"false", `false`, jsontext.Bool},
		{"blanks of all four kinds", " \t\r\n{ \t\r\n\"a\" \t\r\n: \t\r\n[ \t\r\n1 \t\r\n, \t\r\n2 \t\r\n] \t\r\n} \t\r\n", jsontext.Object},
		{"zero", `0`, jsontext.Number},
		{"minus zero", `-0`, jsontext.Number},
		{"fraction", `-12.50`, jsontext.Number},
		{"exponent", `1E+2`, jsontext.Number},
		{"negative exponent", `0.5e-07`, jsontext.Number},
		{"zero with any exponent", `0e400`, jsontext.Number},
		{"underflow is zero", `1e-400`, jsontext.Number},
		{"largest double", `1.7976931348623157e308`, jsontext.Number},
		{"many digits made small", strings.Repeat("9", 400) + "e-300", jsontext.Number},
		{"small made large", "0." + strings.Repeat("0", 200) + "1e500", jsontext.Number},
		{"309 digits below the limit", "1" + strings.Repeat("0", 308), jsontext.Number},
		{"beyond uint64", `18446744073709551616`, jsontext.Number},
		{"empty string", `""`, jsontext.String},
		{"every short escape", `"\"\\\/\b\f\n\r\t"`, jsontext.String},
		{"unicode escape in both cases", `"\u00aF\u0000"`, jsontext.String},
		{"surrogate pair", `"\uD83D\uDE00"`, jsontext.String},
		{"delete is no control character", "\"\x7f\"", jsontext.String},
		{"bytes that are not UTF-8", "\"\xff\xc3\x28\"", jsontext.String},
		{"solidus raw", `"/"`, jsontext.String},
		{"empty array", `[ ]`, jsontext.Array},
		{"empty object", `{ }`, jsontext.Object},
		{"mixed nesting", `[{"a":[{},[]],"b":{"c":[[1],{"d":null}]}},"x"]`, jsontext.Array},
		{"duplicate keys", `{"a":1,"a":2}`, jsontext.Object},
		{"empty key", `{"":1}`, jsontext.Object},
		{"deepest array", nested("[", "]", jsontext.MaxDepth), jsontext.Array},
		{"deepest object", nested(`{"a":`, "}", jsontext.MaxDepth-1), jsontext.Object},
		{"scalar within the deepest", strings.Repeat("[", jsontext.MaxDepth) + "1" + strings.Repeat("]", jsontext.MaxDepth), jsontext.Array},
	} {
		t.Run(c.name, func(t *testing.T) {
			kind, err := jsontext.Check([]byte(c.text))
			require.NoError(t, err)
			require.Equal(t, c.kind, kind)
			_, kind, err = jsontext.Scan(nil, []byte(c.text))
			require.NoError(t, err)
			require.Equal(t, c.kind, kind)
		})
	}
}

// nested opens n containers, the innermost one empty or an empty object.
func nested(open, end string, n int) string {
	if strings.HasSuffix(open, ":") {
		return strings.Repeat(open, n) + "{}" + strings.Repeat(end, n)
	}
	return strings.Repeat(open, n) + strings.Repeat(end, n)
}

var refused = []struct {
	name, text string
	offset     int
	reason     string
}{
	{"empty", ``, 0, "empty text"},
	{"blanks only", " \n", 2, "text ends too early"},
	{"byte order mark", "\xEF\xBB\xBF{}", 0, "byte order mark, save the text without it"},
	{"trailing text", `{} x`, 3, `unexpected 'x': nothing may follow the value`},
	{"second value", `{}{}`, 2, `unexpected '{': nothing may follow the value`},
	{"trailing NUL", "{}\x00", 2, `unexpected '\x00': nothing may follow the value`},
	{"no-break space", "\u00a0{}", 0, `unexpected '\u00a0': a value should begin here`},
	{"form feed", "\f1", 0, `unexpected '\f': a value should begin here`},
	{"line comment", `{"a":1 // x` + "\n}", 7, `unexpected '/': a ',' or '}' should follow the member`},
	{"block comment", `/**/1`, 0, `unexpected '/': a value should begin here`},
	{"hash comment", `{"a":1, # x`, 8, `unexpected '#': a key in double quotes should begin here`},
	{"trailing comma in an object", `{"a":1,}`, 7, `unexpected '}': a key in double quotes should begin here`},
	{"trailing comma in an array", `[1,]`, 3, `unexpected ']': a value should begin here`},
	{"comma first", `[,1]`, 1, `unexpected ',': a value should begin here`},
	{"two commas", `[1,,2]`, 3, `unexpected ',': a value should begin here`},
	{"missing comma in an object", `{"a":1 "b":2}`, 7, `unexpected '"': a ',' or '}' should follow the member`},
	{"missing comma in a nested object", `[{"a":1 "b":2}]`, 8, `unexpected '"': a ',' or '}' should follow the member`},
	{"missing comma in an array", `[1 2]`, 3, `unexpected '2': a ',' or ']' should follow the element`},
	{"wrong closer", `[1}`, 2, `unexpected '}': a ',' or ']' should follow the element`},
	{"wrong closer of an object", `{"a":1]`, 6, `unexpected ']': a ',' or '}' should follow the member`},
	{"closer alone", `]`, 0, `unexpected ']': a value should begin here`},
	{"closer twice", `[]]`, 2, `unexpected ']': nothing may follow the value`},
	{"missing colon", `{"a" 1}`, 5, `unexpected '1': a ':' should follow the key`},
	{"missing value", `{"a":}`, 5, `unexpected '}': a value should begin here`},
	{"key without quotes", `{a:1}`, 1, `unexpected 'a': a key in double quotes should begin here`},
	{"key in single quotes", `{'a':1}`, 1, `unexpected '\'': a key in double quotes should begin here`},
	{"number as key", `{1:1}`, 1, `unexpected '1': a key in double quotes should begin here`},
	{"nested key", `[{1:1}]`, 2, `unexpected '1': a key in double quotes should begin here`},
	{"NaN", `NaN`, 0, `unexpected 'N': a value should begin here`},
	{"Infinity", `[Infinity]`, 1, `unexpected 'I': a value should begin here`},
	{"minus Infinity", `-Infinity`, 1, `unexpected 'I': a digit should be here`},
	{"nan in small letters", `nan`, 0, "unknown word, only true, false and null are allowed"},
	{"True", `True`, 0, `unexpected 'T': a value should begin here`},
	{"tRUE", `tRUE`, 0, "unknown word, only true, false and null are allowed"},
	{"truth", `truth`, 0, "unknown word, only true, false and null are allowed"},
	{"word cut off", `[fals`, 1, "unknown word, only true, false and null are allowed"},
	{"word too long", `nulls`, 4, `unexpected 's': nothing may follow the value`},
	{"leading zero", `01`, 1, `unexpected '1': nothing may follow the value`},
	{"leading zero after minus", `[-01]`, 3, `unexpected '1': a ',' or ']' should follow the element`},
	{"plus", `+1`, 0, `unexpected '+': a value should begin here`},
	{"minus alone", `[-]`, 2, `unexpected ']': a digit should be here`},
	{"point first", `.5`, 0, `unexpected '.': a value should begin here`},
	{"point last", `[1.]`, 3, `unexpected ']': a digit should be here`},
	{"exponent without digits", `[1e]`, 3, `unexpected ']': a digit should be here`},
	{"exponent with sign only", `[1e+]`, 4, `unexpected ']': a digit should be here`},
	{"hexadecimal", `0x10`, 1, `unexpected 'x': nothing may follow the value`},
	{"overflow", `[1e400]`, 1, "number too large for a double"},
	{"negative overflow", `{"a":-1e400}`, 5, "number too large for a double"},
	{"just too large", `1.7976931348623159e308`, 0, "number too large for a double"},
	{"digits overflow", strings.Repeat("9", 310), 0, "number too large for a double"},
	{"exponent with many digits", `1e99999999999999999999`, 0, "number too large for a double"},
	{"newline in a string", "\"a\nb\"", 2, "control character in a string, write it as an escape"},
	{"tab in a key", "{\"\t\":1}", 2, "control character in a string, write it as an escape"},
	{"NUL in a string", "[\"\x00\"]", 2, "control character in a string, write it as an escape"},
	{"unit separator in a long string", "\"0123456789\x1f\"", 11, "control character in a string, write it as an escape"},
	{"unknown escape", `"\a"`, 2, `unexpected 'a': no such escape in a string`},
	{"escape in single quote", `"\'"`, 2, `unexpected '\'': no such escape in a string`},
	{"three hexadecimal digits", `"\u12G4"`, 1, `\u needs four hexadecimal digits`},
	{"unicode escape cut off", `"\u12"`, 1, `\u needs four hexadecimal digits`},
	{"high surrogate alone", `"\uD800"`, 1, `\u escape of half a surrogate pair`},
	{"low surrogate alone", `"\uDC00"`, 1, `\u escape of half a surrogate pair`},
	{"high surrogate twice", `"\uD800\uD800"`, 1, `\u escape of half a surrogate pair`},
	{"high surrogate and another escape", `"\uD800\n1234"`, 1, `\u escape of half a surrogate pair`},
	{"lone surrogate in a key", `{"\udfff":1}`, 2, `\u escape of half a surrogate pair`},
	{"string not closed", `"abc`, 4, "text ends too early"},
	{"string ends in a backslash", `"abc\`, 5, "text ends too early"},
	{"closing quote escaped", `"abc\"`, 6, "text ends too early"},
	{"array not closed", `[1`, 2, "text ends too early"},
	{"object not closed", `{"a":1`, 6, "text ends too early"},
	{"object cut after the colon", `{"a":`, 5, "text ends too early"},
	{"object cut after the key", `{"a"`, 4, "text ends too early"},
	{"object cut after the brace", `{`, 1, "text ends too early"},
	{"array one too deep", nested("[", "]", jsontext.MaxDepth+1), jsontext.MaxDepth, "nested deeper than 512"},
	{"object one too deep", nested(`{"a":`, "}", jsontext.MaxDepth), 5 * jsontext.MaxDepth, "nested deeper than 512"},
	{"a million brackets", strings.Repeat("[", 1000000), jsontext.MaxDepth, "nested deeper than 512"},
	{"a million objects", strings.Repeat(`{"":`, 1000000), 4 * jsontext.MaxDepth, "nested deeper than 512"},
}

func TestCheckRefuses(t *testing.T) {
	for _, c := range refused {
		t.Run(c.name, func(t *testing.T) {
			want := &jsontext.SyntaxError{Offset: c.offset, Reason: c.reason}
			kind, err := jsontext.Check([]byte(c.text))
			require.Equal(t, want, err)
			require.Equal(t, jsontext.Invalid, kind)
			members, kind, err := jsontext.Scan([]jsontext.Member{{}}, []byte(c.text))
			require.Equal(t, want, err)
			require.Equal(t, jsontext.Invalid, kind)
			require.Len(t, members, 1, "nothing of a refused text may be handed out")
		})
	}
}

// Strings are read eight bytes at a time, so every byte has to be met at every place in a word and behind the last whole one.
func TestEveryByteAtEveryPlace(t *testing.T) {
	const length = 26
	for c := range 256 {
		for at := range length {
			text := []byte(`"` + strings.Repeat("x", length) + `"`)
			text[1+at] = byte(c)
			_, err := jsontext.Check(text)
			switch {
			case c < 0x20:
				require.Equal(t, &jsontext.SyntaxError{Offset: 1 + at, Reason: "control character in a string, write it as an escape"}, err)
			case c == '"' || c == '\\':
				require.Error(t, err)
			default:
				require.NoError(t, err)
				require.Equal(t, len(text), jsontext.Skip(text, 0))
			}
			if c == '"' {
				require.Equal(t, 2+at, jsontext.Skip(text, 0))
			}
		}
	}
}

func TestScanMembers(t *testing.T) {
	text := []byte(` { "a" : 1 , "b":[1, 2] ,"a":"second","A":true, "\u0065\"":{ "x":null } ,"":null} `)
	members, kind, err := jsontext.Scan(nil, text)
	require.NoError(t, err)
	require.Equal(t, jsontext.Object, kind)
	var got []string
	for _, m := range members {
		got = append(got, fmt.Sprintf("%s=%s:%v", m.Key, m.Raw, m.Kind))
	}
	require.Equal(t, []string{
		"a=1:number", "b=[1, 2]:array", `a="second":string`, "A=true:bool", `e"={ "x":null }:object`, "=null:null",
	}, got)

	m, ok := jsontext.Find(members, "a")
	require.True(t, ok)
	require.Equal(t, "1", string(m.Raw), "the first of several wins")
	m, ok = jsontext.Find(members, "A")
	require.True(t, ok)
	require.Equal(t, jsontext.Bool, m.Kind, "keys are case-sensitive")
	_, ok = jsontext.Find(members, "B")
	require.False(t, ok)
	_, ok = jsontext.Find(nil, "a")
	require.False(t, ok)
}

func TestScanAppends(t *testing.T) {
	members, _, err := jsontext.Scan(nil, []byte(`{"a":1}`))
	require.NoError(t, err)
	members, kind, err := jsontext.Scan(members, []byte(`[{"b":1}]`))
	require.NoError(t, err)
	require.Equal(t, jsontext.Array, kind)
	require.Len(t, members, 1, "only an object has members")
	members, _, err = jsontext.Scan(members, []byte(`{"c":1}`))
	require.NoError(t, err)
	require.Equal(t, []string{"a", "c"}, []string{string(members[0].Key), string(members[1].Key)})
}

func TestMemberCannotGrowIntoTheText(t *testing.T) {
	text := []byte(`{"key":1,"next":2}`)
	members, _, err := jsontext.Scan(nil, text)
	require.NoError(t, err)
	_ = append(members[0].Key, "XXXX"...)
	_ = append(members[0].Raw, "XXXX"...)
	require.Equal(t, `{"key":1,"next":2}`, string(text))
}

func TestSyntaxErrorPosition(t *testing.T) {
	for _, c := range []struct {
		text      string
		line, col int
	}{
		{"x", 1, 1},
		{"{\"a\":1,\n  x", 2, 3},
		{"{\"äöü\": x", 1, 9},
		{"\n\n", 3, 1},
		{"", 1, 1},
	} {
		_, err := jsontext.Check([]byte(c.text))
		var syntax *jsontext.SyntaxError
		require.ErrorAs(t, err, &syntax)
		line, col := syntax.Position([]byte(c.text))
		require.Equal(t, []int{c.line, c.col}, []int{line, col}, "%q", c.text)
	}
	line, col := (&jsontext.SyntaxError{Offset: 99}).Position([]byte("ab"))
	require.Equal(t, []int{1, 3}, []int{line, col}, "an offset of another text is cut off")
	require.Equal(t, "offset 17: odd", (&jsontext.SyntaxError{Offset: 17, Reason: "odd"}).Error())
}

func TestKind(t *testing.T) {
	for text, want := range map[string]jsontext.Kind{
		"": jsontext.Invalid, "x": jsontext.Invalid, "null": jsontext.Null, "true": jsontext.Bool, "false": jsontext.Bool,
		"-1": jsontext.Number, "0": jsontext.Number, "9": jsontext.Number, `""`: jsontext.String, "[]": jsontext.Array, "{}": jsontext.Object,
	} {
		require.Equal(t, want, jsontext.KindOf([]byte(text)), text)
	}
	require.Equal(t, "object", jsontext.Object.String())
	require.Equal(t, "invalid", jsontext.Kind(200).String())
}

// sameGrammar reports whether encoding/json has to agree about text: it accepts numbers and surrogates that we refuse.
func sameGrammar(text []byte) bool {
	_, err := jsontext.Check(text)
	if err == nil {
		return true
	}
	reason := err.(*jsontext.SyntaxError).Reason
	return reason != "number too large for a double" && !strings.Contains(reason, "surrogate") && !strings.Contains(reason, "nested deeper")
}

func requireAgreement(t require.TestingT, text []byte) {
	kind, err := jsontext.Check(text)
	if sameGrammar(text) {
		require.Equal(t, json.Valid(text), err == nil, "%q: %v", text, err)
	}
	members, scanned, scanErr := jsontext.Scan(nil, text)
	require.Equal(t, err, scanErr)
	require.Equal(t, kind, scanned)
	if err == nil && kind != jsontext.Object {
		require.Empty(t, members)
	}
	for _, m := range members {
		inner, err := jsontext.Check(m.Raw)
		require.NoError(t, err)
		require.Equal(t, m.Kind, inner)
	}
	if err == nil && kind == jsontext.Number {
		_, err := strconv.ParseFloat(strings.Trim(string(text), " \t\r\n"), 64)
		require.NoError(t, err)
	}
}

func TestMessagesHaveSoManyMembers(t *testing.T) {
	object := func(n int) []byte { return []byte("{" + strings.TrimSuffix(strings.Repeat(`"":0,`, n), ",") + "}") }
	members, _, err := jsontext.ScanMessage(nil, object(jsontext.MaxMembers))
	require.NoError(t, err)
	require.Len(t, members, jsontext.MaxMembers)
	more := object(4 * jsontext.MaxMembers)
	members, _, err = jsontext.Scan(nil, more)
	require.NoError(t, err, "a document may have more")
	require.Len(t, members, 4*jsontext.MaxMembers)
	_, _, err = jsontext.ScanMessage(nil, more)
	require.ErrorContains(t, err, "more than 16384 members")
	_, _, _, err = jsontext.ScanPrefix(nil, more)
	require.ErrorContains(t, err, "more than 16384 members")
	require.Len(t, jsontext.AppendMembers(nil, more), jsontext.MaxMembers+1)
}
