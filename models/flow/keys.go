package flow

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"confcenter/access"
	"confcenter/codes"
	"confcenter/kv"
	"confcenter/kv/embedded"
)

// GetAsk is the question of Get.
type GetAsk struct {
	Scope string   `json:"scope,omitempty" doc:"the scope, cl if left out"`
	Keys  []string `json:"keys" arg:"1" doc:"the keys, at most 1000"`
}

// Entry is a key with its value.
type Entry struct {
	Key      string `json:"key" doc:"the key, without its scope"`
	Value    Raw    `json:"value" doc:"its value; null if it is absent"`
	Revision int64  `json:"revision" doc:"the store's revision that wrote it; 0 if it is absent"`
}

// GetAnswer is the answer of Get.
type GetAnswer struct {
	Entries []Entry `json:"entries" doc:"one for each key, in their order"`
}

// Get reads keys, as of one moment. That one is absent is no error.
func (f *Flow) Get(_ context.Context, _ *access.Actor, q *GetAsk) (*GetAnswer, error) {
	ns, err := Namespace(q.Scope)
	if err != nil {
		return nil, err
	}
	if len(q.Keys) == 0 || len(q.Keys) > MaxBatch {
		return nil, codes.Errorf(codes.BadRequest, "there are %d keys; ask for 1 to %d", len(q.Keys), MaxBatch)
	}
	for _, key := range q.Keys {
		if err := kv.CheckKey(key); err != nil {
			return nil, err
		}
	}
	got := f.store.GetMany(ns, q.Keys...)
	a, size := &GetAnswer{make([]Entry, len(got))}, 0
	for i, e := range got {
		a.Entries[i] = entry(q.Keys[i], e)
		if size += len(a.Entries[i].Value); size > 2*maxAnswer && len(got) > 1 {
			return nil, codes.Errorf(codes.TooLarge, "the values have more than %d bytes together; ask for fewer keys", 2*maxAnswer)
		}
	}
	return a, nil
}

func entry(key string, e *kv.Entry) Entry {
	if e == nil {
		return Entry{Key: key}
	}
	return Entry{key, toJSON(e.Value), int64(e.Mod)}
}

// ReadAsk is the question of Read.
type ReadAsk struct {
	Scope  string `json:"scope,omitempty" doc:"the scope, cl if left out"`
	Prefix string `json:"prefix,omitempty" arg:"1" doc:"what the keys begin with: node.N. are the fields of one node, node.N those of its replicas too; left out: all keys"`
	After  string `json:"after,omitempty" doc:"continue behind this key"`
	Limit  int64  `json:"limit,omitempty" doc:"at most so many keys; left out: 1000"`
}

// ReadAnswer is the answer of Read.
type ReadAnswer struct {
	Revision int64   `json:"revision" doc:"the store's revision; what changes after it can be watched"`
	Entries  []Entry `json:"entries" doc:"in the order of their keys"`
	Next     string  `json:"next,omitempty" doc:"if there are more: what to give as after"`
}

// Read reads all keys with a prefix.
func (f *Flow) Read(_ context.Context, _ *access.Actor, q *ReadAsk) (*ReadAnswer, error) {
	ns, err := Namespace(q.Scope)
	if err != nil {
		return nil, err
	}
	page, next, err := f.page(kv.List{NS: ns, Prefix: q.Prefix, After: q.After}, q.Limit)
	if err != nil {
		return nil, err
	}
	a := &ReadAnswer{Revision: int64(page.Revision), Entries: make([]Entry, len(page.Entries)), Next: next}
	for i, e := range page.Entries {
		a.Entries[i] = entry(e.Key, e)
	}
	return a, nil
}

// SetAsk is the question of Set.
type SetAsk struct {
	Scope   string     `json:"scope,omitempty" doc:"the scope, cl if left out"`
	Key     string     `json:"key,omitempty" arg:"1" doc:"a key"`
	Value   Raw        `json:"value,omitempty" arg:"2" doc:"its value, any JSON"`
	Entries []SetEntry `json:"entries,omitempty" doc:"further keys with their values, written together with it"`
	Who     string     `json:"who,omitempty" doc:"who makes the change; left out: the connection's name"`
	Token   string     `json:"token,omitempty" doc:"request token: a repetition has no further effect"`
}

// SetEntry is a key to write.
type SetEntry struct {
	Key   string `json:"key" doc:"a key"`
	Value Raw    `json:"value" doc:"its value, any JSON"`
}

// Set writes keys, all or none: fields of members that are there, and keys that begin with none
// of the layout's words. A number keeps all its digits. A member of cfapplist that is absent can
// be written as WAITING; that registers an application without anything in it.
func (f *Flow) Set(ctx context.Context, by *access.Actor, q *SetAsk) (*WriteAnswer, error) {
	e, err := f.edit(by, q.Scope, q.Who, q.Token, q)
	if err != nil {
		return nil, err
	}
	list := q.Entries
	if q.Key != "" {
		list = slices.Concat([]SetEntry{{q.Key, q.Value}}, list)
	}
	if len(list) == 0 || len(list) > MaxBatch {
		return nil, codes.Errorf(codes.BadRequest, "there are %d keys to write; give 1 to %d", len(list), MaxBatch)
	}
	var wrong []string
	keys, values := make([]Key, len(list)), make([]kv.Value, len(list))
	for i := range list {
		if keys[i], err = ParseKey(list[i].Key); err == nil {
			values[i], err = settable(keys[i], list[i].Value)
		}
		if err != nil {
			wrong = append(wrong, err.Error())
		}
	}
	if len(wrong) > 0 {
		return nil, faults(wrong)
	}
	return written(e.commit(ctx, func() error { return e.set(keys, values) }))
}

