package storage

import (
	"cmp"
	"encoding/binary"
	"maps"
	"slices"

	"confcenter/codes"
	"confcenter/kv"
	"confcenter/storage/field"
)

// Do makes a change. It does not wait: done is called exactly once, from any goroutine, also
// before Do returns, and must not hold that goroutine up. Writes to one owner take effect in
// the order of the calls. The write belongs to the Storage until done is called, its names and
// values for good.
func (s *Storage) Do(w *Write, done func(*Outcome, error)) {
	j, err := s.newJob(w, done)
	if err != nil {
		done(nil, err)
		return
	}
	if s.base.open.Load() {
		j.start()
		return
	}
	s.base.whenThere(func(err error) {
		if err != nil {
			done(nil, err)
			return
		}
		j.start()
	})
}

// job is one Write on its way.
type job struct {
	s    *Storage
	w    *Write
	done func(*Outcome, error)

	region *region
	names  []string // of the fields it is about, without those that are only expected
	first  string   // the key of the first of them
	owner  string   // the owner's key, with which it begins
	size   int      // bytes of names and values

	plain

	// Of one that is alone:
	tries   int
	settled bool              // a transaction has shown that memory has all earlier writes
	states  map[string]*state // of the last attempt
	loaded  *rowSet           // what the database has of the owner, as far as it was read
}

// plain is what a job has that is not dependent, with room for one field, as most have: the
// whole of it is allocated in one piece.
type plain struct {
	write kv.Write
	given [1]*kv.Write
	txn   kv.Txn
	op    [1]kv.Op
	name  [1]string
	out   Outcome
	wrote [1]Field
}

// id is the owner's among all.
func (j *job) id() string { return j.region.ns + "/" + j.owner }

func (s *Storage) newJob(w *Write, done func(*Outcome, error)) (*job, error) {
	if err := w.Owner.Check(); err != nil {
		return nil, err
	}
	l := lookups.Get().(*lookup)
	defer l.done()
	a := ask(l, nil, w.Owner.App, w.Owner.Region, w.Owner.Logic, w.Owner.ID)
	j := &job{s: s, w: w, done: done, region: s.names.named(a.ns, &w.Owner)}
	if err := j.check(a.owner); err != nil {
		return nil, err
	}
	var some [2 * field.MaxColumn]byte
	j.first = string(field.AppendName(append(some[:0], a.owner...), j.names[0]))
	j.owner = j.first[:len(a.owner)]
	return j, nil
}

// check judges all that can be judged without looking at the fields. It puts them in order:
// whoever repeats a write may name them in another one.
func (j *job) check(owner []byte) error {
	w := j.w
	switch w.Kind {
	case Update:
		slices.SortFunc(w.Fields, func(a, b Field) int { return cmp.Compare(a.Name, b.Name) })
		j.names = j.room(len(w.Fields))
		for i := range w.Fields {
			j.names[i] = w.Fields[i].Name
			if n := len(w.Fields[i].Value); n > kv.MaxValue {
				return codes.Errorf(codes.TooLarge, "the value of field %.64q has %d bytes, the limit is %d", j.names[i], n, kv.MaxValue)
			}
			j.size += len(w.Fields[i].Value)
		}
	case Incr:
		slices.SortFunc(w.Deltas, func(a, b Delta) int { return cmp.Compare(a.Name, b.Name) })
		j.names = j.room(len(w.Deltas))
		for i := range w.Deltas {
			j.names[i] = w.Deltas[i].Name
		}
	case Remove, Restore:
		j.names = slices.Clone(w.Names)
		slices.Sort(j.names)
		j.names = slices.Compact(j.names)
	default:
		return codes.Errorf(codes.BadOp, "there is no such write")
	}
	if len(j.names) == 0 {
		return codes.Errorf(codes.BadRequest, "%s of no fields: name one at least", w.Kind)
	}
	if n := max(len(j.names), len(w.Expect)); n > field.MaxFields {
		return codes.Errorf(codes.TooManyOps, "%s has %d fields, the limit of one write is %d", w.Kind, n, field.MaxFields)
	}
	for i, name := range j.names {
		if err := w.Owner.CheckField(owner, name); err != nil {
			return err
		}
		if i > 0 && name == j.names[i-1] {
			return codes.Errorf(codes.BadRequest, "%s names field %.64q twice", w.Kind, name)
		}
		j.size += len(owner) + len(name)
	}
	for name := range w.Expect {
		if err := w.Owner.CheckField(owner, name); err != nil {
			return err
		}
		j.size += len(owner) + len(name)
	}
	if j.size > kv.MaxTxnBytes {
		return codes.Errorf(codes.TooLarge, "%s has %d bytes of keys and values, the limit of one write is %d", w.Kind, j.size, kv.MaxTxnBytes)
	}
	return kv.CheckToken(w.Token)
}

