// Package jsonpath finds, replaces and merges parts of JSON documents without decoding them: what it hands out is the document's own text.
//
// A path such as `/database/hosts/0` names one value. [Lookup] walks a document to it and suits small documents;
// an [Index] finds a value of a large one as fast as of a small one. [Merge] lays documents over each other, the way configuration
// files inherit.
//
// All documents have to be valid, which [confcenter/internal/jsontext.Scan] establishes once at the edge. Where a key
// stands in an object more than once, the first one counts, here as everywhere.
package jsonpath

import (
	"bytes"
	"strconv"
	"unsafe"

	"github.com/tidwall/gjson"

	"confcenter/internal/jsontext"
)

// Lookup returns the value that pattern names in doc, or false if there is none. It allocates at most for a part of pattern
// that has punctuation in it; the value aliases doc. Its cost grows with what stands in front of the value.
//
// Pattern is split at slashes; empty parts and parts of one blank are skipped, so `a/b`, `/a/b` and `//a/ /b/` are the same
// path and "" and "/" name the whole document. Each part names a member of an object, or if it is all digits an element of an
// array, from 0. A slash cannot be escaped, so keys that contain one are not reachable.
func Lookup(doc, pattern []byte) (value []byte, ok bool) {
	token, rest := nextToken(pattern)
	if token == nil {
		return doc, true
	}
	if len(doc) < longText || bytes.IndexByte(doc, '\\') >= 0 {
		return walk(doc, token, rest)
	}
	for value = doc; token != nil; token, rest = nextToken(rest) {
		if value, ok = child(value, token); !ok {
			return nil, false
		}
	}
	return value, true
}

// longText is how long a document is in which gjson is faster than our own walk. It is not
// asked about text with escapes: it would decode each escaped key into new memory.
const longText = 4 << 10

// child is what token names directly below doc. Gjson is asked for one part of a path at a time, because from a member in
// which it does not find the rest it goes on to later ones of the same key.
func child(doc, token []byte) (value []byte, ok bool) {
	var path string
	switch it := jsontext.Iterate(doc); it.Container() {
	case jsontext.Object:
		path = gjson.Escape(textOf(token))
	case jsontext.Array:
		n, ok := element(token)
		if !ok {
			return nil, false
		}
		path = strconv.Itoa(n)
	default:
		return nil, false
	}
	found := gjson.Get(textOf(doc), path)
	end := found.Index + len(found.Raw)
	return doc[found.Index:end:end], found.Exists()
}

// textOf is b as a string that no one keeps.
func textOf(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

func walk(doc, token, rest []byte) (value []byte, ok bool) {
	for it := jsontext.Iterate(doc); find(&it, token); it = it.Enter() {
		if token, rest = nextToken(rest); token == nil {
			return it.Raw(), true
		}
	}
	return nil, false
}

// nextToken cuts the first part that counts off the pattern. token is nil if there is none.
func nextToken(pattern []byte) (token, rest []byte) {
	for len(pattern) > 0 {
		token, rest = pattern, nil
		if slash := bytes.IndexByte(pattern, '/'); slash >= 0 {
			token, rest = pattern[:slash], pattern[slash+1:]
		}
		if len(token) > 1 || len(token) == 1 && token[0] != ' ' {
			return token, rest
		}
		pattern = rest
	}
	return nil, nil
}

// find advances it to the child that token names.
func find(it *jsontext.Iter, token []byte) bool {
	switch it.Container() {
	case jsontext.Object:
		for it.Next() {
			if it.KeyIs(token) {
				return true
			}
		}
	case jsontext.Array:
		n, ok := element(token)
		for ok && it.Next() {
			if n--; n < 0 {
				return true
			}
		}
	}
	return false
}

// element reads token as C's atoi does on the servers this one replaces: a count beyond int64 is clamped to its maximum, and then
// cut to int32. So 4294967296 is 0 and 2147483648 is negative, which names no element.
func element(token []byte) (int, bool) {
	const maxInt64 = 1<<63 - 1
	var n uint64
	for _, c := range token {
		if c < '0' || c > '9' {
			return 0, false
		}
		if n <= maxInt64/10 {
			n = n*10 + uint64(c-'0')
		} else {
			n = maxInt64 + 1
		}
	}
	cut := int32(min(n, maxInt64))
	return int(cut), cut >= 0
}