// settable is what a key may be written to, if it may be.
func settable(k Key, raw Raw) (kv.Value, error) {
	switch {
	case k.Form == Free:
		v, err := fromJSON(raw)
		if err != nil {
			err = fmt.Errorf("%s: %w", k, err)
		}
		return v, err
	case k.Form == Field:
		return fieldValue(k.Member, k.Field, raw)
	case k.Form == ListMember && k.Member.Kind == App && string(raw) == `"`+string(Waiting)+`"`:
		return kv.StringValue(string(Waiting)), nil
	}
	return kv.Value{}, fmt.Errorf("%s cannot be written directly: register, claim, status, join, lock and their like write it", k)
}

func (e *edit) set(keys []Key, values []kv.Value) error {
	changed := map[Member][]string{}
	for i, k := range keys {
		if k.Form == ListMember {
			v, _ := fields(k.Member, nil, nil)
			app := &part{newRecord(k.Member, nil), v}
			if err := e.newApp(app); err != nil {
				return err
			}
			e.create(&app.record, app.values, true)
			continue
		}
		if k.Form == Field {
			changed[k.Member] = append(changed[k.Member], k.Field)
		}
		e.put(k.String(), values[i])
	}
	if len(changed) > mostConds/2 {
		return codes.Errorf(codes.TooManyOps, "fields of %d members are written, the limit is %d", len(changed), mostConds/2)
	}
	for m, names := range changed {
		r, err := e.f.load(e.ns, m)
		if err != nil {
			return err
		}
		if err := e.room(m, names); err != nil {
			return err
		}
		const shown = 8
		what := strings.Join(names[:min(shown, len(names))], ", ")
		if more := len(names) - shown; more > 0 {
			what = fmt.Sprintf("%s and %d more", what, more)
		}
		e.whenSame(r.listKey(), r.list)
		e.touch(m, r.atime, "set "+what)
	}
	return nil
}

// room reports whether a member may have these fields too.
func (e *edit) room(m Member, names []string) error {
	keys := make([]string, len(names))
	for i, name := range names {
		keys[i] = m.field(name)
	}
	if !slices.Contains(e.f.store.GetMany(e.ns, keys...), nil) {
		return nil
	}
	all := map[string]struct{}{}
	for _, name := range names {
		all[name] = struct{}{}
	}
	if err := e.f.fields(e.ns, m, func(name string, _ *kv.Entry) error {
		all[name] = struct{}{}
		return nil
	}); err != nil {
		return err
	}
	if len(all) > MaxOwn {
		return codes.Errorf(codes.Limit, "%s would have %d fields, the limit is %d; delete some", m, len(all), MaxOwn)
	}
	return nil
}

// DeleteAsk is the question of Delete.
type DeleteAsk struct {
	Scope string `json:"scope,omitempty" doc:"the scope, cl if left out"`
	Key   string `json:"key" arg:"1" doc:"a key that begins with none of the layout's words, or a field that is none of the layout"`
	Below bool   `json:"below,omitempty" doc:"also all keys below it, which begin with it and a dot"`
	Who   string `json:"who,omitempty" doc:"who makes the change; left out: the connection's name"`
	Token string `json:"token,omitempty" doc:"request token: a repetition has no further effect"`
}

// DeleteAnswer is the answer of Delete.
type DeleteAnswer struct {
	Revision int64 `json:"revision" doc:"the store's revision that made the change"`
	Deleted  int64 `json:"deleted" doc:"how many keys were deleted"`
	More     bool  `json:"more,omitempty" doc:"there were too many for one transaction; delete again"`
}

// Delete deletes a key, and no other whose name only begins alike; or it and everything that is
// below it, but for locks, which end by themselves. Members of lists go by Remove.
func (f *Flow) Delete(ctx context.Context, by *access.Actor, q *DeleteAsk) (*DeleteAnswer, error) {
	e, err := f.edit(by, q.Scope, q.Who, q.Token, q)
	if err != nil {
		return nil, err
	}
	k, err := ParseKey(q.Key)
	if err != nil {
		return nil, err
	}
	own := k.Form == Field && !slices.Contains(kept, k.Field) && !slices.ContainsFunc(given, func(a attribute) bool { return a.name == k.Field })
	if k.Form != Free && !own {
		return nil, codes.Errorf(codes.BadRequest, "%s cannot be deleted by itself: remove deletes members, and attributes of the layout stay; set them", k)
	}
	res, err := e.commit(ctx, func() error {
		e.remove(q.Key)
		if k.Form == Free && q.Below {
			return e.removeFree(q.Key + ".")
		} else if k.Form == Free {
			return nil
		}
		r, err := f.load(e.ns, k.Member)
		if err != nil {
			return err
		}
		e.touch(k.Member, r.atime, "deleted "+k.Field)
		return nil
	})
	if err != nil {
		return nil, err
	}
	a := &DeleteAnswer{Revision: int64(res.Revision), Deleted: res.Ops[0].Count}
	if k.Form == Free {
		for i := range res.Ops[1:] {
			a.Deleted += res.Ops[1+i].Count
		}
		a.More = len(res.Ops) > mostOps
	}
	return a, nil
}

// removeFree deletes what is below a key that is free, as much as one transaction can.
func (e *edit) removeFree(prefix string) error {
	for one, err := range embedded.Each(e.f.store.List, kv.List{NS: e.ns, Prefix: prefix}) {
		if err != nil {
			return err
		}
		if k, err := ParseKey(one.Key); err == nil && k.Form == LockField {
			continue
		}
		if e.remove(one.Key); len(e.txn.Then) > mostOps {
			break
		}
	}
	return nil
}