// room is room for so many names.
func (p *plain) room(n int) []string {
	if n == len(p.name) {
		return p.name[:]
	}
	return make([]string, n)
}

func (j *job) start() {
	if c := j.s.cold; c != nil {
		c.use(hashOf(j.region.ns, j.owner)) // before lines and entries are looked at, see evict.go
	}
	goOn, err := j.s.lines.join(j, false)
	switch {
	case err != nil:
		j.done(nil, err)
	case goOn:
		j.run(false)
	}
}

// run begins the job, and reports whether it keeps the line if the caller has it.
func (j *job) run(hasLine bool) (keeps bool) {
	if !j.dependent() {
		j.commit()
		return false
	}
	if !hasLine {
		if goOn, err := j.s.lines.join(j, true); err != nil {
			j.done(nil, err)
			return false
		} else if !goOn {
			return false
		}
	}
	if err := j.attempt(); err != nil {
		j.done(nil, err)
		if !hasLine {
			j.s.lines.leave(j)
		}
		return false
	}
	return true
}

// dependent reports whether the job depends on what the fields are at present, beyond what an
// operation of the store takes into account by itself.
func (j *job) dependent() bool {
	w := j.w
	if w.Kind == Remove || w.Kind == Restore || len(w.Expect) > 0 {
		return true
	}
	return (w.Kind == Incr || w.WantPrev) && j.s.cold != nil && !j.s.cold.absentOrHere(j)
}

func (j *job) key(name string) string {
	if name == j.names[0] {
		return j.first
	}
	var some [2 * field.MaxColumn]byte
	return string(field.AppendName(append(some[:0], j.owner...), name))
}

// begin makes a transaction without operations.
func (j *job) begin(txn *kv.Txn) *kv.Txn {
	txn.System, txn.Must, txn.Actor = true, true, j.w.Actor
	if j.w.Token != "" {
		txn.Token, txn.TokenNS, txn.Asked = j.w.Token, j.region.ns, j.asked()
	}
	return txn
}

// commit hands the transaction of a job that is not dependent over.
func (j *job) commit() {
	p := &j.plain
	j.begin(&p.txn).Then = j.set(p.op[:0])
	p.write.Txn, p.write.For, p.given[0] = &p.txn, j, &p.write
	if _, err := j.s.store.CommitEach(committed{}, p.given[:]); err != nil {
		j.finish(nil, err, false)
	}
}

// committed tells jobs what has become of their transactions.
type committed struct{}

// Committed implements kv.Caller.
func (committed) Committed(writes []*kv.Write) {
	for _, w := range writes {
		j := w.For.(*job)
		if w.Err != nil {
			j.finish(nil, j.named(w.Err), false)
			continue
		}
		j.finish(j.outcome(w.Txn, &w.Result), nil, false)
	}
}

// set appends the operations of an Update or an Incr of fields that need not be looked at.
func (j *job) set(ops []kv.Op) []kv.Op {
	ops = slices.Grow(ops, len(j.names))
	for i, name := range j.names {
		op := kv.Op{NS: j.region.ns, Key: j.key(name), WantPrev: j.w.WantPrev}
		if j.w.Kind == Incr {
			op.Kind, op.Delta = kv.OpIncr, j.w.Deltas[i].By
		} else {
			op.Kind, op.Value = kv.OpPut, valueOf(j.w.Fields[i].Value)
		}
		ops = append(ops, op)
	}
	return ops
}

