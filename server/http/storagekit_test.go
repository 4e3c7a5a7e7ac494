package http

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"confcenter/codes"
	"confcenter/kv"
	"confcenter/player"
	"confcenter/player/field"
)

// fakeStorage is as much of player storage as the routes can tell from the real one. It is
// used by one request at a time.
type fakeStorage struct {
	fields  map[field.Ref]field.Field
	version int64
	landed  int64               // all versions up to this one are landed
	tables  []field.TableStatus // as Status tells them
	refused []field.ErrorRow
	asked   []field.Ref   // of the last Retry or Drop
	confirm int64         // of the last Drop
	hold    chan struct{} // if it is set, writes wait for it to be closed
	holds   chan struct{} // gets one for each that waits
}

func newFakeStorage() *fakeStorage {
	return &fakeStorage{fields: map[field.Ref]field.Field{}, tables: []field.TableStatus{{
		Table: 0, List: "dirtyKey:0", Errors: "dirtyKey:0error", Dirty: 3, Oldest: storeTime - 5000, Refused: 1, Landed: 40, Last: storeTime - 2000, Rate: 7, Cursor: 9,
	}}}
}

// Load implements PlayerStorage, as do the others.
func (f *fakeStorage) Load(_ context.Context, o field.Owner, names []string) (list []field.Field, err error) {
	for _, name := range names {
		if field, ok := f.fields[field.Ref{Owner: o, Name: name}]; ok && !field.Removed {
			list = append(list, field)
		}
	}
	return list, o.Check()
}

func (f *fakeStorage) GetAll(_ context.Context, o field.Owner, ask field.Ask) (page field.Page, err error) {
	names := slices.SortedFunc(maps.Keys(f.fields), func(a, b field.Ref) int { return strings.Compare(a.Key(), b.Key()) })
	page.Revision = kv.Revision(f.version + 1)
	for _, name := range names {
		if field := f.fields[name]; name.Owner == o && !field.Removed && name.Name > ask.After {
			if page.More = ask.Limit > 0 && len(page.Fields) == ask.Limit; page.More {
				break
			}
			page.Fields = append(page.Fields, field)
		}
	}
	return page, o.Check()
}

func (f *fakeStorage) Do(w *field.Write, done func(*field.Outcome, error)) {
	if f.hold != nil {
		f.holds <- struct{}{}
		go func() {
			<-f.hold
			done(nil, codes.Closed)
		}()
		return
	}
	done(f.do(w))
}

func (f *fakeStorage) do(w *field.Write) (*field.Outcome, error) {
	if err := w.Owner.Check(); err != nil {
		return nil, err
	}
	mismatch := &field.Mismatch{}
	for name, version := range w.Expect {
		if now := f.fields[field.Ref{Owner: w.Owner, Name: name}]; now.Version != version {
			mismatch.Fields = append(mismatch.Fields, field.Field{Name: name, Version: now.Version})
		}
	}
	if len(mismatch.Fields) > 0 {
		return nil, mismatch
	}
	out := &field.Outcome{Replayed: w.Token == "again"}
	set := func(name string, change func(*field.Field)) {
		at := field.Ref{Owner: w.Owner, Name: name}
		field, was := f.fields[at]
		if was && w.WantPrev && !field.Removed {
			out.Prev = append(out.Prev, field)
		}
		f.version++
		field.Name, field.Version = name, f.version
		change(&field)
		f.fields[at] = field
		out.Fields = append(out.Fields, field)
	}
	for _, put := range w.Fields {
		set(put.Name, func(field *field.Field) { field.Value, field.Removed = put.Value, false })
	}
	for _, delta := range w.Deltas {
		set(delta.Name, func(field *field.Field) {
			n, _ := strconv.ParseInt(string(field.Value), 10, 64)
			field.Value = strconv.AppendInt(nil, n+delta.By, 10)
		})
	}
	for _, name := range w.Names {
		set(name, func(one *field.Field) { one.Removed = w.Kind == field.Remove })
	}
	out.Revision = kv.Revision(f.version)
	if len(out.Fields) == 0 {
		return nil, codes.Errorf(codes.BadRequest, "no field is named")
	}
	return out, nil
}

func (f *fakeStorage) Stats() player.Stats {
	return player.Stats{Queries: 1, Evicted: 2, PurgedFields: 3, PurgedRows: 4, Limits: []player.Limit{{Name: "pages", Use: 5, Most: 6, Met: 7}}}
}

func (f *fakeStorage) Regions() []field.Owner { return []field.Owner{{App: "1", Region: "1"}} }

func (f *fakeStorage) Owners(_ context.Context, app, region, logic, after string, limit int) (list []field.Owner, next string, err error) {
	for at := range f.fields {
		if o := at.Owner; o.App == app && o.Region == region && (logic == "" || o.Logic == logic) && o.Key() > after && !slices.Contains(list, o) {
			list = append(list, o)
		}
	}
	slices.SortFunc(list, func(a, b field.Owner) int { return strings.Compare(a.Key(), b.Key()) })
	if len(list) > limit {
		list, next = list[:limit], list[limit-1].Key()
	}
	return list, next, nil
}

func (f *fakeStorage) Count(ctx context.Context, app, region, logic string) (int64, error) {
	list, _, err := f.Owners(ctx, app, region, logic, "", 1<<30)
	return int64(len(list)), err
}

func (f *fakeStorage) LandedThrough(field.Owner) int64 { return f.landed }

func (f *fakeStorage) Status() []field.TableStatus { return f.tables }

func (f *fakeStorage) Errors(after field.Ref, limit int) (list []field.ErrorRow, more bool) {
	for _, e := range f.refused {
		if at := (field.Ref{Owner: e.Owner, Name: e.Name}); after.Name == "" || at.Key() > after.Key() {
			list = append(list, e)
		}
	}
	return list[:min(limit, len(list))], len(list) > limit
}

func (f *fakeStorage) Retry(_ context.Context, fields []field.Ref) (int, error) {
	f.asked = fields
	return len(f.refused), nil
}

func (f *fakeStorage) Drop(_ context.Context, fields []field.Ref, confirm int64) (int, error) {
	f.asked, f.confirm = fields, confirm
	if confirm == 0 {
		return 0, codes.Errorf(codes.Unconfirmed, "how many?")
	}
	return len(f.refused), nil
}
