package jsonpath

import (
	"bytes"
	"fmt"
	"slices"

	"confcenter/internal/jsontext"
)

// Replace returns doc with value in the place that pattern names, read as [Lookup] reads it. All other text stays as it is. A
// member that is not there is added, with the objects on the way to it; an element of an array has to be there. doc and value
// have to be valid and are not changed.
func Replace(doc, pattern, value []byte) ([]byte, error) {
	token, rest := nextToken(pattern)
	if token == nil {
		return value, nil
	}
	it := jsontext.Iterate(doc)
	kind := it.Container()
	if find(&it, token) {
		changed, err := Replace(it.Raw(), rest, value)
		return slices.Concat(doc[:it.Offset()], changed, doc[it.Offset()+len(it.Raw()):]), err
	}
	if kind == jsontext.Array {
		return nil, fmt.Errorf("the array has no element %q", token)
	}
	if kind != jsontext.Object {
		return nil, fmt.Errorf("%q would have to be a member of a %v", token, jsontext.KindOf(bytes.TrimSpace(doc)))
	}
	added, err := Replace([]byte("{}"), rest, value)
	head, tail := doc[:bytes.LastIndexByte(doc, '}')], doc[bytes.LastIndexByte(doc, '}'):]
	if before := bytes.TrimRight(head, " \t\r\n"); before[len(before)-1] != '{' {
		head = slices.Concat(before, []byte(","), head[len(before):])
	}
	return slices.Concat(jsontext.AppendQuote(slices.Clone(head), token), []byte(":"), added, tail), err
}
