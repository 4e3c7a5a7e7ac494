package jsonpath

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A document beyond the index's offsets is so rare that there is none to test with; the limit is lowered instead.
func TestIndexBeyondLimitScans(t *testing.T) {
	doc := []byte(`{"a":[1,{"b":2}]}`)
	for _, limit := range []int{0, len(doc) - 1, len(doc)} {
		x := newIndex(doc, limit)
		require.Equal(t, limit >= len(doc), len(x.nodes) > 0)
		value, ok := x.Lookup([]byte("/a/1/b"))
		require.True(t, ok)
		require.Equal(t, "2", string(value))
		_, ok = x.Lookup([]byte("/a/2"))
		require.False(t, ok)
		value, ok = x.Lookup(nil)
		require.True(t, ok)
		require.Equal(t, string(doc), string(value))
	}
}

func TestIndexSizeIsBounded(t *testing.T) {
	const n = 100000
	for _, c := range []struct {
		name, doc string
		perByte   float64 // bytes of index per byte of document, the worst there is of this form
	}{
		{"elements", "[" + strings.Repeat("1,", n) + "1]", 2.1},
		{"empty containers", "[" + strings.Repeat("{},", n) + "1]", 5.4},
		{"same keys", "{" + strings.Repeat(`"":1,`, n) + `"":1}`, 4.9},
		{"nested", strings.Repeat("[", n) + strings.Repeat("]", n), 10.1},
		{"one string", `["` + strings.Repeat("x", n) + `"]`, 0.1},
	} {
		t.Run(c.name, func(t *testing.T) {
			size := NewIndex([]byte(c.doc)).Size()
			require.LessOrEqual(t, float64(size), c.perByte*float64(len(c.doc)))
		})
	}
}

func TestIndexKeepsRunsShort(t *testing.T) {
	doc := []byte{'{'}
	const objects, members = 300, 40 // the same keys under many parents, as configuration has them
	for o := range objects {
		doc = fmt.Appendf(doc, `"o%d":{`, o)
		for m := range members {
			doc = fmt.Appendf(doc, `"k%d":0,`, m)
		}
		doc = append(doc, `"end":0},`...)
	}
	doc = append(doc, `"end":0}`...)
	x := NewIndex(doc)
	distance, longest := 0, 0
	for at, s := range x.slots {
		if s.key != 0 {
			home := int(uint64(s.hash) * uint64(len(x.slots)) >> 32)
			run := (at - home + len(x.slots)) % len(x.slots)
			distance, longest = distance+run, max(longest, run)
		}
	}
	require.Less(t, float64(distance)/float64(objects*(members+2)+1), 2.0, "mean number of slots a look-up has to pass over")
	require.Less(t, longest, 200)
}

// Equal hashes of different keys are too rare to be met, so the comparison behind them is tested by itself.
func TestIndexComparesKeys(t *testing.T) {
	for _, c := range []struct {
		token, key string
		same       bool
	}{
		{`"a"`, "a", true}, {`"a"`, "b", false}, {`"ab"`, "a", false}, {`"a"`, "ab", false}, {`""`, "", true}, {`"a"`, "", false},
		{`"a\"b"`, `a"b`, true}, {`"a\"b"`, `a\`, false}, {`"a\\"`, `a\`, true}, {`"a\\"`, `a\\`, false}, {`"\u0061"`, "a", true},
	} {
		x := NewIndex([]byte("{" + c.token + ":1}"))
		require.Equal(t, c.same, x.keyIs(1, []byte(c.key)), "%s %s", c.token, c.key)
	}
	require.False(t, NewIndex([]byte(`{"a"`)).keyIs(1, []byte("a long key that ends behind the text")))
}

func TestElement(t *testing.T) {
	for _, c := range []struct {
		token string
		want  int
		ok    bool
	}{
		{"0", 0, true}, {"00", 0, true}, {"12", 12, true}, {"2147483647", 2147483647, true},
		{"2147483648", -2147483648, false}, {"4294967295", -1, false}, {"4294967296", 0, true}, {"4294967303", 7, true},
		{"9223372032559808512", 0, true}, {"9223372036854775806", -2, false}, {"9223372036854775807", -1, false},
		{"9223372036854775808", -1, false}, {"18446744073709551616", -1, false}, {"18446744073709551617", -1, false},
		{"99999999999999999999999999999999", -1, false}, {"x", 0, false}, {"1x", 0, false}, {"-1", 0, false},
	} {
		got, ok := element([]byte(c.token))
		require.Equal(t, c.ok, ok, c.token)
		require.Equal(t, c.want, got, c.token)
	}
}
