package history

import (
	"context"

	"confcenter/codes"
	"confcenter/confstore/log"
	"confcenter/internal/jsonpath"
	"confcenter/internal/jsontext"
	"confcenter/kv"
	"confcenter/meta"
)

// find finds the version of a document that was current at a revision, without a long file. N is
// 0 if there was none yet.
func (h *History) find(ctx context.Context, d *log.Document, rev kv.Revision) (log.Version, error) {
	if d.N > 0 && d.Revision <= rev {
		return h.log.Find(ctx, d, d.N)
	}
	later, err := h.log.Later(ctx, d, rev)
	if err != nil || later == 1 {
		return log.Version{Name: d.Name}, err
	}
	return h.log.Find(ctx, d, later-1)
}

// there reports whether a version is a file.
func there(v *log.Version) bool { return v.N > 0 && !v.Deleted }

// read finds a version with its file.
func (h *History) read(ctx context.Context, r *room, name string, rev kv.Revision) (log.Version, error) {
	d, err := h.log.Document(name)
	if err == nil && d.N == 0 {
		err = h.cfg.remembered(name)
	}
	if err != nil || d.N == 0 {
		return log.Version{Name: name}, err
	}
	v, err := h.find(ctx, &d, rev)
	if err == nil {
		err = h.fill(ctx, r, &v)
	}
	return v, err
}

// What a file takes beside its bytes: its version, and the part of it that is being read.
const perFile = 8 << 10

func costOf(v *log.Version) int { return v.Size + min(v.Size, pieceBytes) + perFile }

func (h *History) fill(ctx context.Context, r *room, v *log.Version) error {
	if !there(v) {
		return nil
	}
	if err := r.take(costOf(v)); err != nil {
		return err
	}
	return h.log.Fill(ctx, v)
}

// layers are a document and those that it inherits from, at a revision.
type layers struct {
	own   log.Version
	bases []log.Version // weakest first
	deep  bool
	// listed: _meta.json names the document, even if without bases.
	listed bool
	rules  log.Version // the _meta.json that says so; N is 0 if there was none
}

// inherited reads a document with its bases.
func (h *History) inherited(ctx context.Context, r *room, name string, rev kv.Revision) (l layers, err error) {
	if l.own, err = h.read(ctx, r, name, rev); err != nil {
		return l, err
	}
	if l.rules, err = h.read(ctx, r, meta.FileName, rev); err != nil || !there(&l.rules) {
		return l, err
	}
	rules, _, err := meta.Parse(l.rules.File)
	if err != nil {
		return l, codes.Errorf(codes.Storage, "revision %d of %s: %w", l.rules.Revision, meta.FileName, err)
	}
	bases, listed := rules.Bases(name)
	l.listed, l.deep = listed, rules.Deep(name)
	for _, base := range bases {
		v, err := h.read(ctx, r, base, rev)
		if err != nil {
			return l, err
		}
		l.bases = append(l.bases, v)
	}
	return l, nil
}

// names are those of the bases.
func (l *layers) names() (list []string) {
	for i := range l.bases {
		list = append(list, l.bases[i].Name)
	}
	return list
}

// resolved is what programs got that asked for the document with what it inherits, compact: a server
// goes on giving them its bases after it was deleted, and where it never was. nil: it was deleted and
// inherits nothing, or there was no such name.
func (l *layers) resolved(r *room) ([]byte, error) {
	alone := len(l.bases) == 0 && (l.own.N > 0 || !l.listed)
	if alone && !there(&l.own) {
		return nil, nil
	}
	var docs [][]byte
	size := 0
	for _, v := range append(l.bases[:len(l.bases):len(l.bases)], l.own) {
		if there(&v) {
			docs = append(docs, v.File)
			size += v.Size
		}
	}
	if err := r.take(2 * size); err != nil {
		return nil, err
	}
	if alone {
		return jsontext.AppendCompact(nil, l.own.File), nil
	}
	return jsonpath.Merge(docs, l.deep), nil
}
