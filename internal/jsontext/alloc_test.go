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
	members := make([]jsontext.Member, 0, 16)
	out := make([]byte, 0, 1<<16)
	number := []byte("1712345678")
	token, key := []byte(`"caf\u00e9 \uD83D\uDE00 and plain text behind"`), []byte("café 😀 and plain text behind")
	fine := true
	for name, f := range map[string]func(){
		"Scan":      func() { members, _, _ = jsontext.Scan(members[:0], text) },
		"Check":     func() { _, _ = jsontext.Check(doc) },
		"Find":      func() { _, ok := jsontext.Find(members, "incbase"); fine = fine && ok },
		"Compact":   func() { out = jsontext.AppendCompact(out[:0], doc) },
		"Indent":    func() { out = jsontext.AppendIndent(out[:0], doc, "    ") },
		"IndentLen": func() { _ = jsontext.IndentLen(doc, "    ") },
		"Quote":     func() { out = jsontext.AppendQuote(out[:0], key) },
		"AppendUnquote": func() {
			out = jsontext.AppendUnquote(out[:0], token)
		},
		"UnquotedEqual": func() { fine = fine && jsontext.UnquotedEqual(token, key) },
		"Int32":         func() { _, ok := jsontext.Int32(number); fine = fine && ok },
		"EachMember": func() {
			n := 0
			jsontext.EachMember(text, func(key, raw []byte, kind jsontext.Kind) bool { n += len(key) + len(raw); return true })
			fine = fine && n > 0
		},
		"Iter": func() {
			for it := jsontext.Iterate(doc); it.Next(); {
				inner := it.Enter()
				for inner.Next() {
					fine = fine && inner.Kind() != jsontext.Invalid
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			require.Zero(t, testing.AllocsPerRun(100, f))
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
