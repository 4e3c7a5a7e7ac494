package jsontext_test

import (
	"bytes"
	"encoding/json"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"confcenter/internal/jsontext"
)

func TestReadable(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"Chinese", `{"\u914d\u7f6E":"\u914D x"}`, `{"配置":"配 x"}`},
		{"pairs", `"\ud83d\ude00\uD83D\uDE00"`, `"😀😀"`},
		{"letters", `"\u0041\u00e9\u00df"`, `"Aéß"`},
		{"quote and backslash", `"\u0022\u005c\"\\u914d"`, `"\u0022\u005c\"\\u914d"`},
		{"control characters", `"\u0000\u000a\u001f\u007f\u0080\u009F"`, `"\u0000\u000a\u001f\u007f\u0080\u009F"`},
		{"short escapes", `"\n\t\b\f\r\/"`, `"\n\t\b\f\r\/"`},
		{"line ends and marks", `"\u2028\u2029\uFEFF\u200b"`, `"\u2028\u2029\uFEFF\u200b"`},
		{"joiners", `"\ud83d\udc69\u200d\ud83d\udcbb \u0645\u06cc\u200c"`, "\"👩\u200d💻 می\u200c\""},
		{"bidirectional", `"\u061c\u200e\u200f\u202a\u202E\u2066\u2069"`, `"\u061c\u200e\u200f\u202a\u202E\u2066\u2069"`},
		{"no characters", `"\uffff\ud83f\udfff\ue000"`, `"\uffff\ud83f\udfff\ue000"`},
		{"half pairs", `"\ud800 \udc00 \ud800\ud800 \ud800A"`, `"\ud800 \udc00 \ud800\ud800 \ud800A"`},
		{"half pair in front of a character", `"\ud800\u914d"`, `"\ud800配"`},
		{"broken", `"\u12`, `"\u12`},
		{"broken short", `"\`, `"\`},
		{"numbers and blanks", " [ 1.50, 1e5 ]\n", " [ 1.50, 1e5 ]\n"},
		{"what is there stays", "\"\u202e\u2028\x7f\"", "\"\u202e\u2028\x7f\""},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := []byte(c.text)
			require.Equal(t, "x"+c.want, string(jsontext.AppendReadable([]byte("x"), text)))
			require.Equal(t, c.want, string(jsontext.AppendReadable(text[:0], text)), "in place")
		})
	}
}

func TestReadableKeysAreFoundAsBefore(t *testing.T) {
	text := []byte(`{"a":1,"\u0061":2,"\u914d":3,"配":4}`)
	for _, text := range [][]byte{text, jsontext.AppendReadable(nil, text)} {
		members, _, err := jsontext.Scan(nil, text)
		require.NoError(t, err)
		require.Len(t, members, 4)
		for key, want := range map[string]string{"a": "1", "配": "3"} {
			m, _ := jsontext.Find(members, key)
			require.Equal(t, want, string(m.Raw), "the first of equal keys")
		}
	}
}

// FuzzReadable: what is readable stands for the same.
func FuzzReadable(f *testing.F) {
	for _, s := range append(seeds, `{"\u914d":"\u0022\u005c\u2028\ufeff","\\u914d":1.50}`, `"\ud800\ud800\udc00\u"`, "\"\xe9\\u00e9\\u9\"") {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		readable := jsontext.AppendReadable(nil, text)
		require.LessOrEqual(t, len(readable), len(text))
		_, wrong := jsontext.Check(text)
		_, err := jsontext.Check(readable)
		if wrong != nil {
			return
		}
		require.NoError(t, err)
		require.Equal(t, string(readable), string(jsontext.AppendReadable(nil, readable)), "once is enough")
		require.Equal(t, string(readable), string(jsontext.AppendReadable(nil, bytes.Clone(text))))
		require.Equal(t, decoded(t, text), decoded(t, readable))
		_, err = jsontext.CheckUTF8(readable)
		require.Equal(t, utf8.Valid(text), err == nil)
	})
}

// decoded is text as the standard library understands it, numbers as they are.
func decoded(t *testing.T, text []byte) (v any) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	require.NoError(t, d.Decode(&v))
	return v
}

func TestCheckUTF8(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"ASCII", `{"a":1}`, ""},
		{"UTF-8", `{"配":"😀"}`, ""},
		{"in a string", "{\"a\":\"é\xff\"}", "offset 8: byte 0xFF at offset 8 is not UTF-8, save the text as UTF-8"},
		{"in a key", "{\"\xe4\":1}", "offset 2: byte 0xE4 at offset 2 is not UTF-8, save the text as UTF-8"},
		{"half a pair in UTF-8", "\"\xed\xa0\x80\"", "offset 1: byte 0xED at offset 1 is not UTF-8, save the text as UTF-8"},
		{"no JSON either", "{\"\xff\"", "offset 4: text ends too early"},
	} {
		t.Run(c.name, func(t *testing.T) {
			kind, err := jsontext.CheckUTF8([]byte(c.text))
			if c.want == "" {
				require.NoError(t, err)
				require.Equal(t, jsontext.Object, kind)
				return
			}
			require.EqualError(t, err, c.want)
		})
	}
}
