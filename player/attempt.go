package player

import (
	"maps"
	"slices"

	"confcenter/codes"
	"confcenter/kv"
	"confcenter/player/field"
)

// maxTries is how often a write is attempted. Writes that were on their way before it had its
// line can interfere with the first attempts only.
const maxTries = 8

func (j *job) again() {
	j.settled = true
	if j.tries++; j.tries >= maxTries {
		j.finish(nil, codes.Errorf(codes.Busy, "owner %q is being changed by others all the time; try again", j.owner))
		return
	}
	j.goOn()
}

// goOn is attempt for a job that has a line already.
func (j *job) goOn() {
	if err := j.attempt(); err != nil {
		j.finish(nil, err)
	}
}

// state is what a field was when a transaction was made: the entry, or else the row.
type state struct {
	key   string
	entry *kv.Entry
	row   *field.Row
}

// value is the field's live value.
func (f *state) value() (kv.Value, bool) {
	switch {
	case f.entry != nil:
		return f.entry.Value, live(f.entry)
	case f.row != nil && !f.row.Removed:
		return valueOf(f.row.Value), true
	}
	return kv.Value{}, false
}

// removed is the last value of a field that is removed, if it was not so long ago that it is to
// be purged.
func (f *state) removed(s *Storage) ([]byte, bool) {
	switch {
	case f.entry != nil:
		return f.entry.Value.Data, !live(f.entry) && !s.lapsed(f.entry.Updated)
	case f.row != nil:
		return f.row.Value, f.row.Removed && !s.lapsed(f.row.RemovedAt)
	}
	return nil, false
}

func (f *state) field(name string, base int64) field.Field {
	switch {
	case live(f.entry):
		return fieldOf(f.entry, name, base)
	case f.entry == nil && f.row != nil && !f.row.Removed:
		return rowField(f.row)
	}
	return field.Field{Name: name}
}

// same is the condition that the field is still as it was.
func (f *state) same(ns string) kv.Compare {
	if f.entry == nil {
		return kv.Absent(ns, f.key)
	}
	return kv.Compare{NS: ns, Key: f.key, Target: kv.CompareMod, Relation: kv.Equal, Number: int64(f.entry.Mod)}
}

// attempt makes a transaction for the fields as they are, and hands it over. It holds only if
// they are still so; otherwise the job tries again. It fails if the job cannot wait for the
// database; any other end is the job's own.
func (j *job) attempt() error {
	states, missing, err := j.look()
	if missing || err != nil {
		return err // or again, once they are loaded
	}
	j.states = states
	txn := j.begin(new(kv.Txn))
	for _, name := range slices.Sorted(maps.Keys(states)) {
		txn.If = append(txn.If, states[name].same(j.region.ns))
	}
	err = j.decide(txn, states)
	if err != nil && j.settled {
		j.finish(nil, err)
		return nil
	}
	if err != nil {
		// Earlier writes may be on their way, and the token may be known: ask the store, by a
		// transaction that cannot change anything.
		txn.Then = nil
		txn.If = []kv.Compare{{NS: j.region.ns, Key: j.key(j.names[0]), Target: kv.CompareVersion, Relation: kv.Less}}
	}
	j.submit(txn)
	return nil
}

// look returns what all fields are that the job is about.
func (j *job) look() (states map[string]*state, missing bool, err error) {
	names := slices.Concat(j.names, slices.Collect(maps.Keys(j.w.Expect)))
	states = make(map[string]*state, len(names))
	reads := make([]kv.Read, len(names))
	for i, name := range names {
		f := &state{key: j.key(name)}
		states[name] = f
		reads[i] = kv.Read{NS: []byte(j.region.ns), Key: []byte(f.key)}
	}
	j.s.store.GetEach(reads)
	var absent []string
	for i, name := range names {
		states[name].entry = reads[i].Entry
		if reads[i].Entry == nil {
			absent = append(absent, name)
		}
	}
	if len(absent) > 0 && j.s.cold != nil {
		known, err := j.s.cold.fill(j, states, absent)
		return states, !known, err
	}
	return states, false, nil
}

// decide adds the operations to the transaction, or says why there can be none.
func (j *job) decide(txn *kv.Txn, states map[string]*state) error {
	if err := j.expected(states); err != nil {
		return err
	}
	switch j.w.Kind {
	case field.Update, field.Incr:
		return j.decideSet(txn, states)
	case field.Remove:
		for _, name := range j.names {
			if v, ok := states[name].value(); ok {
				j.put(txn, states[name], kv.Value{Type: kv.Removed, Data: v.Data})
			}
		}
		return nil
	}
	for _, name := range j.names {
		f := states[name]
		if data, ok := f.removed(j.s); ok {
			j.put(txn, f, valueOf(data))
		} else if _, ok := f.value(); !ok {
			return codes.Errorf(codes.NotFound, "there is no removed field %q to restore", name)
		}
	}
	if txn.Token != "" { // what a token remembers of a put is without its value
		for i := range txn.Then {
			txn.Then = append(txn.Then, kv.Op{Kind: kv.OpGet, NS: j.region.ns, Key: txn.Then[i].Key})
		}
	}
	return nil
}

func (j *job) decideSet(txn *kv.Txn, states map[string]*state) error {
	txn.Then = j.set(nil)
	if j.w.Kind == field.Update {
		return nil
	}
	for i, d := range j.w.Deltas {
		v, ok := states[d.Name].value()
		if !ok {
			continue
		}
		if err := cannotAdd(d, v); err != nil {
			return err
		}
		if states[d.Name].entry == nil {
			txn.Then[i].Initial, _ = v.Int()
		}
	}
	return nil
}

func (j *job) put(txn *kv.Txn, f *state, v kv.Value) {
	txn.Then = append(txn.Then, kv.Op{Kind: kv.OpPut, NS: j.region.ns, Key: f.key, Value: v, WantPrev: j.w.WantPrev})
}

// expected reports whether the fields have the expected versions.
func (j *job) expected(states map[string]*state) error {
	var other []field.Field
	base := j.s.Base()
	for _, name := range slices.Sorted(maps.Keys(j.w.Expect)) {
		if f := states[name].field(name, base); f.Version != j.w.Expect[name] {
			other = append(other, f)
		}
	}
	if len(other) > 0 {
		return &field.Mismatch{Fields: other}
	}
	return nil
}
