package history

import (
	"context"
	"slices"
	"strings"

	"confcenter/codes"
	"confcenter/confstore/change"
	"confcenter/confstore/log"
	"confcenter/kv"
	"confcenter/meta"
	"confcenter/op"
)

// view is a document as it was at a revision.
type view struct {
	layers
	at   kv.Revision
	text []byte // nil if there was none, or it was deleted
}

// gone is the error for a document of which nothing was left; nil if there was something.
func (v *view) gone() error {
	if v.text != nil {
		return nil
	}
	return codes.Errorf(codes.NotFound, "%s was deleted by revision %d", v.own.Name, v.own.Revision)
}

// view reads a document at a moment, either its file or as it was resolved.
func (h *History) view(ctx context.Context, r *room, name, moment string, resolved bool) (*view, error) {
	if name == "" {
		return nil, codes.Errorf(codes.BadRequest, "name is missing: say which document")
	}
	name = meta.Complete(name)
	may := op.MayOf(ctx)
	if err := may.Needs(op.PastOf(nil, name)...); err != nil {
		return nil, err
	}
	d, err := h.log.Document(name)
	if err != nil {
		return nil, err
	}
	if d.N == 0 && !resolved {
		return nil, h.cfg.neverBeen(name)
	}
	v := &view{}
	if v.at, err = h.revision(ctx, &d, moment); err != nil {
		return nil, err
	}
	if !resolved {
		v.own, err = h.read(ctx, r, name, v.at)
		v.text = v.own.File
	} else if v.layers, err = h.inherited(ctx, r, name, v.at); err == nil {
		if err = bases(may, name, v.names()); err == nil {
			v.text, err = v.resolved(r)
		}
	}
	switch {
	case err != nil:
		return nil, err
	case v.text == nil && v.own.N == 0 && d.N == 0:
		return nil, h.cfg.neverBeen(name)
	case v.text == nil && v.own.N == 0:
		return nil, h.notYet(ctx, &d)
	}
	return v, nil
}

// bases needs to read each document that another one inherits from. The refusal names none of them, since
// their names are told only to those who may read them.
func bases(may op.May, name string, list []string) error {
	if slices.ContainsFunc(list, func(base string) bool { return !may.Names(base) }) {
		return codes.Errorf(codes.Forbidden, "you may not read all that %.200q inherits from; ask an administrator for a role that allows it", name)
	}
	return nil
}

// remembered is nil unless there is a document of which the log knows nothing yet.
func (c *Config) remembered(name string) error {
	if c.Documents == nil {
		return nil
	}
	return c.Documents.Remembered(name)
}

func (c *Config) neverBeen(name string) error {
	if err := c.remembered(name); err != nil {
		return err
	}
	r := &room{pool: c.Memory}
	defer r.give()
	broken, err := c.broken(r, name)
	switch {
	case err != nil:
		return err
	case broken != nil:
		return codes.Errorf(codes.NotFound, "%w", broken)
	}
	hint := ""
	if at := strings.LastIndexByte(name, '@'); at > 0 {
		if moment := strings.TrimSuffix(name[at+1:], ".json"); !IsMoment(moment) {
			hint = "; " + noMoment(moment)
		}
	}
	return codes.Errorf(codes.NotFound, "there has never been a document %.200q%s", name, hint)
}

// broken is what is wrong with the file of a document; nil if nothing is, or there is none.
func (c *Config) broken(r *room, name string) (*change.Broken, error) {
	if c.Documents == nil {
		return nil, nil
	}
	held := r.held
	_, broken, err := c.Documents.Look(name, func(size int64) error { return r.take(int(size)) })
	r.returns(int(r.held - held))
	switch codes.Of(err) {
	case codes.Busy:
		return nil, err
	}
	return broken, nil
}

// notYet is for a document that was first made later.
func (h *History) notYet(ctx context.Context, d *log.Document) error {
	first, err := h.log.Find(ctx, d, 1)
	if err != nil {
		return err
	}
	return codes.Errorf(codes.NotFound, "%s did not exist then: it was created by revision %d", d.Name, first.Revision)
}
