package meta

import "fmt"

// node is a file that conf_inherit names on either side. Nodes form a graph whose
// edges lead from a document to its bases; it may have cycles.
type node struct {
	name   string
	listed bool // has an entry
	self   bool // its entry lists it as its own base
	direct []*node
	bases  []string // what Meta.Bases answers
	options

	// used while parsing only
	round int   // the walk that came here last
	state state // of the search for cycles
	pos   int   // on the path of that search
}

// maxSteps is how many bases one _meta.json may make Parse look at while it
// follows chains. Thousands of files with dozens of bases each stay far below; a
// file made to be expensive costs milliseconds and not minutes.
const maxSteps = 4 << 20

// resolve computes the bases of every listed node.
func (p *parser) resolve(names []string) {
	w := walk{steps: maxSteps}
	for _, name := range names {
		n := p.nodes[name]
		if n.chain {
			if w.start(n) {
				n.bases = w.bases
				continue
			}
			p.problems.add(name, "the bases of its bases are left out: %s", w.why()).at(partInherit, name)
		}
		n.bases = make([]string, len(n.direct))
		for i, base := range n.direct {
			n.bases[i] = base.name
		}
	}
}

// walk collects the bases of one document after the other through any number of
// generations.
type walk struct {
	steps int // left for all documents together
	round int // number of the document
	count int // its bases met so far
	bases []string
}

func (w *walk) start(n *node) bool {
	w.round++
	w.count, w.bases = 0, nil
	n.round = w.round
	return w.follow(n)
}

// follow appends n's bases, each behind its own bases. One that was met before
// keeps its earlier, weaker place: later it would override a document that
// inherits it. An edge back to a document on the way here closes a cycle and is
// cut. It gives up with false at a limit; MaxBases also bounds its depth.
func (w *walk) follow(n *node) bool {
	for _, base := range n.direct {
		w.steps--
		if w.steps < 0 {
			return false
		}
		if base.round == w.round {
			continue
		}
		base.round = w.round
		w.count++
		if w.count > MaxBases || !w.follow(base) {
			return false
		}
		w.bases = append(w.bases, base.name)
	}
	return true
}

// why tells which limit was met.
func (w *walk) why() string {
	if w.steps < 0 {
		return "the chains of all files together are too many"
	}
	return fmt.Sprintf("there would be more than %d", MaxBases)
}

type state uint8

const (
	unvisited state = iota
	onPath
	done
)

// search looks for circles of inheritance. Its stack is its own, because a chain
// can be as long as the file allows.
type search struct {
	problems *reporter
	path     []*node
	names    []string // of path
	next     []int    // for each node on path, the base to look at
}

// findCycles reports at least one circle of each group of documents that inherit
// each other.
func findCycles(nodes map[string]*node, names []string, problems *reporter) {
	s := search{problems: problems}
	for _, name := range names {
		if n := nodes[name]; n.state == unvisited {
			s.enter(n)
		}
		for len(s.path) > 0 {
			s.step()
		}
	}
}

func (s *search) enter(n *node) {
	n.state, n.pos = onPath, len(s.path)
	s.path, s.names, s.next = append(s.path, n), append(s.names, n.name), append(s.next, 0)
	if n.self {
		reportCycle(s.problems, s.names[n.pos:])
	}
}

// step looks at one base of the last node on the path, or leaves that node.
func (s *search) step() {
	end := len(s.path) - 1
	n := s.path[end]
	if s.next[end] == len(n.direct) {
		n.state = done
		s.path, s.names, s.next = s.path[:end], s.names[:end], s.next[:end]
		return
	}
	base := n.direct[s.next[end]]
	s.next[end]++
	switch base.state {
	case unvisited:
		s.enter(base)
	case onPath:
		reportCycle(s.problems, s.names[base.pos:])
	}
}
