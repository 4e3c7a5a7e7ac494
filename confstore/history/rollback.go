package history

import (
	"cmp"
	"context"
	"fmt"

	"confcenter/access"
	"confcenter/access/policy"
	"confcenter/codes"
	"confcenter/confstore/change"
	"confcenter/confstore/log"
	"confcenter/kv"
	"confcenter/op"
)

// RollbackAsk asks that a document, or all, are again what they were.
type RollbackAsk struct {
	Name string `json:"name,omitempty" doc:"of the document; NAME@REV is short for both" arg:"1"`
	Rev  string `json:"rev,omitempty" doc:"as at which revision: its number, ~N for N versions before the newest, or a time; empty: as before its newest version, which brings back what was deleted; if its file is broken, what is in service" arg:"2"`
	All  bool   `json:"all,omitempty" doc:"all documents but roles: those that were made since are deleted, those that were deleted come back; give rev, and no name"`
	Said
	DryRun bool `json:"dry_run,omitempty" doc:"change nothing: say what would be changed, who would be told, and what would be refused"`
}

// Target is the document, empty for all, and the moment that are asked for.
func (q *RollbackAsk) Target() (name, moment string) {
	name, moment = split(q.Name, q.Rev)
	if q.All && name != "" && moment == "" { // the only argument of the verb
		return "", name
	}
	return name, moment
}

// Rollback makes documents what they were, in one change, which is a new revision.
func (h *History) Rollback(ctx context.Context, actor *access.Actor, q *RollbackAsk) (*ChangeAnswer, error) {
	name, moment := q.Target()
	switch {
	case q.All && name != "", !q.All && name == "":
		return nil, codes.Errorf(codes.BadRequest, "give the name of a document, or all")
	case q.All && moment == "":
		return nil, codes.Errorf(codes.BadRequest, "rev is missing: say as at which revision all documents are to be")
	}
	may := op.MayOf(ctx)
	err := may.Needs(op.PastOf(nil, name)...)
	if q.All {
		err = may.Needs(everyDocument...)
	}
	if err != nil {
		return nil, err
	}
	by, err := q.by(actor)
	if err != nil {
		return nil, err
	}
	asked := log.DigestOf(fmt.Appendf(nil, "rollback %q %q %t", name, moment, q.All))
	if made, err := h.replayOf(ctx, by, asked, q.DryRun); made != nil || err != nil {
		return made, err
	}
	r := h.room()
	defer r.give()
	var behind kv.Revision
	if q.All && !q.DryRun {
		behind = h.log.Revision()
	}
	rev, list, err := h.rollback(ctx, r, name, moment)
	if err == nil {
		err = mayMake(may, list)
	}
	if err != nil {
		return nil, err
	}
	back := access.Actor{}
	if by != nil {
		back = *by
	}
	back.Origin, back.Comment = access.Rollback, cmp.Or(back.Comment, fmt.Sprintf("as at revision %d", rev))
	answer, err := h.change(ctx, change.Request{Documents: list, Actor: &back, Asked: asked, Behind: behind, Check: q.DryRun})
	if err == nil {
		answer.At = int64(rev)
	}
	return answer, err
}

// everyDocument is about all documents but roles, which are changed only by name.
var everyDocument = []op.Thing{op.ButRoles(policy.Read), op.ButRoles(policy.Write), op.ButRoles(policy.Delete), op.ButRoles(policy.History)}

// mayMake needs the right to each of these changes.
func mayMake(may op.May, list []change.Document) error {
	for i := range list {
		d := &list[i]
		err := may.Needs(op.Document(policy.Read, d.Name))
		if !d.Keep {
			err = may.Needs(op.Change(nil, d.Name, d.File == nil)...)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// rollback is what has to be changed for a document, or all if name is empty, to be as at a moment.
func (h *History) rollback(ctx context.Context, r *room, name, moment string) (rev kv.Revision, list []change.Document, err error) {
	if name != "" {
		d, err := h.document(name)
		if err != nil {
			return 0, nil, err
		}
		broken, err := h.cfg.broken(r, d.Name)
		if err != nil {
			return 0, nil, err
		}
		if moment == "" && broken != nil && !d.Deleted {
			moment = "~0" // what is in service
		}
		if rev, err = h.revision(ctx, &d, cmp.Or(moment, "~1")); err != nil {
			return 0, nil, err
		}
		v, err := h.find(ctx, &d, rev)
		if err == nil && v.N == 0 {
			err = h.notYet(ctx, &d)
		}
		if err == nil {
			list, err = h.restore(ctx, r, list, &d, &v, broken)
		}
		return rev, list, err
	}
	if rev, err = h.revision(ctx, nil, moment); err != nil {
		return 0, nil, err
	}
	err = h.eachDocument("", func(d *log.Document) (bool, error) {
		if policy.IsRole(d.Name) {
			return true, nil
		}
		broken, err := h.cfg.broken(r, d.Name)
		if err != nil || d.Revision <= rev && broken == nil {
			return true, err
		}
		v, err := h.find(ctx, d, rev)
		if err == nil {
			list, err = h.restore(ctx, r, list, d, &v, broken)
		}
		return true, err
	})
	return rev, list, err
}

// restore adds to a change that a document is v again, whose file may be broken.
func (h *History) restore(ctx context.Context, r *room, list []change.Document, d *log.Document, v *log.Version, broken *change.Broken) ([]change.Document, error) {
	c := change.Document{Name: d.Name, Base: &d.Hash}
	switch {
	case broken != nil:
		c.Base = &broken.Hash
	case d.Deleted && !there(v), !d.Deleted && there(v) && d.Hash == v.Hash:
		return list, nil
	}
	if err := h.fill(ctx, r, v); err != nil {
		return nil, err
	}
	if there(v) {
		c.File = v.File
	}
	return append(list, c), r.take(perWanted)
}

// documentsPage is how many documents are looked at at a time.
const documentsPage = 500

// eachDocument calls fn for all documents behind a name, by name, those that are deleted too, until
// it is false.
func (h *History) eachDocument(after string, fn func(*log.Document) (bool, error)) error {
	for {
		page, more, err := h.log.Documents(after, documentsPage)
		if err != nil {
			return err
		}
		for i := range page {
			d := page[i]
			if next, err := fn(&d); err != nil || !next {
				return err
			}
			after = d.Name
		}
		if !more {
			return nil
		}
	}
}
