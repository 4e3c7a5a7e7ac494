package confstore

import (
	"context"

	"confcenter/confstore/doclog"
)

// reconcile serves what the log has and the snapshot has not: changes of which it was not known
// whether they had taken effect.
func (r *recorder) reconcile() error {
	known := r.known
	type answer struct{ versions []doclog.Version }
	got := &answer{}
	err := r.scribe.do(func() error {
		docs, _, err := r.log.Behind(context.Background(), known)
		for i := 0; i < len(docs) && err == nil; i++ {
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
	for _, v := range got.versions {
		r.adopt(v)
	}
	return nil
}

// adopt serves a version that is in the log. An edit that was found meanwhile is newer.
func (r *recorder) adopt(v doclog.Version) {
	r.known = max(r.known, v.Revision)
	n := r.snapshot.Load().Node(v.Name)
	if n.known() && n.own.revision >= v.Revision {
		return
	}
	planner := r.planner()
	planner.floor = v.Served
	ed := editOf(v)
	_, edited := r.unsaved[v.Name]
	if edited {
		planner.floor++
		ed = edit{name: v.Name, text: n.own.text, given: max(n.own.given, v.Given), hash: n.own.hash, actor: onDisk}
		if n.Deleted() {
			ed.text = nil
		}
	} else {
		ed.quiet = sameContents(n, ed.text)
	}
	p, err := planner.plan([]edit{ed}, false)
	if err != nil {
		r.problems.set(OfFile, v.Name, err.Error())
		return
	}
	if !edited {
		p.docs[0].revision = v.Revision
		r.placer.owe(v, nil)
	}
	r.carryOut(p.apply(&r.limits), edited || p.docs[0].served != v.Served)
}

// editOf is the change that led to a version.
func editOf(v doclog.Version) edit {
	ed := edit{name: v.Name, given: v.Given, file: v.File, hash: v.Hash}
	if !v.Deleted {
		ed.text = compactText(v.File)
	}
	return ed
}
