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

	"confcenter/internal/jsontext"
)

// Lookup returns the value that pattern names in doc, or false if there is none. It allocates nothing; the value aliases
// doc. Its cost grows with what stands in front of the value.
//
// Pattern is split at slashes; empty parts and parts of one blank are skipped, so `a/b`, `/a/b` and `//a/ /b/` are the same
// path and "" and "/" name the whole document. Each part names a member of an object, or if it is all digits an element of an
// array, from 0. A slash cannot be escaped, so keys that contain one are not reachable.
func Lookup(doc, pattern []byte) (value []byte, ok bool) {
	token, rest := nextToken(pattern)
	if token == nil {
		return doc, true
	}
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
