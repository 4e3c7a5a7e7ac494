package jsontext_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/internal/jsontext"
)

// request is what a GETCONFIG of usual length looks like.
const request = `{"file_pattern":"app1-dev.json","key_pattern":"/database/hosts/0","gt_mtime":1712345678,"incbase":1}`

// document has a bit of everything, about 1 KB.
var document = `{"name":"app1","debug":false,"limits":{"cpu":2.50,"mem":1073741824},"text":"` + strings.Repeat("lorem ipsum ", 40) +
	`","hosts":["10.0.0.1","10.0.0.2","10.0.0.3"],"quoted":"a \"b\" \u00e9","deep":[[[{"x":[1,2,3,{"y":null}]}]]],"n":-1.5e3}`

func TestNothingIsAllocated(t *testing.T) {
	text, doc := []byte(request), []byte(document)
	members, _, err := jsontext.Scan(make([]jsontext.Member, 0, 16), text)
	require.NoError(t, err)
	scanned := make([]jsontext.Member, 0, 16)
	out := make([]byte, 0, 1<<16)
	number := []byte("1712345678")
	token, key := []byte(`"caf\u00e9 \uD83D\uDE00 and plain text behind"`), []byte("café 😀 and plain text behind")
	for name, f := range map[string]func() bool{
		"Scan":          func() bool { scanned, _, _ = jsontext.Scan(scanned[:0], text); return len(scanned) == 4 },
		"Check":         func() bool { kind, _ := jsontext.Check(doc); return kind == jsontext.Object },
		"Find":          func() bool { _, ok := jsontext.Find(members, "incbase"); return ok },
		"Compact":       func() bool { out = jsontext.AppendCompact(out[:0], doc); return len(out) == len(doc) },
		"Indent":        func() bool { out = jsontext.AppendIndent(out[:0], doc, "    "); return len(out) > len(doc) },
		"IndentLen":     func() bool { return jsontext.IndentLen(doc, "    ") > len(doc) },
		"Quote":         func() bool { out = jsontext.AppendQuote(out[:0], key); return len(out) == len(key)+2 },
		"AppendUnquote": func() bool { out = jsontext.AppendUnquote(out[:0], token); return len(out) == len(key) },
		"UnquotedEqual": func() bool { return jsontext.UnquotedEqual(token, key) },
		"Int32":         func() bool { _, ok := jsontext.Int32(number); return ok },
		"EachMember": func() bool {
			n := 0
			jsontext.EachMember(text, func(_, _ []byte, _ jsontext.Kind) bool { n++; return true })
			return n == len(members)
		},
		"Iter": func() bool {
			n := 0
			for it := jsontext.Iterate(doc); it.Next(); {
				for inner := it.Enter(); inner.Next(); n++ {
				}
			}
			return n == 6
		},
	} {
		t.Run(name, func(t *testing.T) {
			fine := true
			require.Zero(t, testing.AllocsPerRun(100, func() { fine = f() && fine }))
			require.True(t, fine)
		})
	}
}

func BenchmarkScanRequest(b *testing.B) {
	text := []byte(request)
	members := make([]jsontext.Member, 0, 16)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		members, _, _ = jsontext.Scan(members[:0], text)
	}
}

func BenchmarkCheck(b *testing.B) {
	doc := []byte(document)
	b.SetBytes(int64(len(doc)))
	b.ReportAllocs()
	for b.Loop() {
		_, _ = jsontext.Check(doc)
	}
}

func BenchmarkSkip(b *testing.B) {
	doc := []byte(document)
	b.SetBytes(int64(len(doc)))
	for b.Loop() {
		_ = jsontext.Skip(doc, 0)
	}
}

func BenchmarkCompact(b *testing.B) {
	doc := jsontext.AppendIndent(nil, []byte(document), "    ")
	out := make([]byte, 0, len(doc))
	b.SetBytes(int64(len(doc)))
	for b.Loop() {
		out = jsontext.AppendCompact(out[:0], doc)
	}
}

func BenchmarkIndent(b *testing.B) {
	doc := []byte(document)
	out := make([]byte, 0, 4*len(doc))
	b.SetBytes(int64(len(doc)))
	for b.Loop() {
		out = jsontext.AppendIndent(out[:0], doc, "    ")
	}
}
