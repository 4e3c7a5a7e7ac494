package confstore

import (
	"cmp"
	"context"
	"slices"

	"confcenter/confstore/doclog"
)

// reconcile serves what the log has and the snapshot has not: changes of which it was not known
// whether they had taken effect.
func (r *recorder) reconcile() error {
	known, now := r.known, r.snapshot.Load()
	type answer struct {
		versions []doclog.Version
		same     []doclog.Document // that are served already
	}
	got := &answer{}
	err := r.scribe.do(func() error {
		docs, _, err := r.log.Behind(known)
		for i := 0; i < len(docs) && err == nil; i++ {
			if now.Node(docs[i].Name).is(&docs[i]) {
				got.same = append(got.same, docs[i])
				continue
			}
			var v doclog.Version
			if v, err = r.log.Version(context.Background(), docs[i].Name, docs[i].N); err == nil {
				got.versions = append(got.versions, v)
			}
		}
		return err
	})
	if err != nil {
		return err
	}
	r.unsure = false
	var placed []placedFile
	for i := range got.same {
		if d := &got.same[i]; r.remembers(d) {
			placed = append(placed, placedFile{d.Name, d.Revision})
		}
	}
	slices.SortFunc(got.versions, func(a, b doclog.Version) int { return cmp.Compare(a.Revision, b.Revision) })
	for len(got.versions) > 0 {
		n := 1
		for n < len(got.versions) && got.versions[n].Revision == got.versions[0].Revision {
			n++
		}
		r.adopt(got.versions[:n])
		got.versions = got.versions[n:]
	}
	r.placer.inPlace(placed...) // now that it is known which files are not
	if len(r.unsaved) == 0 {
		r.logged(r.known)
	}
	return nil
}

// is reports whether a document of the log is what is served.
func (n *Node) is(d *doclog.Document) bool {
	return n.known() && n.own.hash == d.Hash && n.own.served == d.Served && n.own.given == d.Given && n.own.deleted == d.Deleted
}

// remembers takes note that the log has what is served of a document: the commit was only late. It
// is false if that was known.
func (r *recorder) remembers(d *doclog.Document) bool {
	r.known = max(r.known, d.Revision)
	n := r.snapshot.Load().Node(d.Name)
	if n.own.revision() >= d.Revision {
		return false
	}
	n.own.setRevision(d.Revision)
	r.completes(found{name: d.Name, rev: d.Revision})
	delete(r.unsaved, d.Name)
	if n.floor != d.Floor || n.list != d.Bases {
		r.unsaved[d.Name] = nil
	}
	return true
}

// adopt serves the versions of one change that is in the log. An edit that was found meanwhile is
// newer.
func (r *recorder) adopt(list []doclog.Version) {
	now := r.snapshot.Load()
	var edits []edit
	versions := map[string]doclog.Version{}
	for _, v := range list {
		r.known = max(r.known, v.Revision)
		n := now.Node(v.Name)
		if n.known() && n.own.revision() >= v.Revision {
			continue
		}
		ed := editOf(v)
		if r.unsaved[v.Name] != nil { // edited meanwhile
			ed = edit{name: v.Name, text: n.own.text, given: max(n.own.given, v.Given), floor: v.Served + 1, hash: n.own.hash, actor: onDisk}
			if n.Deleted() {
				ed.text = nil
			}
		} else {
			versions[v.Name] = v
			ed.quiet = sameContents(n, ed.text) || v.Resealed && n.live()
		}
		edits = append(edits, ed)
	}
	if len(edits) == 0 {
		return
	}
	p, err := r.planner().plan(edits, false)
	if err != nil {
		r.problems.set(OfFile, edits[0].name, err.Error())
		return
	}
	same := true
	for i, doc := range p.docs {
		name := p.edits[i].name
		v, adopted := versions[name]
		if adopted {
			doc.setRevision(v.Revision)
			r.placer.owe(v, r.placer.comesWith(&v, func(name string) bool { return versions[name].Hash == v.Hash && versions[name].Name == name }))
		}
		if adopted && doc.served != v.Served {
			r.missesEdit(p, i)
		}
		same = same && adopted && doc.served == v.Served
	}
	if !same {
		r.missesLists(p)
	}
	r.carryOut(p.apply(&r.limits), false)
}

// editOf is the change that led to a version.
func editOf(v doclog.Version) edit {
	ed := edit{name: v.Name, given: v.Given, floor: v.Served, file: v.File, hash: v.Hash}
	if !v.Deleted {
		ed.text = compactText(v.File)
	}
	return ed
}
