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
