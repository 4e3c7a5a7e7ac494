package meta

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

// resolve computes the bases of every listed node.
func (p *parser) resolve(names []string) {
	for i, name := range names {
		n := p.nodes[name]
		if n.chain {
			w := walk{round: i + 1}
			n.round = w.round
			if w.follow(n) {
				n.bases = w.bases
				continue
			}
			p.problems.add(name, "has more than %d bases when their own are followed, so they are not", MaxBases)
		}
		n.bases = make([]string, len(n.direct))
		for i, base := range n.direct {
			n.bases[i] = base.name
		}
	}
}

// walk collects the bases of one document through any number of generations.
type walk struct {
	round int
	count int
	bases []string
}

// follow appends n's bases, each behind its own bases. One that was met before
// keeps its earlier, weaker place: later it would override a document that
// inherits it. An edge back to a document on the way here closes a cycle and is
// cut. It gives up with false at MaxBases, which also bounds its depth.
func (w *walk) follow(n *node) bool {
	for _, base := range n.direct {
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
