package policy

import (
	"cmp"
	"slices"
	"sort"
	"strings"
)

// Permits are what a set of rules allows. They never change, and are shared by all identities
// that the same rules are about. The nil Permits allow nothing.
type Permits struct {
	classes [classes]table
}

// May reports whether v, one verb, is allowed with a thing of class c. name is as [AppendName]
// makes it, empty in a class without names. It allocates nothing, and takes as long with
// ten rules as with ten thousand.
func (p *Permits) May(v Verb, c Class, name []byte) bool {
	if p == nil {
		return false
	}
	return p.classes[c].of(name)&v != 0
}

// Covers reports whether v, one verb, is allowed with all things whose names begin with prefix,
// those that do not exist yet included.
func (p *Permits) Covers(v Verb, c Class, prefix string) bool {
	if p == nil {
		return false
	}
	return p.classes[c].covers(v, prefix)
}

// Some reports whether one of the verbs v is allowed with a thing of class c.
func (p *Permits) Some(v Verb, c Class) bool {
	return p != nil && p.classes[c].some&v != 0
}

// Within reports whether q allows everything that p does.
func (p *Permits) Within(q *Permits) bool {
	switch {
	case p == nil || p == q:
		return true
	case q == nil:
		q = new(Permits)
	}
	for c := range p.classes {
		if !p.classes[c].within(&q.classes[c]) {
			return false
		}
	}
	return true
}

// within compares at every name at which one of the two may begin to say something else.
func (t *table) within(q *table) bool {
	for _, nodes := range [...][]node{t.nodes, q.nodes} {
		for i := range nodes {
			text := nodes[i].text
			if t.of([]byte(text))&^q.of([]byte(text)) != 0 || t.below(text)&^q.below(text) != 0 {
				return false
			}
		}
	}
	return true
}

// below is the verbs that are allowed with names that begin with text and that no longer pattern
// is about.
func (t *table) below(text string) Verb {
	i := sort.Search(len(t.nodes), func(i int) bool { return t.nodes[i].text > text }) - 1
	for ; i >= 0; i = int(t.nodes[i].parent) {
		if n := &t.nodes[i]; n.many && strings.HasPrefix(text, n.text) {
			return n.verbs()
		}
	}
	return 0
}

// everything is what administrators may do.
var everything = func() *Permits {
	var list []says
	for c := range classes {
		list = append(list, says{pattern{class: c, many: true}, All, 0})
	}
	return newPermits(list)
}()

// node is a pattern with what all patterns that match whatever it matches say.
type node struct {
	text        string
	many        bool
	parent      int32 // the longest pattern that matches whatever this one does; −1: none
	allow, deny Verb  // of its parents as well
	own         Verb  // what it itself denies
}

// table is the patterns of one class, by text; of the same text the one for many comes first.
// Every pattern between a name and the longest beginning of it is below that beginning.
type table struct {
	nodes []node
	root  branch // the same, to decide by
	some  Verb   // what is allowed with any name
}

// of is the verbs that are allowed with name.
func (t *table) of(name []byte) Verb {
	return t.root.of(name)
}

func (t *table) covers(v Verb, prefix string) bool {
	if t.of([]byte(prefix))&v == 0 { // an exact pattern may have said so, see below
		return false
	}
	first := sort.Search(len(t.nodes), func(i int) bool { return t.nodes[i].text >= prefix })
	covered := false
	for i := first; i < len(t.nodes) && strings.HasPrefix(t.nodes[i].text, prefix); i++ {
		n := &t.nodes[i]
		if n.own&v != 0 {
			return false
		}
		if n.text == prefix && n.many {
			covered = n.allow&v != 0
		}
	}
	for i := first - 1; i >= 0 && !covered; i = int(t.nodes[i].parent) {
		n := &t.nodes[i]
		covered = n.many && strings.HasPrefix(prefix, n.text) && n.allow&v != 0
	}
	return covered
}

// says is one pattern with what one rule says of it.
type says struct {
	pattern
	allow, deny Verb
}

// newPermits makes the tables.
func newPermits(list []says) *Permits {
	slices.SortFunc(list, func(a, b says) int {
		return cmp.Or(cmp.Compare(a.class, b.class), strings.Compare(a.text, b.text), compareMany(a.many, b.many))
	})
	p := new(Permits)
	for i := 0; i < len(list); {
		s := list[i]
		for i++; i < len(list) && list[i].pattern == s.pattern; i++ {
			s.allow |= list[i].allow
			s.deny |= list[i].deny
		}
		p.classes[s.class].add(s)
	}
	for c := range p.classes {
		p.classes[c].index()
	}
	return p
}

// compareMany has the pattern for many first.
func compareMany(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// add appends a pattern, which comes after those that are there.
func (t *table) add(s says) {
	n := node{text: s.text, many: s.many, parent: int32(len(t.nodes)) - 1, allow: s.allow & s.class.Verbs(), deny: s.deny, own: s.deny}
	for n.parent >= 0 {
		above := &t.nodes[n.parent]
		if above.many && strings.HasPrefix(n.text, above.text) {
			n.allow |= above.allow
			n.deny |= above.deny
			break
		}
		n.parent = above.parent
	}
	t.some |= n.allow &^ n.deny
	t.nodes = append(t.nodes, n)
}
