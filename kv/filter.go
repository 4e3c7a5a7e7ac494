package kv

import (
	"sort"
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

// Select returns the matching events of a Change, which share memory with events: those are in the
// order of their names, so that the ones which match are side by side.
func (f Filter) Select(events []Event) []Event {
	if f.NS == "" {
		return events[:len(events):len(events)]
	}
	from := sort.Search(len(events), func(i int) bool {
		e := events[i].Entry
		return e.NS > f.NS || e.NS == f.NS && e.Key >= f.Text
	})
	n := sort.Search(len(events)-from, func(i int) bool {
		e := events[from+i].Entry
		return !f.Match(e.NS, e.Key)
	})
	return events[from : from+n : from+n]
}
