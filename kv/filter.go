package kv

import (
	"slices"
	"strings"
)

// Filter says which keys somebody is interested in. The zero value is all keys of
// all namespaces.
type Filter struct {
	NS string // "": every namespace; Text must be "" then
	// Text is a prefix, or the whole key if Exact.
	Text  string
	Exact bool
}

// Check says whether the filter is allowed.
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

// Match says whether the key is one of them.
func (f Filter) Match(ns, key string) bool {
	switch {
	case f.NS != ns:
		return f.NS == ""
	case f.Exact:
		return f.Text == key
	}
	return strings.HasPrefix(key, f.Text)
}

// Select returns the events that match, in their order. They share events' memory
// if they stand together there, as those of a Change do.
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
