package client

import (
	"context"
	"iter"

	"confcenter/codes"
	"confcenter/kv"
	"confcenter/storage/field"
)

// FieldChange is a field as a change has left it.
type FieldChange struct {
	FieldName
	Value   []byte // not to be written to; of a removed field its last value
	Removed bool   // logically: Restore brings it back
	// Revision is the one that made the change, see Changed.Revision. It is not the field's
	// version: read that with Owner.GetVersions, if a write is to depend on it.
	Revision kv.Revision
}

// FieldNotice is a kv.Notice about fields. It has no changes if all in it were about owners of
// other kinds, or only moved Revision on.
type FieldNotice struct {
	Kind     kv.NoticeKind
	Revision kv.Revision // for WatchOptions.From
	Changes  []FieldChange
	More     bool // the last revision in Changes continues in the next notice
}

// FieldWatch follows fields as a KVWatch follows keys: across lost connections, without
// missing or repeating a change. End it with Stop.
//
// That a field is loaded from the database, leaves memory, or is purged long after its removal
// is no change. So a state, whether WatchOptions.State asks for it or it follows a Resync, is
// what the server has in memory: a field that is not in it need not be absent. To have all
// fields of an owner open the watch first, then read Owner.All, and read it again after a
// Resync. Changes made before the reading may still come, and then also those that followed them.
type FieldWatch struct {
	// set at open
	w            *KVWatch
	table, logic string // logic: "" for owners of all kinds
}

// Watch follows the fields of the owner; see KV.Watch. The options' Key, Prefix and Prev must
// not be set.
func (o *Owner) Watch(ctx context.Context, opts WatchOptions) (*FieldWatch, error) {
	w, err := o.s.watch(ctx, o.id(), o.Logic, field.Filter(o.id()).Text, opts)
	return w, during(err, "watch of %s", o)
}

// Watch follows the fields of all owners of the region, with logicType only those of that
// kind: the server sends those of the others nonetheless. For one owner Owner.Watch is cheaper.
// The options' Key, Prefix and Prev must not be set.
func (s *Storage) Watch(ctx context.Context, logicType string, opts WatchOptions) (*FieldWatch, error) {
	some := field.Owner{App: s.app, Region: s.region, Logic: logicType, ID: field.DefaultID}
	if logicType == "" {
		some.Logic = field.DefaultID
	}
	w, err := s.watch(ctx, some, logicType, "", opts)
	return w, during(err, "watch of fields")
}

func (s *Storage) watch(ctx context.Context, o field.Owner, logic, prefix string, opts WatchOptions) (*FieldWatch, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	if opts.Key != "" || opts.Prefix != "" || opts.Prev {
		return nil, codes.Errorf(codes.BadRequest, "fields are watched by owner or region: key, prefix and prev must not be set")
	}
	opts.Prefix = prefix
	w, err := s.c.KV(o.Namespace()).Watch(ctx, opts)
	if err != nil {
		return nil, err
	}
	return &FieldWatch{w, o.Table(), logic}, nil
}

// Next waits for the next notice; see KVWatch.Next.
func (w *FieldWatch) Next(ctx context.Context) (FieldNotice, error) {
	n, err := w.w.Next(ctx)
	return w.notice(n), err
}

// Events yields the notices one by one. The loop ends after an error, which is that of Next.
func (w *FieldWatch) Events(ctx context.Context) iter.Seq2[FieldNotice, error] {
	return each(ctx, w.Next)
}

// Stop ends the watch. Next fails from now on.
func (w *FieldWatch) Stop() { w.w.Stop() }

func (w *FieldWatch) notice(n kv.Notice) FieldNotice {
	told := FieldNotice{Kind: n.Kind, Revision: n.Revision, More: n.More}
	for i := range n.Events {
		e := n.Events[i].Entry
		if e.Deleted() {
			continue // purged
		}
		name, ok := field.ParseField(w.table, e.Key)
		if ok && (w.logic == "" || w.logic == name.Owner.Logic) {
			told.Changes = append(told.Changes, FieldChange{name, e.Value.Data, e.Value.Type == kv.Removed, e.Mod})
		}
	}
	return told
}
