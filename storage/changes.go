package storage

import (
	"confcenter/kv"
	"confcenter/storage/field"
)

// Change is what happened to a field.
type Change struct {
	FieldName
	Field Field // Removed: it was removed
}

// Changes appends what events say about fields; other events are passed over. With a base of
// 0 the versions are revisions.
func Changes(dst []Change, events []kv.Event, base int64) []Change {
	for i := range events {
		e := events[i].Entry
		if e.Deleted() || len(e.NS) <= len(Prefix) || e.NS[:len(Prefix)] != Prefix {
			continue
		}
		if name, ok := field.ParseField(e.NS[len(Prefix):], e.Key); ok {
			dst = append(dst, Change{name, fieldOf(e, name.Name, base)})
		}
	}
	return dst
}
