package kv

import (
	"slices"
	"strings"
)

// Filter selects keys. The zero value selects all keys of all namespaces.
type Filter struct {
	NS string // "": every namespace; Text must be "" then
	// Text is a prefix, or the whole key if Exact.
	Text  string
	Exact bool
}

// Check reports whether the filter is valid.
func (f Filter) Check() error {
	if f.NS == "" && !f.Exact && f.Text == "" {
		return nil
	}
	if err := CheckNamespace(f.NS); err != nil {
		return err
	}
	if f.Exact {
		return CheckKey(f.Text)
	}
	return CheckPrefix(f.Text)
}

// Match reports whether the filter selects the key.
func (f Filter) Match(ns, key string) bool {
	switch {
	case f.NS != ns:
		return f.NS == ""
	case f.Exact:
		return f.Text == key
	}
	return strings.HasPrefix(key, f.Text)
}

// Select returns the matching events in their order. They share memory with events
// if they are adjacent there, as in a Change.
func (f Filter) Select(events []Event) []Event {
	match := func(e Event) bool { return f.Match(e.Entry.NS, e.Entry.Key) }
	from := slices.IndexFunc(events, match)
	if from < 0 {
		return nil
	}
	to := from + 1
	for to < len(events) && match(events[to]) {
		to++
	}
	selected := events[from:to:to]
	for _, e := range events[to:] {
		if match(e) {
			selected = append(selected, e)
		}
	}
	return selected
}
