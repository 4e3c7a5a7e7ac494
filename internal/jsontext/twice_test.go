package jsontext_test

import (
	"encoding/json" // a reader that is not ours
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"confcenter/internal/jsontext"
)

func TestTwiceFindsWhatReadersDisagreeOn(t *testing.T) {
	long := &strings.Builder{}
	for i := range 100 {
		fmt.Fprintf(long, `"k%d":%d,`, i, i)
	}
	for _, marked := range []string{ // at the second of them
		`{"a":1,"x":0,^"a":2}`, `{"a":1,^"\u0061":2}`, `{"\u0061":1,^"a" :2}`, `{"":1,^"":2}`, `[{"b":[{"c":{"d":1 , ^"d":2}}]}]`,
		`{"a":{"a":1},"b":{"a":1,^"a":{}}}`, `{"\"":1,^"\u0022":2}`, `{"/":1,^"\/":2}`, "{\"\U0001F600\":1,^\"\\ud83d\\ude00\":2}",
		`{` + long.String() + `^"k57":1}`, `{"a":"\"a\":",^"a":{}}`, `{"a":{},"b":[{"z":1}],^"a":[]}`,
		`{"x":[` + strings.Repeat(`{"a":1},`, 50) + `{"a":1,^"a":1}]}`,
	} {
		text := strings.Replace(marked, "^", "", 1)
		_, err := jsontext.Check([]byte(text))
		require.NoError(t, err, text)
		err = jsontext.Twice([]byte(text))
		require.ErrorContains(t, err, fmt.Sprintf("offset %d: the member ", strings.Index(marked, "^")), text)
		require.ErrorContains(t, err, "stands twice")
	}
	for _, text := range []string{
		``, `1`, `"a"`, `[]`, `{}`, `[{"a":1},{"a":1}]`, `{"a":{"a":{"a":1}}}`, `{"a":1,"A":2}`, `{"a":"a","b":"a"}`, `{"a":["a","a"]}`,
		`{` + strings.TrimSuffix(long.String(), ",") + `}`, `{"e\u0301":1,"é":2}`,
	} {
		require.NoError(t, jsontext.Twice([]byte(text)), text)
	}
}

// TestTwiceAgreesWithAReader: what has nothing twice has as many keys when another reader has read it.
func TestTwiceAgreesWithAReader(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfN(rapid.SampledFrom([]string{`a`, `\u0061`, `b`, `c`, `ab`, `\u0062`, `d`, `e`, `f`, `g`, `h`, `i`, `j`, `k`}), 0, 12).Draw(t, "names")
		var text strings.Builder
		for i, name := range names {
			fmt.Fprintf(&text, `,"%s":%d`, name, i)
		}
		whole := "{" + strings.TrimPrefix(text.String(), ",") + "}"
		var read map[string]int
		require.NoError(t, json.Unmarshal([]byte(whole), &read))
		require.Equal(t, len(read) == len(names), jsontext.Twice([]byte(`[{"o":`+whole+`}]`)) == nil, whole)
	})
}

func BenchmarkTwice(b *testing.B) {
	var text strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&text, `,"key number %d":{"n":%d}`, i, i)
	}
	whole := []byte("{" + text.String()[1:] + "}")
	b.SetBytes(int64(len(whole)))
	for b.Loop() {
		if jsontext.Twice(whole) != nil {
			b.Fatal()
		}
	}
}
