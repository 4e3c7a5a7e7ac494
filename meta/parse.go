package meta

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"confcenter/internal/jsontext"
)

// Parse reads the text of a _meta.json. It fails only if the text is not a JSON
// object; a part of the wrong type is left out and reported, and so is a name
// that can never be a file's. Where a member stands twice the first counts, as on
// the wire. What depends on which files exist, and what merely looks like a
// mistake, is told by Check. Meta keeps nothing of text.
func Parse(text []byte) (*Meta, []Problem, error) {
	members, kind, err := jsontext.Scan(nil, text)
	if err != nil {
		return nil, nil, fmt.Errorf("%s is not valid JSON: %w", FileName, err)
	}
	if kind != jsontext.Object {
		return nil, nil, errors.New(FileName + " must hold a JSON object")
	}
	p := parser{nodes: make(map[string]*node), sections: make(map[string]*section)}
	top := p.unique(FileName, members)
	p.mistyped(top)
	p.inherit(p.part(top, partInherit))
	p.options(p.part(top, partOptions))
	p.profiles(p.part(top, partProfiles))
	return p.meta(), p.problems.all(), nil
}

// parser collects what Parse has understood so far.
type parser struct {
	nodes    map[string]*node
	defaults options // the "*" of inherit_options
	sections map[string]*section
	problems reporter
	unknown  reporter // for Check
}

// meta computes what lookups need and hands everything over.
func (p *parser) meta() *Meta {
	m := &Meta{nodes: p.nodes, deep: p.defaults.deep, sections: p.sections}
	for name, n := range p.nodes {
		if n.listed {
			m.names = append(m.names, name)
		}
	}
	slices.Sort(m.names)
	m.profiles = slices.Sorted(maps.Keys(p.sections))
	p.resolve(m.names)
	findCycles(p.nodes, m.names, &p.unknown)
	m.found = p.unknown.all()
	return m
}

// node returns the node of a complete file name, new if need be.
func (p *parser) node(name string) *node {
	n := p.nodes[name]
	if n == nil {
		n = &node{name: name}
		p.nodes[name] = n
	}
	return n
}

// unique drops the members whose key stood before.
func (p *parser) unique(where string, members []jsontext.Member) []jsontext.Member {
	seen := make(map[string]bool, len(members))
	kept := members[:0]
	for _, member := range members {
		if seen[string(member.Key)] {
			p.problems.add(where, "%q stands twice, the first counts", member.Key)
			continue
		}
		seen[string(member.Key)] = true
		kept = append(kept, member)
	}
	return kept
}

// The parts of _meta.json that mean something here.
const (
	partInherit  = "conf_inherit"
	partOptions  = "inherit_options"
	partProfiles = "app_profile"
)

// mistyped reports members that look like a part and are none: everything the part
// says would silently not count. Other members are the user's own.
func (p *parser) mistyped(top []jsontext.Member) {
	parts := []string{partInherit, partOptions, partProfiles}
	for _, member := range top {
		for _, part := range parts {
			if key := string(member.Key); !slices.Contains(parts, key) && strings.HasPrefix(strings.ToLower(key), part[:4]) {
				p.problems.add(FileName, "%q means nothing, did you mean %q?", key, part).at(key)
			}
		}
	}
}

// part returns the members of the part of _meta.json called key.
func (p *parser) part(top []jsontext.Member, key string) []jsontext.Member {
	member, ok := jsontext.Find(top, key)
	if !ok {
		return nil
	}
	return p.object(FileName, member)
}

// object returns the members of an object inside _meta.json and reports, for
// where, a value that is none. above are the keys that lead to it.
func (p *parser) object(where string, member jsontext.Member, above ...string) []jsontext.Member {
	if member.Kind != jsontext.Object {
		p.problems.add(where, "%q must be an object", member.Key).at(append(above, string(member.Key))...)
		return nil
	}
	members, _, err := jsontext.Scan(nil, member.Raw)
	if err != nil { // the whole text was valid, so a part of it is
		p.problems.add(where, "%q cannot be read: %v", member.Key, err)
		return nil
	}
	return p.unique(where, members)
}

