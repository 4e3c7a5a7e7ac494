package confstore

import (
	"confcenter/access/seal"
	"confcenter/confstore/doclog"
	"confcenter/meta"
)

// recalledDocument is what the log knows of a document, with its compact text; nil if it is
// deleted.
type recalledDocument struct {
	doclog.Document
	text []byte
}

// recalled returns a snapshot of what the log knows, with which later edits are compared. Its
// nodes have the lists of bases they were served with.
func recalled(list []recalledDocument, seq uint64, l *limits) *Snapshot {
	b := newBuilder(emptySnapshot())
	b.next.seq = seq
	docs := make(map[string]*document, len(list))
	for _, d := range list {
		doc := &document{served: d.Served, given: d.Given, seq: d.Seq, deleted: d.Deleted, text: d.text, hash: d.Hash, sealed: seal.Has(d.text)}
		doc.setRevision(d.Revision)
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
	for _, d := range list {
		n := &Node{name: d.Name, limits: l, own: docs[d.Name], floor: d.Floor}
		if d.Floor != 0 || d.Bases != (doclog.Digest{}) {
			// The log does not know when, but it was not after the last change of _meta.json.
			n.listSeq = rulesSeq
		}
		n.inherit(b.next.rules)
		n.list = d.Bases
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

// remembered returns a document's state for the log; file is the file's bytes.
func (d *document) remembered(name string, file []byte) doclog.Version {
	v := doclog.Version{Name: name, Served: d.served, Given: d.given, Deleted: d.deleted}
	if !d.deleted {
		v.File = file
	}
	return v
}
