// Package meta understands _meta.json, the file in which people say which
// configuration file inherits from which others and which client is given which
// main configuration.
//
// It is pure: text in, answers out, no files and no locks. confstore parses the
// file with [Parse] whenever it changes, asks [Meta.Bases] and [Meta.Deep] how to
// merge, and shows people what [Meta.Check] finds wrong; the server asks
// [Meta.Profile] when a client identifies itself. The form is CppCloud's, with
// one optional member of ours, inherit_options, that CppCloud ignores:
//
//	{
//	    "conf_inherit":    {"app1-dev.json": "common.json app1.json"},
//	    "inherit_options": {"*": {"merge": "shallow", "chain": false}},
//	    "app_profile":     {"default": {"_idc": 1, "_rack": 2, "app1": "app1-dev.json"}}
//	}
//
// Bases are written weakest first, separated by blanks; the file itself is
// stronger than all of them.
package meta

import (
	"bytes"
	"cmp"
	"iter"
	"maps"
	"slices"
	"strings"

	"confcenter/internal/jsontext"
)

// FileName is the name of the file in the root of the configuration directory.
const FileName = "_meta.json"

// MaxBases is the most documents one document can inherit from, followed chains
// included. It keeps a hostile file from making each of its entries as expensive
// as all of them together.
const MaxBases = 128

// Complete is the file name that name stands for: names may be written without
// ".json". The empty name stays empty.
func Complete(name string) string {
	if name == "" || strings.HasSuffix(name, ".json") {
		return name
	}
	return name + ".json"
}

// AppendComplete appends the file name that name stands for, as [Complete] says.
func AppendComplete[T string | []byte](dst []byte, name T) []byte {
	dst = append(dst, name...)
	if len(name) == 0 || bytes.HasSuffix(dst, []byte(".json")) && len(name) >= len(".json") {
		return dst
	}
	return append(dst, ".json"...)
}

// Problem is something that a person should correct in _meta.json. What it
// concerns has been left out or cut; everything else is in force.
type Problem struct {
	// Name is the file or the profile section concerned, FileName if it is the
	// file as a whole.
	Name string
	// Text is one sentence without a final stop.
	Text string
	// Note: everything is in force as it stands, though probably not as it was meant.
	Note bool

	path []string // the keys that lead to what it is about; nil: not known
}

// Offset returns where in the text that was parsed the problem is; -1: it is not known.
func (p *Problem) Offset(text []byte) int {
	at, it := -1, jsontext.Iterate(text)
	for _, key := range p.path {
		found := it
		if !seek(&found, func(is string) bool { return is == key }) {
			if found = it; !seek(&found, func(is string) bool { return Complete(is) == Complete(key) }) {
				return at
			}
		}
		at, it = found.KeyOffset(), found.Enter()
	}
	return at
}

// seek goes on to the member with a key that is wanted.
func seek(it *jsontext.Iter, wanted func(key string) bool) bool {
	for it.Container() == jsontext.Object && it.Next() {
		if wanted(string(it.Key())) {
			return true
		}
	}
	return false
}

// Meta is what a _meta.json says. It is immutable and may be used by any number
// of goroutines. A nil Meta is that of a directory without the file: nothing
// inherits, no one has a profile.
type Meta struct {
	names    []string // files with an entry, sorted
	nodes    map[string]*node
	deep     bool     // what holds for files inherit_options does not name
	profiles []string // section names, sorted
	sections map[string]*section
	found    []Problem // cycles and unknown options, for Check
}

// Names are the files that have an entry in conf_inherit, sorted, whether they
// exist or not. The slice is shared and must not be changed.
func (m *Meta) Names() []string {
	if m == nil {
		return nil
	}
	return m.names
}

// Bases are the documents whose members name inherits, weakest first, each once
// and never name itself, as complete file names. They need not exist. ok is false
// if name has no entry, which differs from an entry that lists nothing. If the
// options ask for it the bases' own bases are among them, each before the base
// that inherits it. The slice is shared and must not be changed.
func (m *Meta) Bases(name string) (bases []string, ok bool) {
	n := m.node(name)
	if n == nil || !n.listed {
		return nil, false
	}
	return n.bases, true
}

// Deep reports whether the objects in name and its bases are merged member by
// member at every depth. Otherwise a member of the document replaces that of its
// base as a whole, as CppCloud does.
func (m *Meta) Deep(name string) bool {
	if n := m.node(name); n != nil {
		return n.deep
	}
	return m != nil && m.deep
}

func (m *Meta) node(name string) *node {
	if m == nil {
		return nil
	}
	return m.nodes[Complete(name)]
}

// Profile is what app_profile says about one client. It overrides what the
// client says about itself.
type Profile struct {
	// MainConf is the client's main configuration as _meta.json spells it, empty
	// if there is none. The file need not exist.
	MainConf string
	// IDC and Rack say where the client runs; they mean something only if HasIDC
	// and HasRack say so.
	IDC, Rack       int32
	HasIDC, HasRack bool
}

// defaultSection is the section for clients without a better one.
const defaultSection = "default"

// section is one member of app_profile.
type section struct {
	mainConfs       map[string]string // by svrname, never empty strings
	idc, rack       int32
	hasIDC, hasRack bool
}

// Profile looks up a client by its tag, its IP address (without port) and its
// svrname. Each of the three values is taken from the first section that has it:
// the one named by the tag, the one named by the address, "default".
func (m *Meta) Profile(tag, ip, svrname string) Profile {
	var p Profile
	if m == nil {
		return p
	}
	for _, name := range [...]string{tag, ip, defaultSection} {
		s := m.sections[name]
		if s == nil {
			continue
		}
		p.MainConf = cmp.Or(p.MainConf, s.mainConfs[svrname])
		if !p.HasIDC {
			p.IDC, p.HasIDC = s.idc, s.hasIDC
		}
		if !p.HasRack {
			p.Rack, p.HasRack = s.rack, s.hasRack
		}
	}
	return p
}

// TakenAway lists the main configurations that a program has by m and would not have by next, in their
// complete form and in order: an entry that names them is gone or names another one, or an entry for
// another tag or address, which may be the program's, has come before theirs.
func (m *Meta) TakenAway(next *Meta) []string {
	taken := map[string]bool{}
	for section, was := range m.entries() {
		is := next.entry(section)
		for program, conf := range was {
			if conf = Complete(conf); Complete(is[program]) != conf {
				taken[conf] = true
			}
			for other, entries := range next.entries() {
				if now := entries[program]; other != section && other != defaultSection && now != "" && Complete(now) != conf && m.entry(other)[program] == "" {
					taken[conf] = true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(taken))
}

// entries yields the sections of app_profile with their main configurations by program.
func (m *Meta) entries() iter.Seq2[string, map[string]string] {
	return func(yield func(string, map[string]string) bool) {
		if m == nil {
			return
		}
		for name, s := range m.sections {
			if !yield(name, s.mainConfs) {
				return
			}
		}
	}
}

func (m *Meta) entry(section string) map[string]string {
	if m == nil || m.sections[section] == nil {
		return nil
	}
	return m.sections[section].mainConfs
}
