package jsontext_test

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"confcenter/internal/jsontext"
)

func TestScanPrefix(t *testing.T) {
	for text, want := range map[string]struct {
		kind  jsontext.Kind
		value string
		names int
	}{
		`{}`:                                 {jsontext.Object, `{}`, 0},
		` {"a":1}abc`:                        {jsontext.Object, ` {"a":1}`, 1},
		"{\"a\":1,\"b\":{\"c\":2}}\x00\xff{": {jsontext.Object, `{"a":1,"b":{"c":2}}`, 2},
		`{"a":"}"} `:                         {jsontext.Object, `{"a":"}"}`, 1},
		`[1]]`:                               {jsontext.Array, `[1]`, 0},
		`"a""b"`:                             {jsontext.String, `"a"`, 0},
		`truex`:                              {jsontext.Bool, `true`, 0},
		`12a`:                                {jsontext.Number, `12`, 0},
	} {
		members, kind, end, err := jsontext.ScanPrefix(nil, []byte(text))
		require.NoError(t, err, text)
		require.Equal(t, want.kind, kind, text)
		require.Equal(t, want.value, text[:end])
		require.Len(t, members, want.names, text)
	}
}

// What is not JSON is refused as Scan does, and what was in dst stays there.
func TestScanPrefixRefuses(t *testing.T) {
	before := []jsontext.Member{{Key: []byte("kept")}}
	for _, text := range []string{``, ` `, `{`, `{"a":1`, `{"a":1,}`, "{\"a\x00\":1}", `}`, `abc{}`, strings.Repeat("[", jsontext.MaxDepth+1)} {
		members, kind, end, err := jsontext.ScanPrefix(before, []byte(text))
		_, _, want := jsontext.Scan(nil, []byte(text))
		require.Equal(t, want, err, text)
		require.Error(t, err, text)
		require.Equal(t, jsontext.Invalid, kind)
		require.Zero(t, end)
		require.Equal(t, before, members)
	}
}

// Whatever follows an object, it is read as if it stood alone.
func TestScanPrefixIsScanOfThePrefix(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text, tail := drawText(t), rapid.SliceOf(rapid.Byte()).Draw(t, "tail")
		want, wantKind, err := jsontext.Scan(nil, text)
		require.NoError(t, err)
		if wantKind < jsontext.String {
			tail = nil // would continue a number or a word
		}
		got, kind, end, err := jsontext.ScanPrefix(nil, append(append([]byte(nil), text...), tail...))
		require.NoError(t, err)
		require.Equal(t, wantKind, kind)
		require.Equal(t, strings.TrimRight(string(text), " \t\r\n"), string(text[:end]))
		require.Equal(t, want, got)
		require.Equal(t, want, jsontext.AppendMembers(nil, text))
	})
}

func TestDepth(t *testing.T) {
	for text, want := range map[string]int{`1`: 0, `"[[["`: 0, `[]`: 1, `{"a":[1,{}],"b":"\"{"}`: 3, `[[],[[]],[]]`: 3} {
		require.Equal(t, want, jsontext.Depth([]byte(text)), text)
	}
}

func TestInt64(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "-0": 0, "7": 7, "-1": -1, "9223372036854775807": math.MaxInt64, "-9223372036854775808": math.MinInt64, "2147483648": 1 << 31,
	} {
		got, ok := jsontext.Int64([]byte(text))
		require.True(t, ok, text)
		require.Equal(t, want, got)
	}
	for _, text := range []string{"", "-", "+1", "01", "-01", "1.0", "1e3", " 1", "1 ", "9223372036854775808", "-9223372036854775809", "18446744073709551617", "99999999999999999999", "0x1", "a"} {
		_, ok := jsontext.Int64([]byte(text))
		require.False(t, ok, text)
	}
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64().Draw(t, "n")
		got, ok := jsontext.Int64(strconv.AppendInt(nil, n, 10))
		require.True(t, ok)
		require.Equal(t, n, got)
	})
}

// FuzzScanPrefix holds ScanPrefix against Scan on any bytes: the prefix it finds is
// a value of its own, and a text that is one value is found whole.
func FuzzScanPrefix(f *testing.F) {
	for _, s := range append(seeds, `{"raw":3}abc`, "{}\x00", `{"a":[1]}{"b":2}`) {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		members, kind, end, err := jsontext.ScanPrefix(nil, text)
		whole, wholeKind, wholeErr := jsontext.Scan(nil, text)
		if err != nil {
			require.Equal(t, wholeErr, err)
			return
		}
		if wholeErr == nil {
			require.Equal(t, whole, members)
			require.Equal(t, wholeKind, kind)
			require.Empty(t, strings.Trim(string(text[end:]), " \t\r\n"))
		}
		again, againKind, err := jsontext.Scan(nil, text[:end])
		require.NoError(t, err)
		require.Equal(t, againKind, kind)
		require.Equal(t, again, members)
		require.Equal(t, members, jsontext.AppendMembers(nil, text[:end]))
		require.GreaterOrEqual(t, jsontext.Depth(text[:end]), 0)
	})
}
