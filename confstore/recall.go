package confstore

import (
	"confcenter/confstore/ledger"
	"confcenter/meta"
)

// recalled returns a snapshot of what a ledger remembers, with which later edits are
// compared. Its nodes have the lists of bases they were served with.
func recalled(m ledger.Memory, l *limits) *Snapshot {
	b := newBuilder(emptySnapshot())
	b.next.seq = m.Seq
	docs := make(map[string]*document, len(m.Documents))
	for _, d := range m.Documents {
		if nameFault(d.Name) != "" { // older versions took in files of any name while they ran
			continue
		}
		doc := &document{served: d.Served, given: d.Given, seq: d.Seq, deleted: d.Deleted, text: d.Text}
		if doc.deleted {
			doc.text = []byte("{}")
		}
		docs[d.Name] = doc
	}
	rulesSeq := uint64(0)
	if doc := docs[meta.FileName]; doc != nil {
		rulesSeq = doc.seq
		if rules, err := parseRules(doc.text); err == nil && !doc.deleted {
			b.next.rules = rules
		}
	}
	of := func(name string) *document { return docs[name] }
	for _, d := range m.Documents {
		if docs[d.Name] == nil {
			continue
		}
		n := &Node{name: d.Name, limits: l, own: docs[d.Name], floor: d.List.Floor}
		if d.HasList {
			// The ledger does not know when, but it was not after the last change of _meta.json.
			n.listSeq = rulesSeq
		}
		n.inherit(b.next.rules)
		n.list = d.List.Digest
		n.resolve(nil, of)
		b.put(n)
	}
	for _, name := range b.next.rules.meta.Names() {
		if docs[name] == nil {
			n := &Node{name: name, limits: l}
			n.inherit(b.next.rules)
			n.resolve(nil, of)
			b.put(n)
		}
	}
	return b.finish()
}

// remembered returns a document's state for the ledger.
func (d *document) remembered(name string) ledger.Version {
	v := ledger.Version{Name: name, Seq: d.seq, Served: d.served, Given: d.given, Deleted: d.deleted}
	if !d.deleted {
		v.Text = d.text
	}
	return v
}

// remembered adds the whole state of a node.
func (n *Node) remembered(c *ledger.Change) {
	if !n.known() {
		return
	}
	c.Versions = append(c.Versions, n.own.remembered(n.name))
	if n.floor != 0 || n.list != (ledger.Digest{}) {
		c.Lists = append(c.Lists, ledger.List{Name: n.name, Floor: n.floor, Digest: n.list})
	}
}

// size is roughly what a document takes in a ledger without garbage.
func (n *Node) size() int64 {
	if !n.known() {
		return 0
	}
	return int64(96 + 2*len(n.name) + len(n.own.text))
}
