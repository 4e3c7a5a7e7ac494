package meta

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
)

// Check finds what Parse cannot know to be wrong: bases and main configurations
// that do not exist, cycles by the names on them, unknown options. All of it
// is in force as far as it can be: a missing base is skipped, a cycle is cut.
// exists is asked with complete file names and decides whether a deleted file
// counts. The order of the problems depends only on the text.
func (m *Meta) Check(exists func(name string) bool) []Problem {
	return m.CheckEach(func(name string) string {
		if exists(name) {
			return ""
		}
		return Absent
	})
}

// Absent is what lacks says of a document that is not there.
const Absent = "does not exist"

// NoObject is what lacks says of a document that is there but is no object: of a base it is worth a note.
const NoObject = "is no JSON object, so nothing of it is inherited"

// address is the address that a text means, as those of clients are written; "" if it means none. Blocks
// of addresses mean none.
func address(text string) string {
	ip, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(text, "["), "]"))
	if err != nil {
		with, err := netip.ParseAddrPort(text)
		if err != nil {
			return ""
		}
		ip = with.Addr()
	}
	return ip.Unmap().WithZone("").String()
}

// CheckEach is Check where lacks says what is wrong with a document, as in "does not exist", and is
// empty if nothing is.
func (m *Meta) CheckEach(lacks func(name string) string) []Problem {
	if m == nil {
		return nil
	}
	var r reporter
	r.list = append(r.list, m.found...)
	for _, name := range m.names {
		for _, base := range m.nodes[name].direct {
			if why := lacks(base.name); why == Absent {
				r.add(name, "base %q does not exist%s", base.name, commaHint(base.name)).at(partInherit, name)
			} else if why != "" {
				r.add(name, "base %q %s", base.name, why).at(partInherit, name).Note = why == NoObject
			}
		}
	}
	for _, name := range m.profiles {
		for _, svrname := range slices.Sorted(maps.Keys(m.sections[name].mainConfs)) {
			conf := m.sections[name].mainConfs[svrname]
			if why := lacks(Complete(conf)); why != "" && why != NoObject {
				r.add(name, "the main configuration %q of %q %s", conf, svrname, why).at(partProfiles, name, svrname)
			}
		}
		if is := address(name); is != "" && is != name {
			r.add(name, "no address is written like this, so the section counts for none; write %q", is).at(partProfiles, name).Note = true
		}
	}
	return r.all()
}

func commaHint(name string) string {
	if strings.Contains(name, ",") {
		return "; names are separated by single blanks, not by commas"
	}
	return ""
}

// maxCycleNames is how many names of a cycle are spelled out.
const maxCycleNames = 16

// reportCycle reports documents each of which inherits from the next and the last
// from the first. The first in byte order starts, so that the report does not
// depend on where the search came from.
func reportCycle(problems *reporter, cycle []string) {
	if problems.full() { // a long cycle is not worth looking at for a count
		problems.untold++
		return
	}
	first := 0
	for i, name := range cycle {
		if name < cycle[first] {
			first = i
		}
	}
	shown := min(len(cycle), maxCycleNames)
	var text strings.Builder
	for i := range shown {
		fmt.Fprintf(&text, "%q -> ", cycle[(first+i)%len(cycle)])
	}
	if shown < len(cycle) {
		fmt.Fprintf(&text, "%d more -> ", len(cycle)-shown)
	}
	problems.add(cycle[first], "inherits from itself: %s%q; the circle is cut where it closes", text.String(), cycle[first]).at(partInherit, cycle[first])
}

// maxProblems is how many problems one call reports; a file broken in more places
// has one cause.
const maxProblems = 1000

// reporter collects problems. The zero value is ready.
type reporter struct {
	list   []Problem
	untold int
}

func (r *reporter) full() bool { return len(r.list) >= maxProblems }

// add returns the problem, so that it can be told where it is.
func (r *reporter) add(name, format string, args ...any) *Problem {
	if r.full() {
		r.untold++
		return &Problem{}
	}
	r.list = append(r.list, Problem{Name: name, Text: fmt.Sprintf(format, args...)})
	return &r.list[len(r.list)-1]
}

func (p *Problem) at(path ...string) *Problem {
	p.path = path
	return p
}

func (r *reporter) all() []Problem {
	if r.untold == 0 {
		return r.list
	}
	return append(r.list, Problem{Name: FileName, Text: fmt.Sprintf("%d more problems", r.untold)})
}
