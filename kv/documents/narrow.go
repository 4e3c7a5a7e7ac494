package documents

import (
	"bytes"

	"confcenter/internal/jsonpath"
	"confcenter/kv"
)

// Narrow reduces events to what is at a path. It drops those that leave it as it was; of a state there are none.
func Narrow(events []kv.Event, path string, state bool) []kv.Event {
	cut := func(e *kv.Entry) *kv.Entry {
		if e == nil || e.Deleted() {
			return nil
		}
		text, found := jsonpath.Lookup(e.Value.Data, []byte(path))
		if !found {
			return nil
		}
		part := *e
		part.Value = kv.JSONValue(text)
		return &part
	}
	var list []kv.Event
	for _, e := range events {
		prev, now := cut(e.Prev), cut(e.Entry)
		switch {
		case prev == nil && now == nil:
			continue
		case now == nil:
			gone := *e.Entry
			gone.Value, gone.Version = kv.Value{}, 0
			e.Kind, e.Entry, e.Prev = kv.Delete, &gone, prev
		case prev != nil && !state && bytes.Equal(prev.Value.Data, now.Value.Data):
			continue
		default:
			e.Entry, e.Prev = now, prev
		}
		list = append(list, e)
	}
	return list
}
