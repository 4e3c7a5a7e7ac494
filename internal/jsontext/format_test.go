package jsontext_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/internal/jsontext"
)

func TestAppendCompact(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"scalar", " \t\r\n1.50 \n", `1.50`},
		{"blanks in strings stay", `{ "a b" : " x\"  y " , "c":[ 1 , 2 ] }`, `{"a b":" x\"  y ","c":[1,2]}`},
		{"numbers and escapes as they were", `[ 1e+02, -0.0, "\u0041\/", 18446744073709551616 ]`, `[1e+02,-0.0,"\u0041\/",18446744073709551616]`},
		{"empty containers", "[ { } , [ ] ]", `[{},[]]`},
		{"backslash at the end of a string", `[ "\\" , "\"" ]`, `["\\","\""]`},
		{"already compact", `{"a":[1,{"b":null}]}`, `{"a":[1,{"b":null}]}`},
		{"not UTF-8", "[ \"\xff \" ]", "[\"\xff \"]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, "before "+c.want, string(jsontext.AppendCompact([]byte("before "), []byte(c.text))))
			inPlace := []byte(c.text)
			require.Equal(t, c.want, string(jsontext.AppendCompact(inPlace[:0], inPlace)))
		})
	}
}

func TestAppendIndent(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"scalar", ` "x" `, `"x"`},
		{"empty object", `{ }`, `{}`},
		{"empty array", `[ ]`, `[]`},
		{"object", `{"a":1,"b":{"c":[],"d":{}}}`, "{\n    \"a\": 1,\n    \"b\": {\n        \"c\": [],\n        \"d\": {}\n    }\n}"},
		{"array", "[1,\n\n[2, \"a, b: {}\"]]", "[\n    1,\n    [\n        2,\n        \"a, b: {}\"\n    ]\n]"},
		{"escapes as they were", `{"\u0041":"\"\\"}`, "{\n    \"\\u0041\": \"\\\"\\\\\"\n}"},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, "before "+c.want, string(jsontext.AppendIndent([]byte("before "), []byte(c.text), "    ")))
			require.Equal(t, len(c.want), jsontext.IndentLen([]byte(c.text), "    "))
		})
	}
	require.Equal(t, "[\n\t1\n]", string(jsontext.AppendIndent(nil, []byte(`[1]`), "\t")))
}

// Four megabytes of text can ask for gigabytes of blanks; IndentLen has to say so without making them.
func TestIndentLenOfDeepText(t *testing.T) {
	const elements = 1000000
	text := []byte(strings.Repeat("[", jsontext.MaxDepth) + strings.Repeat("1,", elements) + "1" + strings.Repeat("]", jsontext.MaxDepth))
	require.Greater(t, jsontext.IndentLen(text, "    "), elements*4*jsontext.MaxDepth)
}

func TestQuote(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"empty", "", `""`},
		{"plain", "abc", `"abc"`},
		{"quote and backslash", `a"b\c`, `"a\"b\\c"`},
		{"short escapes", "\b\f\n\r\t", `"\b\f\n\r\t"`},
		{"control characters", "\x00\x01\x0b\x1f", `"\u0000\u0001\u000B\u001F"`},
		{"not escaped", "/<>&'\x7f\u2028", "\"/<>&'\x7f\u2028\""},
		{"UTF-8", "äöü 😀", `"äöü 😀"`},
		{"not UTF-8", "a\xffb\xc3", "\"a\xffb\xc3\""},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, "x"+c.want, string(jsontext.AppendQuote([]byte("x"), c.text)))
			require.Equal(t, c.want, string(jsontext.AppendQuote(nil, []byte(c.text))))
			require.Equal(t, c.text, string(jsontext.Unquote([]byte(c.want))))
		})
	}
}

func TestUnquote(t *testing.T) {
	for _, c := range []struct{ name, raw, want string }{
		{"empty", `""`, ""},
		{"plain", `"abc"`, "abc"},
		{"every short escape", `"\"\\\/\b\f\n\r\t"`, "\"\\/\b\f\n\r\t"},
		{"one byte", `"\u0041\u0000"`, "A\x00"},
		{"two bytes", `"\u00e9"`, "é"},
		{"three bytes", `"\uABCD\uabcd"`, "\uabcd\uabcd"},
		{"surrogate pair", `"x\uD83D\uDE00y"`, "x😀y"},
		{"largest rune", `"\uDBFF\uDFFF"`, "\U0010FFFF"},
		{"escape at both ends", `"\nabc\n"`, "\nabc\n"},
		{"not UTF-8", "\"\xff\\n\"", "\xff\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			raw := []byte(c.raw)
			require.Equal(t, c.want, string(jsontext.Unquote(raw)))
			require.Equal(t, "x"+c.want, string(jsontext.AppendUnquote([]byte("x"), raw)))
			require.True(t, jsontext.UnquotedEqual(raw, []byte(c.want)))
			require.False(t, jsontext.UnquotedEqual(raw, []byte(c.want+"x")))
			require.False(t, jsontext.UnquotedEqual(raw, append([]byte("x"), c.want...)))
			if c.want != "" {
				require.False(t, jsontext.UnquotedEqual(raw, []byte(c.want[:len(c.want)-1])))
			}
			require.Equal(t, c.raw, string(raw))
			require.Equal(t, c.want, string(jsontext.AppendUnquote(raw[:0], raw)), "in place")
		})
	}
}

