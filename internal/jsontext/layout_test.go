package jsontext_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"confcenter/internal/jsontext"
)

var fourBlanks = jsontext.Layout{Newline: "\n", Indent: "    ", End: "\n"}

func TestLayoutOf(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       jsontext.Layout
	}{
		{"four blanks", "{\n    \"a\": 1\n}\n", fourBlanks},
		{"two blanks", "{\n  \"a\": 1\n}\n", jsontext.Layout{Newline: "\n", Indent: "  ", End: "\n"}},
		{"tabs, no newline at the end", "[\n\t1,\n\t2\n]", jsontext.Layout{Newline: "\n", Indent: "\t"}},
		{"no indent", "{\n\"a\": 1\n}\n", jsontext.Layout{Newline: "\n", End: "\n"}},
		{"lines of Windows", "{\r\n  \"a\": 1\r\n}\r\n", jsontext.Layout{Newline: "\r\n", Indent: "  ", End: "\r\n"}},
		{"first line at the second level", "{\"a\": {\n    \"b\": 1}}", jsontext.Layout{Newline: "\n", Indent: "  "}},
		{"blank lines", "\n{\n\n\n  \"a\": 1}\n\n", jsontext.Layout{Newline: "\n", Indent: "  ", End: "\n"}},
		{"empty containers in front", "{\"a\": [\n], \"b\": {}, \n  \"c\": 1}", jsontext.Layout{Newline: "\n", Indent: "  "}},
		{"brackets and newlines in strings", `{"[{\n   ":"]}", ` + "\n\t\"a\":1}", jsontext.Layout{Newline: "\n", Indent: "\t"}},
		{"one line", `{"a": 1}`, jsontext.Layout{}},
		{"one line with its end", "[1]\n", jsontext.Layout{End: "\n"}},
		{"nothing to see", "{}", jsontext.Layout{Newline: "\n", Indent: "    "}},
		{"nothing to see on two lines", "{\n}\n", fourBlanks},
		{"scalar", "1\r\n", jsontext.Layout{Newline: "\r\n", Indent: "    ", End: "\r\n"}},
		{"three blanks at the second level", "{\"a\": {\n   \"b\": 1}}\n", fourBlanks},
		{"far too wide", "[\n" + strings.Repeat(" ", 17) + "1]\n", fourBlanks},
		{"empty", "", jsontext.Layout{Newline: "\n", Indent: "    "}},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, jsontext.LayoutOf([]byte(c.text), fourBlanks))
		})
	}
}

// What is written in a layout has it, and says the same.
func TestLayoutIsKept(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := drawText(t)
		newline := rapid.SampledFrom([]string{"", "\n", "\r\n"}).Draw(t, "newline")
		l := jsontext.Layout{Newline: newline}
		if newline != "" {
			l.Indent = rapid.SampledFrom([]string{"", "\t", " ", "  ", "    "}).Draw(t, "indent")
		}
		if rapid.Bool().Draw(t, "end") {
			l.End = newline
			if newline == "" {
				l.End = "\n"
			}
		}
		compact := jsontext.AppendCompact(nil, text)
		written := l.Append([]byte("x"), compact)[1:]
		require.Equal(t, string(compact), string(jsontext.AppendCompact(nil, written)))
		require.Len(t, written, l.Len(compact))
		if it := jsontext.Iterate(compact); it.Next() {
			require.Equal(t, l, jsontext.LayoutOf(written, fourBlanks))
		}
	})
}

func TestAppendAlikeChangesNoMoreThanTheValue(t *testing.T) {
	for _, c := range []struct{ name, old, valid, want string }{
		{"a value", "{\n\t\"ports\": [80, 443],\n\n\t\"a\" : 1 ,\n\t\"b\":{\"x\":1, \"y\":2}}\n", `{"ports":[80,443],"a":2,"b":{"x":1,"y":2}}`,
			"{\n\t\"ports\": [80, 443],\n\n\t\"a\" : 2 ,\n\t\"b\":{\"x\":1, \"y\":2}}\n"},
		{"an element", "{\r\n  \"p\": [ 80,\r\n443 ]\r\n}", `{"p":[80,444]}`, "{\r\n  \"p\": [ 80,\r\n444 ]\r\n}"},
		{"one line", `{ "a": 1, "b": [1, 2] }` + "\n", `{"a":1,"b":[1,3]}`, `{ "a": 1, "b": [1, 3] }` + "\n"},
		{"a new member", "{\n  \"p\": [80, 443],\n  \"o\": {\"x\": 1}\n}\n", `{"p":[80,443],"n":[1,2],"o":{"x":2}}`,
			"{\n  \"p\": [80, 443],\n  \"n\": [\n    1,\n    2\n  ],\n  \"o\": {\"x\": 2}\n}\n"},
		{"another order", "{\n  \"p\": [80, 443],\n  \"a\": { }\n}", `{"a":{},"p":[80,443]}`, "{\n  \"a\": { },\n  \"p\": [80, 443]\n}"},
		{"an element more", "[\n  [1, 2],\n  [3, 4]\n]\n", `[[1,2],[3,4],[5]]`, "[\n  [1, 2],\n  [3, 4],\n  [\n    5\n  ]\n]\n"},
		{"another kind", "{\n  \"a\": [1, 2]\n}\n", `{"a":{"b":1}}`, "{\n  \"a\": {\n    \"b\": 1\n  }\n}\n"},
		{"nothing left", "{\n  \"a\": [1, 2]\n}\n", `{}`, "{}\n"},
		{"a member more on one line", `{"a": [1, 2]}`, `{"a":[1,2],"b":[3,4]}`, `{"a":[1, 2],"b":[3,4]}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := jsontext.LayoutOf([]byte(c.old), fourBlanks)
			require.Equal(t, "x"+c.want, string(l.AppendAlike([]byte("x"), []byte(c.valid), []byte(c.old))))
		})
	}
}

// Whatever stood there before, the text says what it shall.
func TestAppendAlikeSaysTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text, old := drawText(t), drawText(t)
		if rapid.Bool().Draw(t, "similar") {
			old = []byte(strings.NewReplacer("1", "2", ",", " ,\n ", "[]", "[ ]").Replace(string(text)))
			if _, err := jsontext.Check(old); err != nil {
				old = text
			}
		}
		compact := jsontext.AppendCompact(nil, text)
		l := jsontext.LayoutOf(old, fourBlanks)
		written := l.AppendAlike(nil, compact, old)
		require.Equal(t, string(compact), string(jsontext.AppendCompact(nil, written)))
		require.Equal(t, string(written), string(l.AppendAlike(nil, compact, written)), "and stays as it is")
		again := l.AppendAlike(nil, jsontext.AppendCompact(nil, old), old)
		require.Equal(t, strings.TrimSpace(string(old)), strings.TrimSpace(string(again)), "of the same nothing changes")
	})
}

func TestAppendAlikeIsBounded(t *testing.T) {
	for _, old := range []string{"[ " + strings.Repeat("1 ,", 1<<20) + "1 ]", strings.Repeat("[ ", 9) + "[ 1 , 2 ]" + strings.Repeat(" ]", 9)} {
		compact := jsontext.AppendCompact(nil, []byte(old))
		written := jsontext.Layout{}.AppendAlike(nil, compact, []byte(old))
		require.Equal(t, string(compact), string(jsontext.AppendCompact(nil, written)))
		require.NotEqual(t, old, string(written), "what would take long is laid out anew")
	}
}
