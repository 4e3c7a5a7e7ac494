package revisions

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"confcenter/confstore/snapshot"
	"confcenter/internal/jsonpath"
	"confcenter/kv"
)

// contents are what a document is to those who follow them.
type contents struct {
	text  []byte      // compact; nil: there is nothing
	mtime int32       // the greatest of its file and of those it inherits from
	rev   kv.Revision // likewise

	resealed bool // of a version: it is what was before, but for the key by which values are sealed
}

// contentsOf may take as long as a merge.
func contentsOf(ns string, n *snapshot.Node) (c contents) {
	if n != nil {
		c.text, c.mtime, c.rev = n.Whole(ns != Own)
	}
	return c
}

// merged are the contents of a document, given its own and those of its bases, weakest first.
func merged(own *contents, parts []contents, deep bool) contents {
	if own == nil {
		own = &contents{}
	}
	c := *own
	docs := make([][]byte, 0, len(parts)+1)
	if len(parts) == 0 {
		return c
	}
	for _, part := range parts {
		c.mtime, c.rev = max(c.mtime, part.mtime), max(c.rev, part.rev)
		docs = append(docs, part.layer())
	}
	if own.rev > 0 {
		docs = append(docs, own.layer())
	}
	c.text = jsonpath.Merge(docs, deep)
	return c
}

// layer is what a document adds to a merge: of a deleted one, nothing.
func (c contents) layer() []byte {
	if c.text == nil {
		return []byte("{}")
	}
	return c.text
}

// entry is nil if there is nothing.
func (c contents) entry(ns, name string) *kv.Entry {
	if c.text == nil {
		return nil
	}
	return &kv.Entry{NS: ns, Key: name, Value: kv.JSONValue(c.text), Create: c.rev, Mod: c.rev, Version: 1, Updated: int64(c.mtime) * 1000}
}

// appendEvent appends what it means to followers that contents have become others, if it means
// anything.
func appendEvent(list []kv.Event, rev kv.Revision, ns, name string, before, after contents) []kv.Event {
	if (before.text == nil) == (after.text == nil) && bytes.Equal(before.text, after.text) {
		return list
	}
	e := kv.Event{Kind: kv.Put, Prev: before.entry(ns, name), Entry: after.entry(ns, name)}
	if e.Entry == nil {
		e.Kind, e.Entry = kv.Delete, &kv.Entry{NS: ns, Key: name, Updated: int64(after.mtime) * 1000}
	}
	e.Entry.Mod = rev
	return append(list, e)
}

func sortEvents(list []kv.Event) {
	slices.SortFunc(list, func(a, b kv.Event) int {
		return cmp.Or(strings.Compare(a.Entry.NS, b.Entry.NS), strings.Compare(a.Entry.Key, b.Entry.Key))
	})
}
