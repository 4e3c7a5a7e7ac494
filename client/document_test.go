package client

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/internal/clock"
	"confcenter/internal/clock/clocktest"
)

func document(raw string) *Document {
	return &Document{Name: "a.json", Mtime: 7, raw: []byte(raw), clock: clock.Real()}
}

func TestGetters(t *testing.T) {
	d := document(`{"s":"a\u00e4\n","i":-12,"big":9223372036854775807,"huge":92233720368547758070,"f":1.50,"e":1e3,"t":true,"n":null,` +
		`"d":"1m30s","o":{"x":[10,{"y":"deep"}]},"":1}`)
	for _, tc := range []struct {
		about     string
		got, want any
	}{
		{"string", d.String("/s", "-"), "aä\n"},
		{"string of a number keeps its text", d.String("/f", "-"), "1.50"},
		{"string of a huge number", d.String("huge", "-"), "92233720368547758070"},
		{"string of a bool", d.String("/t", "-"), "true"},
		{"string of null", d.String("/n", "-"), "-"},
		{"string of an object", d.String("/o", "-"), "-"},
		{"string of nothing", d.String("/x", "-"), "-"},
		{"string below", d.String("/o/x/1/y", "-"), "deep"},
		{"int", d.Int("/i", 5), -12},
		{"int of a fraction", d.Int("/f", 5), 5},
		{"int of an exponent", d.Int("/e", 5), 5},
		{"int of a string", d.Int("/s", 5), 5},
		{"int of nothing", d.Int("/x", 5), 5},
		{"int in an array", d.Int("/o/x/0", 5), 10},
		{"int64", d.Int64("/big", 5), int64(9223372036854775807)},
		{"int64 that does not fit", d.Int64("/huge", 5), int64(5)},
		{"float", d.Float("/f", 5), 1.5},
		{"float of an exponent", d.Float("/e", 5), 1000.0},
		{"float of an int", d.Float("/i", 5), -12.0},
		{"float of a bool", d.Float("/t", 5), 5.0},
		{"bool", d.Bool("/t", false), true},
		{"bool of a string", d.Bool("/s", true), true},
		{"bool of nothing", d.Bool("/x", true), true},
		{"duration", d.Duration("/d", 5), 90 * time.Second},
		{"duration of a number", d.Duration("/i", 5), time.Duration(5)},
		{"duration of another string", d.Duration("/s", 5), time.Duration(5)},
		{"duration of nothing", d.Duration("/x", 5), time.Duration(5)},
	} {
		require.Equal(t, tc.want, tc.got, tc.about)
	}
}

func TestGettersOfNothing(t *testing.T) {
	d := &Document{Name: "a.json"}
	require.False(t, d.Exists())
	require.Nil(t, d.Raw())
	require.Equal(t, "x", d.String("", "x"))
	require.Equal(t, 1, d.Int("/a", 1))
	require.ErrorIs(t, d.Decode("/a", new(int)), codes.NotFound)
}

func TestDecode(t *testing.T) {
	d := document(`{"list":[1,2],"any":{"n":1.50},"self":{"Raw":{"k": 1}}}`)
	var list []int
	require.NoError(t, d.Decode("/list", &list))
	require.Equal(t, []int{1, 2}, list)
	var any map[string]any
	require.NoError(t, d.Decode("any", &any))
	require.Equal(t, json.Number("1.50"), any["n"], "numbers keep their text")
	var self struct{ Raw json.RawMessage }
	require.NoError(t, d.Decode("/self", &self))

	err := d.Decode("/list", new(string))
	require.ErrorIs(t, err, codes.BadRequest)
	require.ErrorContains(t, err, "a.json/list")
	err = d.Decode("/x", &list)
	require.ErrorIs(t, err, codes.NotFound)
	require.ErrorContains(t, err, "/x in a.json")
}

// A large document is looked up through an index, from any number of goroutines.
func TestLargeDocument(t *testing.T) {
	var b strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&b, `,"k%d":{"v":%d}`, i, i)
	}
	d := document("{" + b.String()[1:] + "}")
	require.Greater(t, len(d.Raw()), indexFrom)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := g; i < 5000; i += 7 {
				if d.Int(fmt.Sprintf("/k%d/v", i), -1) != i {
					t.Errorf("k%d", i)
				}
			}
		})
	}
	wg.Wait()
	require.NotNil(t, d.index)
}

func TestAge(t *testing.T) {
	fake := clocktest.NewFake(time.Unix(1000, 0))
	d := &Document{stored: fake.Now(), clock: fake}
	fake.Advance(time.Minute)
	require.Equal(t, time.Minute, d.Age())
	d.stored = fake.Now().Add(time.Hour) // another machine's clock
	require.Zero(t, d.Age())
}