// inherit reads conf_inherit. Entries spelled with ".json" go first, so that
// "app1.json" beats "app1" wherever it stands.
func (p *parser) inherit(members []jsontext.Member) {
	for _, spelledOut := range []bool{true, false} {
		for _, member := range members {
			name := Complete(string(member.Key))
			if (name == string(member.Key)) == spelledOut {
				p.entry(name, member)
			}
		}
	}
}

func (p *parser) entry(name string, member jsontext.Member) {
	if reason := neverAName(name); reason != "" {
		p.problems.add(FileName, "the name %q in conf_inherit %s", name, reason).at(partInherit, string(member.Key))
		return
	}
	if member.Kind != jsontext.String {
		p.problems.add(name, "conf_inherit wants one string of file names separated by blanks").at(partInherit, string(member.Key))
		return
	}
	n := p.node(name)
	if n.listed {
		p.problems.add(name, "conf_inherit names it with and without .json, the former counts").at(partInherit, string(member.Key))
		return
	}
	n.listed = true
	n.direct, n.self = p.bases(name, string(jsontext.Unquote(member.Raw)))
}

// bases reads the list of one entry. A base that stands twice counts where it
// stands last: that is what merging it twice gives.
func (p *parser) bases(name, list string) (direct []*node, self bool) {
	last := make(map[string]bool)
	tokens := strings.Split(list, " ")
	for i := len(tokens) - 1; i >= 0; i-- {
		base := Complete(tokens[i])
		switch reason := neverABase(tokens[i]); {
		case base == "":
			continue
		case reason != "":
			p.problems.add(name, "base %q %s", tokens[i], reason).at(partInherit, name)
			continue
		case base == name:
			self = true
			continue
		case last[base]:
			continue
		}
		if len(direct) == MaxBases {
			p.problems.add(name, "has more than %d bases, the weakest are left out", MaxBases).at(partInherit, name)
			break
		}
		last[base] = true
		direct = append(direct, p.node(base))
	}
	slices.Reverse(direct)
	return direct, self
}

// neverAName says why no file can have the name, or "".
func neverAName(name string) string {
	switch {
	case name == "":
		return "is empty"
	case !utf8.ValidString(name):
		return "is not valid UTF-8"
	case strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return "contains a tab or another control character; names are separated by single blanks"
	}
	return ""
}

// neverABase is neverAName for one word of a list, where commas are a frequent
// mistake. Other commas stay, because a file may have one in its name.
func neverABase(word string) string {
	if strings.HasSuffix(word, ",") || strings.HasPrefix(word, ",") || strings.Contains(word, ".json,") {
		return "contains a comma; names are separated by single blanks"
	}
	return neverAName(word)
}

// profiles reads app_profile.
func (p *parser) profiles(members []jsontext.Member) {
	for _, member := range members {
		name := string(member.Key)
		if name == "" {
			p.problems.add(FileName, "app_profile has a section without a name").at(partProfiles, name)
			continue
		}
		if member.Kind != jsontext.Object {
			p.problems.add(name, "the section of app_profile must be an object").at(partProfiles, name)
			continue
		}
		s := &section{mainConfs: make(map[string]string)}
		for _, value := range p.object(name, member, partProfiles) {
			p.profileValue(name, s, value)
		}
		p.sections[name] = s
	}
}

func (p *parser) profileValue(name string, s *section, value jsontext.Member) {
	key := string(value.Key)
	switch key {
	case "_idc":
		s.idc, s.hasIDC = p.place(name, value)
	case "_rack":
		s.rack, s.hasRack = p.place(name, value)
	default:
		if value.Kind != jsontext.String || len(value.Raw) == len(`""`) {
			p.problems.add(name, "the main configuration of %q must be a file name", key).at(partProfiles, name, key)
			return
		}
		s.mainConfs[key] = string(jsontext.Unquote(value.Raw))
	}
}

func (p *parser) place(name string, value jsontext.Member) (int32, bool) {
	if value.Kind == jsontext.Number {
		if n, ok := jsontext.Int32(value.Raw); ok {
			return n, true
		}
	}
	p.problems.add(name, "%q must be a whole number inside 32 bits", value.Key).at(partProfiles, name, string(value.Key))
	return 0, false
}