// submit hands the transaction of a job that has a line over. It tries again if what it was
// made for has changed.
func (j *job) submit(txn *kv.Txn) {
	err := j.s.store.Commit(txn, func(res *kv.Result, err error) {
		switch {
		case codes.Of(err) == codes.Conflict:
			j.again()
		case err != nil:
			j.finish(nil, j.named(err), true)
		default:
			j.finish(j.outcome(txn, res), nil, true)
		}
	})
	if err != nil {
		j.finish(nil, err, true)
	}
}

func (j *job) finish(out *Outcome, err error, alone bool) {
	j.done(out, err)
	if alone {
		j.s.lines.leave(j)
	}
}

// named says which field an increment failed for.
func (j *job) named(err error) error {
	if code := codes.Of(err); j.w.Kind != Incr || code != codes.WrongType && code != codes.Overflow {
		return err
	}
	for _, d := range j.w.Deltas {
		e, _ := j.s.store.Get([]byte(j.region.ns), []byte(j.key(d.Name)))
		if !live(e) {
			continue
		}
		if why := cannotAdd(d, e.Value); why != nil {
			return why
		}
	}
	return err
}

// cannotAdd says why a delta cannot be added to a value.
func cannotAdd(d Delta, to kv.Value) error {
	if to.Type != kv.Int {
		return codes.Errorf(codes.WrongType, "field %q is not a number, so that nothing was incremented", d.Name)
	}
	if n, err := to.Int(); err == nil && (n+d.By > n) != (d.By > 0) && d.By != 0 {
		return codes.Errorf(codes.Overflow, "field %q is %d: adding %d leaves 64 bits, so that nothing was incremented", d.Name, n, d.By)
	}
	return nil
}

// outcome is what the caller is told. Of a write that was Replayed the store has the keys.
func (j *job) outcome(txn *kv.Txn, res *kv.Result) *Outcome {
	out := &j.out
	*out = Outcome{Revision: res.Revision, Replayed: res.Replayed, Fields: j.wrote[:0]}
	base := j.s.Base()
	wrote, values := res.Ops, res.Ops
	if j.w.Kind == Restore && txn.Token != "" {
		wrote, values = res.Ops[:len(res.Ops)/2], res.Ops[len(res.Ops)/2:]
	}
	for i := range wrote {
		e := values[i].Entry
		f := fieldOf(e, j.name(e.Key), base)
		f.Removed = j.w.Kind == Remove
		if j.w.Kind == Update || j.w.Kind == Remove {
			f.Value = nil // the caller has it, and a token does not
		}
		out.Fields = append(out.Fields, f)
		if prev, ok := j.before(wrote[i].Prev, f.Name, base); ok && !res.Replayed || wrote[i].Prev != nil && ok {
			out.Prev = append(out.Prev, prev)
		}
	}
	return out
}

// before is what a field was, with WantPrev.
func (j *job) before(prev *kv.Entry, name string, base int64) (Field, bool) {
	switch f := j.states[name]; {
	case !j.w.WantPrev:
	case prev != nil:
		return fieldOf(prev, name, base), live(prev)
	case f != nil && f.entry == nil:
		prev := f.field(name, base)
		return prev, prev.Version != 0
	}
	return Field{}, false
}

// name is that of a field of the job's owner.
func (j *job) name(key string) string {
	name, _ := field.ParseName(key[len(j.owner)+len(":"):])
	return name
}

// asked is the request as bytes, for the token.
func (j *job) asked() []byte {
	w := j.w
	b := []byte{byte(w.Kind), 0}
	if w.WantPrev {
		b[1] = 1
	}
	text := func(s string) { b = append(binary.AppendUvarint(b, uint64(len(s))), s...) }
	text(j.owner)
	b = binary.AppendUvarint(b, uint64(len(j.names)))
	for i, name := range j.names {
		text(name)
		switch w.Kind {
		case Update:
			text(string(w.Fields[i].Value))
		case Incr:
			b = binary.AppendVarint(b, w.Deltas[i].By)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w.Expect)) {
		text(name)
		b = binary.AppendVarint(b, w.Expect[name])
	}
	return b
}
