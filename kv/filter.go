package kv

import "strings"

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

// Select returns the events that match, in their order: events itself if all do.
func (f Filter) Select(events []Event) []Event {
	matching := 0
	for i := range events {
		if f.Match(events[i].Entry.NS, events[i].Entry.Key) {
			matching++
		}
	}
	if matching == len(events) {
		return events
	}
	var selected []Event
	for i := range events {
		if f.Match(events[i].Entry.NS, events[i].Entry.Key) {
			selected = append(selected, events[i])
		}
	}
	return selected
}
