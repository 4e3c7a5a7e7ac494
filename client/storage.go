package client

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"strconv"

	"confcenter/codes"
	"confcenter/kv"
	"confcenter/player/field"
	"confcenter/protocol"
)

// Storage is the player storage of one app and region: fields of owners, which are in memory
// and durable at the server, and are landed in a database by it.
//
//	bag := c.Storage().Owner("bag", "42")
//	bag.Update(ctx, map[string][]byte{"name": []byte("Ann")})
//	sums, err := bag.Incr(ctx, map[string]int64{"gold": 5})
//	fields, err := bag.Get(ctx, "gold", "name")
//
// As for KV, each write has a token of its own, so that it is sent again after a lost
// connection and applied once; and every method may be called from any goroutine.
type Storage struct {
	c           *Client
	app, region string
}

// Storage returns the player storage of app 1 in region 1.
func (c *Client) Storage() *Storage { return c.StorageOf(field.DefaultID, field.DefaultID) }

// StorageOf returns the player storage of an app in a region. Nothing is sent.
func (c *Client) StorageOf(appID, regionID string) *Storage { return &Storage{c, appID, regionID} }

// Owner is something that has fields: a player's bag, a guild's ranks.
type Owner struct {
	s *Storage
	// Logic is the game's own division of data, such as the kind of owner; with ID it
	// identifies the owner.
	Logic, ID string
}

// Owner returns an owner, whether or not it has fields. Nothing is sent. If a name is not
// allowed, each method refuses it.
func (s *Storage) Owner(logicType, ownerID string) *Owner { return &Owner{s, logicType, ownerID} }

// StorageField is a field with its version, which rises with each change.
type StorageField = field.Field

// Changed is what a write to an owner has done.
type Changed struct {
	// Revision is the one that made the change, or at which there was nothing to change.
	Revision kv.Revision
	// Versions are those of the fields that were written. After a refusal with
	// codes.Conflict they are the present ones of the fields that do not have the expected
	// version.
	Versions map[string]int64
	Values   map[string]int64  // of Incr: the sums
	Fields   map[string][]byte // of Restore: the fields as they are now
	// Prev, with WithPrev, has what the fields were before, without those that were absent.
	Prev map[string][]byte
}

// IfVersions makes a write to an owner conditional: each of the fields must have that
// version, 0 for one that must be absent. Otherwise the error is codes.Conflict.
func IfVersions(versions map[string]int64) Option { return func(w *writing) { w.versions = versions } }

// Get reads fields by name. Those that are absent or removed are left out.
func (o *Owner) Get(ctx context.Context, names ...string) (map[string][]byte, error) {
	page, err := o.named(ctx, names, false)
	return values(page.Fields), during(err, "get of %s", o)
}

// GetVersions is Get with the fields' versions, for IfVersions. The order is undefined.
func (o *Owner) GetVersions(ctx context.Context, names ...string) ([]StorageField, error) {
	page, err := o.named(ctx, names, true)
	return page.Fields, during(err, "get of %s", o)
}

// maxRestarts is how often All begins again because others have written so much meanwhile
// that the state of the first page is no longer kept.
const maxRestarts = 3

// All reads all fields of the owner, as they are at one moment.
func (o *Owner) All(ctx context.Context) (map[string][]byte, error) {
	for restarts := 0; ; restarts++ {
		all, err := o.all(ctx)
		if err == nil || !errors.Is(err, codes.Compacted) || restarts == maxRestarts {
			return all, during(err, "all of %s", o)
		}
	}
}

func (o *Owner) all(ctx context.Context) (map[string][]byte, error) {
	all := map[string][]byte{}
	for q := (protocol.StorageQuery{Owner: o.id()}); ; {
		page, err := o.read(ctx, protocol.StAll, &q)
		if err != nil {
			return nil, err
		}
		maps.Copy(all, values(page.Fields))
		if page.Next == "" {
			return all, nil
		}
		q.After, q.Revision = page.Next, page.Revision
	}
}

func (o *Owner) named(ctx context.Context, names []string, versions bool) (protocol.StoragePage, error) {
	return o.read(ctx, protocol.StGet, &protocol.StorageNames{Owner: o.id(), Names: names, Versions: versions})
}

func (o *Owner) read(ctx context.Context, cmd protocol.Command, question any) (protocol.StoragePage, error) {
	return ask(ctx, o.s.c, cmd, protocol.AppendMessage(begin(cmd), question), asking, protocol.ParseStoragePage)
}

// Update sets fields and leaves all others as they are. A removed field lives again.
func (o *Owner) Update(ctx context.Context, fields map[string][]byte, opts ...Option) (Changed, error) {
	w := field.Write{Kind: field.Update, Fields: make([]field.Field, 0, len(fields))}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		w.Fields = append(w.Fields, field.Field{Name: name, Value: fields[name]})
	}
	return o.change(ctx, protocol.StUpdate, w, opts)
}