func TestUnquoteAliases(t *testing.T) {
	raw := []byte(`"abc"`)
	plain := jsontext.Unquote(raw)
	require.True(t, &plain[0] == &raw[1], "a plain string is not copied")
	require.Equal(t, 3, cap(plain), "and cannot grow over its quote")
}

func TestUnquotedEqualKeepsRawAndDecodedApart(t *testing.T) {
	require.False(t, jsontext.UnquotedEqual([]byte(`"\\"`), []byte(`\\`)))
	require.True(t, jsontext.UnquotedEqual([]byte(`"\\"`), []byte(`\`)))
	require.False(t, jsontext.UnquotedEqual([]byte(`"a\""`), []byte(`a\`)))
	require.False(t, jsontext.UnquotedEqual([]byte(`"\u0061"`), []byte(`\u0061`)))
	require.False(t, jsontext.UnquotedEqual([]byte(`"abcdef"`), []byte(`abc`)))
}

func TestInt32(t *testing.T) {
	for _, c := range []struct {
		raw  string
		want int32
		ok   bool
	}{
		{"0", 0, true}, {"-0", 0, true}, {"7", 7, true}, {"-7", -7, true},
		{"2147483647", 2147483647, true}, {"-2147483648", -2147483648, true},
		{"2147483648", 0, false}, {"-2147483649", 0, false}, {"9999999999", 0, false},
		{"15012341234", 0, false}, {"18446744073709551617", 0, false}, {"3000000000", 0, false},
		{"1.0", 0, false}, {"1e3", 0, false}, {"1E0", 0, false}, {`"1"`, 0, false}, {"true", 0, false}, {"null", 0, false},
		{"", 0, false}, {"-", 0, false}, {"+1", 0, false}, {"01", 0, false}, {"-01", 0, false}, {"[1]", 0, false}, {" 1", 0, false},
	} {
		got, ok := jsontext.Int32([]byte(c.raw))
		require.Equal(t, c.ok, ok, c.raw)
		require.Equal(t, c.want, got, c.raw)
	}
}

func TestEach(t *testing.T) {
	object, array := []byte(" { \"a\" : [1, 2] , \"\\u0062\":\"x\",\n\"a\":{\"c\" : 1 } } "), []byte(" [ 1 , {\"a\":[2]} ,\"]\" ] ")
	var got []string
	member := func(key, raw []byte, kind jsontext.Kind) bool {
		got = append(got, string(key)+"="+string(raw)+":"+kind.String())
		return len(got) < 3
	}
	element := func(raw []byte, kind jsontext.Kind) bool {
		got = append(got, string(raw)+":"+kind.String())
		return len(got) < 3
	}
	jsontext.EachMember(object, member)
	require.Equal(t, []string{"a=[1, 2]:array", `b="x":string`, `a={"c" : 1 }:object`}, got)
	got = nil
	jsontext.EachElement(array, element)
	require.Equal(t, []string{"1:number", `{"a":[2]}:object`, `"]":string`}, got)

	got = []string{"", ""}
	jsontext.EachMember(object, member)
	require.Len(t, got, 3, "false ends the walk")
	got = []string{"", ""}
	jsontext.EachElement(array, element)
	require.Len(t, got, 3, "false ends the walk")

	got = nil
	for _, other := range []string{"", " ", "1", `"x"`, "null", "[]", "[1]"} {
		jsontext.EachMember([]byte(other), member)
	}
	for _, other := range []string{"", " ", "1", `"x"`, "null", "{}", `{"a":1}`} {
		jsontext.EachElement([]byte(other), element)
	}
	require.Empty(t, got, "no other kind has members or elements")
}

func TestIterEnter(t *testing.T) {
	text := []byte(`{"skip":{"a":[1,2,{}]},"x" : { "y" : [ 10 , [ 20 ] ] }, "z":3}`)
	it := jsontext.Iterate(text)
	require.Equal(t, jsontext.Object, it.Container())
	require.True(t, it.Next())
	require.False(t, it.KeyIs([]byte("x")))
	require.True(t, it.Next())
	require.True(t, it.KeyIs([]byte("x")))
	require.Equal(t, `"x"`, string(it.KeyToken()))

	inner := it.Enter()
	require.True(t, inner.Next())
	require.Equal(t, "y", string(inner.Key()))
	require.Equal(t, bytes.Index(text, []byte("[ 10")), inner.Offset())
	elements := inner.Enter()
	require.Equal(t, jsontext.Array, elements.Container())
	require.True(t, elements.Next())
	require.Equal(t, jsontext.Number, elements.Kind())
	scalar := elements.Enter()
	require.Equal(t, jsontext.Invalid, scalar.Container())
	require.False(t, scalar.Next())
	require.True(t, elements.Next())
	require.Equal(t, "[ 20 ]", string(elements.Raw()))
	require.False(t, elements.Next())
	require.False(t, elements.Next(), "the end stays the end")
	require.False(t, inner.Next())

	it.SetEnd(bytes.Index(text, []byte(`, "z"`)))
	require.Equal(t, `{ "y" : [ 10 , [ 20 ] ] }`, string(it.Raw()))
	require.True(t, it.Next(), "what was entered is stepped over on the way on")
	require.Equal(t, "z", string(it.Key()))
	require.False(t, it.Next())
}
