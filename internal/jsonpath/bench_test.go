package jsonpath_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/internal/jsonpath"
	"confcenter/internal/jsontext"
)

// small is a document of usual length, 280 bytes.
const small = `{"name":"app1-dev","debug":false,"database":{"user":"app","hosts":["10.0.0.1:5432","10.0.0.2:5432"],"pool":16},` +
	`"cache":{"size":1073741824,"ttl":2.50},"features":["search","export"],"text":"lorem ipsum dolor sit amet, consectetur",` +
	`"limits":{"cpu":4,"mem":"8Gi","files":1024},"region":"eu-1"}`

// large returns a document of about 1 MB and 12,000 paths into it, in an order in which neighbours do not follow each other.
func large() (doc []byte, paths [][]byte) {
	const sections, members = 100, 100
	text := []byte{'{'}
	for s := range sections {
		text = fmt.Appendf(text, `"section-%d":{`, s)
		for m := range members {
			text = fmt.Appendf(text, `"member-%d":{"value":"%s","n":%d},`, m, strings.Repeat("x", 60), s*m)
			paths = append(paths, fmt.Appendf(nil, "/section-%d/member-%d/value", s, m))
		}
		text = append(text, `"list":[`...)
		for e := range 20 {
			text = fmt.Appendf(text, `{"e":%d},`, e)
			paths = append(paths, fmt.Appendf(nil, "/section-%d/list/%d/e", s, e))
		}
		text = append(text, "null]},"...)
	}
	text = append(text, `"last":1}`...)
	shuffled := make([][]byte, len(paths))
	for i := range paths {
		shuffled[i] = paths[i*7919%len(paths)]
	}
	return text, shuffled
}

func TestNothingIsAllocated(t *testing.T) {
	doc, paths := large()
	x := jsonpath.NewIndex(doc)
	next := 0
	doc280, hit, miss := []byte(small), []byte("/database/hosts/1"), []byte("/database/x")
	escaped, accent := []byte(`{"\u00e9\uD83D\uDE00":1}`), []byte("/é😀")
	for name, f := range map[string]func() bool{
		"Lookup":      func() bool { _, ok := jsonpath.Lookup(doc280, hit); return ok },
		"miss":        func() bool { _, ok := jsonpath.Lookup(doc280, miss); return !ok },
		"escaped key": func() bool { _, ok := jsonpath.Lookup(escaped, accent); return ok },
		"Index": func() bool {
			next = (next + 1) % len(paths)
			_, ok := x.Lookup(paths[next])
			return ok
		},
		"Index miss": func() bool { _, ok := x.Lookup(miss); return !ok },
	} {
		t.Run(name, func(t *testing.T) {
			fine := true
			require.Zero(t, testing.AllocsPerRun(1000, func() { fine = f() && fine }))
			require.True(t, fine)
		})
	}
}

func TestLargeIndex(t *testing.T) {
	doc, paths := large()
	_, err := jsontext.Check(doc)
	require.NoError(t, err)
	require.Greater(t, len(doc), 900000)
	x := jsonpath.NewIndex(doc)
	for i, path := range paths {
		got, ok := x.Lookup(path)
		require.True(t, ok)
		if i%50 == 0 { // scanning is slow, that is what the index is for
			want, _ := jsonpath.Lookup(doc, path)
			require.Equal(t, string(want), string(got))
		}
	}
	t.Logf("%d bytes of document, %d paths, %d bytes of index", len(doc), len(paths), x.Size())
}

func BenchmarkLookupSmall(b *testing.B) {
	doc := []byte(small)
	paths := [][]byte{[]byte("/name"), []byte("/database/hosts/1"), []byte("/limits/files"), []byte("/region")}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		_, _ = jsonpath.Lookup(doc, paths[i&3])
		i++
	}
}

// BenchmarkLookupMiddle asks for a value in the middle of documents of several lengths.
func BenchmarkLookupMiddle(b *testing.B) {
	const member = `"key-%d":{"value":"0123456789 0123456789 0123456789","n":17},`
	for _, kib := range []int{1, 4, 16, 1024} {
		members := kib << 10 / 60
		doc := []byte{'{'}
		for i := range members {
			doc = fmt.Appendf(doc, member, i)
		}
		doc = append(doc, `"last":1}`...)
		path := fmt.Appendf(nil, "/key-%d/n", members/2)
		b.Run(fmt.Sprintf("%dKiB", kib), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = jsonpath.Lookup(doc, path)
			}
		})
	}
}

func BenchmarkIndexSmall(b *testing.B) {
	x := jsonpath.NewIndex([]byte(small))
	paths := [][]byte{[]byte("/name"), []byte("/database/hosts/1"), []byte("/limits/files"), []byte("/region")}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		_, _ = x.Lookup(paths[i&3])
		i++
	}
}

// BenchmarkIndexLarge asks for 12,000 different paths in turn, so the caches do not help.
func BenchmarkIndexLarge(b *testing.B) {
	doc, paths := large()
	x := jsonpath.NewIndex(doc)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		_, _ = x.Lookup(paths[i])
		if i++; i == len(paths) {
			i = 0
		}
	}
}

func BenchmarkNewIndexLarge(b *testing.B) {
	doc, _ := large()
	b.SetBytes(int64(len(doc)))
	b.ReportAllocs()
	for b.Loop() {
		_ = jsonpath.NewIndex(doc)
	}
}

func BenchmarkMerge(b *testing.B) {
	docs := [][]byte{[]byte(small), []byte(`{"debug":true,"database":{"pool":32}}`), []byte(`{"region":"us-1","extra":[1,2,3]}`)}
	for _, deep := range []bool{false, true} {
		b.Run(fmt.Sprintf("deep=%t", deep), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_ = jsonpath.Merge(docs, deep)
			}
		})
	}
}

func BenchmarkMergeLarge(b *testing.B) {
	doc, _ := large()
	docs := [][]byte{doc, []byte(`{"section-7":{"member-9":null}}`)}
	for _, deep := range []bool{false, true} {
		b.Run(fmt.Sprintf("deep=%t", deep), func(b *testing.B) {
			b.SetBytes(int64(len(doc)))
			for b.Loop() {
				_ = jsonpath.Merge(docs, deep)
			}
		})
	}
}