// Incr adds to fields, all of them or, with an error, none. An absent field counts as 0. The
// error is codes.WrongType if a field is not a number, and codes.Overflow if a sum would not
// fit 64 bits.
func (o *Owner) Incr(ctx context.Context, deltas map[string]int64, opts ...Option) (Changed, error) {
	w := field.Write{Kind: field.Incr}
	for _, name := range slices.Sorted(maps.Keys(deltas)) {
		w.Deltas = append(w.Deltas, field.Delta{Name: name, By: deltas[name]})
	}
	return o.change(ctx, protocol.StIncr, w, opts)
}

// Remove removes fields; Restore brings them back. Absent ones are not an error.
func (o *Owner) Remove(ctx context.Context, names []string, opts ...Option) (Changed, error) {
	return o.change(ctx, protocol.StRemove, field.Write{Kind: field.Remove, Names: names}, opts)
}

// Restore gives removed fields the values that they had last. Those that are there stay as
// they are. The error is codes.NotFound if one was never written.
func (o *Owner) Restore(ctx context.Context, names []string, opts ...Option) (Changed, error) {
	return o.change(ctx, protocol.StRestore, field.Write{Kind: field.Restore, Names: names}, opts)
}

func (o *Owner) change(ctx context.Context, cmd protocol.Command, write field.Write, opts []Option) (Changed, error) {
	w := written(opts)
	if err := w.aboutOwner(); err != nil {
		return Changed{}, during(err, "%s of %s", write.Kind, o)
	}
	write.Owner, write.Expect, write.WantPrev, write.Token = o.id(), w.versions, w.op.WantPrev, w.tokenOr(o.s.c.tokens)
	r, err := o.s.c.send(ctx, cmd, protocol.AppendStorageWrite(begin(cmd), &write), resendable(write.Token != ""))
	var done field.Outcome
	if err == nil {
		if done, err = protocol.ParseStorageOutcome(write.Kind, r.body); err != nil {
			err = unreadable(err)
		}
	}
	changed := Changed{Revision: done.Revision, Versions: byName(done.Fields, func(f field.Field) int64 { return f.Version })}
	if err != nil {
		return changed, during(err, "%s of %s", write.Kind, o)
	}
	switch write.Kind {
	case field.Incr:
		changed.Values = byName(done.Fields, func(f field.Field) int64 {
			sum, _ := strconv.ParseInt(string(f.Value), 10, 64) // the parser has read it
			return sum
		})
	case field.Restore:
		changed.Fields = values(done.Fields)
	}
	if write.WantPrev {
		changed.Prev = values(done.Prev)
	}
	return changed, nil
}

// aboutOwner refuses options that have no meaning for the fields of an owner.
func (w *writing) aboutOwner() error {
	switch op := w.op; {
	case w.err != nil:
		return w.err
	case op.TTL != 0 || op.Expires != 0 || op.Lease != 0 || w.bounded:
		return codes.Errorf(codes.BadRequest, "fields of owners have no time to live, no lease and no bounds")
	case len(w.ifs) > 0 || len(w.fences) > 0:
		return codes.Errorf(codes.BadRequest, "fields of owners are written on the condition of IfVersions only")
	}
	return nil
}

// Owners lists the owners that have fields, with logicType only those of that kind. It ends
// after an error, which comes with a nil owner.
func (s *Storage) Owners(ctx context.Context, logicType string) iter.Seq2[*Owner, error] {
	return paged(func(after string) (owners []*Owner, next string, _ error) {
		q := protocol.StorageOwnersQuery{App: s.app, Region: s.region, Logic: logicType, After: after}
		page, err := say[field.OwnerPage](ctx, s.c, protocol.StOwners, &q)
		for _, o := range page.Owners {
			owners = append(owners, s.Owner(o.Logic, o.ID))
		}
		return owners, page.Next, during(err, "owners")
	})
}

// CountOwners is how many Owners lists.
func (s *Storage) CountOwners(ctx context.Context, logicType string) (int64, error) {
	q := protocol.StorageOwnersQuery{App: s.app, Region: s.region, Logic: logicType, CountOnly: true}
	counted, err := say[field.Count](ctx, s.c, protocol.StOwners, &q)
	return counted.Count, during(err, "count of owners")
}

// String names the owner in errors.
func (o *Owner) String() string { return strconv.Quote(o.Logic + ":" + o.ID) }

func (o *Owner) id() field.Owner {
	return field.Owner{App: o.s.app, Region: o.s.region, Logic: o.Logic, ID: o.ID}
}

func values(fields []field.Field) map[string][]byte {
	return byName(fields, func(f field.Field) []byte { return f.Value })
}

func byName[V any](fields []field.Field, of func(field.Field) V) map[string]V {
	m := make(map[string]V, len(fields))
	for _, f := range fields {
		m[f.Name] = of(f)
	}
	return m
}

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
	return told, err
}

// Events yields the notices one by one. The loop ends after an error, which is that of Next.
func (w *FieldWatch) Events(ctx context.Context) iter.Seq2[FieldNotice, error] {
	return each(ctx, w.Next)
}

// Stop ends the watch. Next fails from now on.
func (w *FieldWatch) Stop() { w.w.Stop() }
