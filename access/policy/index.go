package policy

import "bytes"

// branch is a place in the tree of a table's patterns: where a name has led that begins as
// they do. To decide takes a step for each place at which patterns part, and so hardly longer
// with many rules than with few.
type branch struct {
	text  string // what a name must go on with to get here
	exact Verb   // what is allowed with the name that ends here
	below Verb   // what is allowed with longer names that no branch goes on with
	first []byte // the bytes that branches begin with
	next  []branch
}

// grow makes the branch of nodes: where what their texts have in common ends. The branches above
// have led over the first from bytes of it, and allow below them what is allowed.
func grow(nodes []node, from int, allowed Verb) branch {
	// They are sorted, so what first and last have in common all have.
	first, last := nodes[0].text, nodes[len(nodes)-1].text
	depth := from
	for depth < len(first) && first[depth] == last[depth] {
		depth++
	}
	b := branch{text: first[from:depth], exact: allowed, below: allowed}
	for ; len(nodes) > 0 && len(nodes[0].text) == depth; nodes = nodes[1:] {
		if b.exact = nodes[0].verbs(); nodes[0].many {
			b.below = b.exact
		}
	}
	for len(nodes) > 0 {
		c, n := nodes[0].text[depth], 1
		for n < len(nodes) && nodes[n].text[depth] == c {
			n++
		}
		b.first = append(b.first, c)
		b.next = append(b.next, grow(nodes[:n], depth, b.below))
		nodes = nodes[n:]
	}
	return b
}

// verbs is what the node allows.
func (n *node) verbs() Verb { return n.allow &^ n.deny }

// of is the verbs that are allowed with name.
func (b *branch) of(name []byte) Verb {
	for len(name) > 0 {
		i := bytes.IndexByte(b.first, name[0])
		if i < 0 {
			return b.below
		}
		next := &b.next[i]
		if len(name) < len(next.text) || string(name[:len(next.text)]) != next.text {
			return b.below
		}
		b, name = next, name[len(next.text):]
	}
	return b.exact
}

// index makes the tree of the table's nodes, once there are all.
func (t *table) index() {
	if len(t.nodes) == 0 {
		return
	}
	if t.root = grow(t.nodes, 0, 0); t.root.text != "" { // names begin with nothing
		t.root = branch{first: []byte(t.root.text[:1]), next: []branch{t.root}}
	}
}
