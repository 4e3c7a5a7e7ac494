package player

import (
	"cmp"
	"encoding/binary"
	"maps"
	"slices"

	"confcenter/codes"
	"confcenter/kv"
	"confcenter/player/field"
)

// Call is a Write and then what came of it. It can be used again once its caller was told,
// unless it is Kept.
type Call struct {
	field.Write
	For any // the caller's

	// set when the caller is told
	Outcome *field.Outcome // part of the Call
	Err     error

	job job
}

// Kept reports whether the Storage may still look at a Call whose caller was told.
func (c *Call) Kept() bool { return c.job.kept }

// Caller is who makes changes with DoEach, from one goroutine.
type Caller struct {
	// Done returns calls, from any goroutine, which it must not hold up: in one call of it
	// all that the store made durable in one go. The list belongs to the caller. Set before
	// DoEach.
	Done func([]*Call)

	writes []*kv.Write // to be handed over
}

// Do is DoEach for one change: done is called exactly once, also before Do returns.
func (s *Storage) Do(w *field.Write, done func(*field.Outcome, error)) {
	one := &struct {
		by   Caller
		call Call
	}{by: Caller{Done: func(list []*Call) { done(list[0].Outcome, list[0].Err) }}, call: Call{Write: *w}}
	s.DoEach(&one.by, []*Call{&one.call})
}

// DoEach makes changes, each for itself. It does not wait: the caller is told of each of them
// exactly once, maybe before DoEach returns. Writes to one owner take effect in the order of
// the calls. The Call belongs to the Storage until then, its names and values for good.
func (s *Storage) DoEach(by *Caller, calls []*Call) {
	for _, c := range calls {
		j := &c.job
		*j = job{s: s, w: &c.Write, call: c, by: by}
		if err := j.prepare(); err != nil {
			j.tell(nil, err)
			continue
		}
		if s.base.open.Load() {
			j.start(true)
			continue
		}
		s.base.whenThere(func(err error) {
			if err != nil {
				j.tell(nil, err)
				return
			}
			j.start(false)
		})
	}
	by.handOver(s.store)
}

// job is one Write on its way.
type job struct {
	s    *Storage
	w    *field.Write
	call *Call
	by   *Caller
	kept bool // it may have a line, or stand in one

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

// plain is what a job has that is not dependent, with room for one field, as most have.
type plain struct {
	write kv.Write
	given [1]*kv.Write
	txn   kv.Txn
	op    [1]kv.Op
	name  [1]string
	out   field.Outcome
	wrote [1]field.Field
}

// id is the owner's among all.
func (j *job) id() string { return j.region.ns + "/" + j.owner }

// prepare sets what does not depend on the fields.
func (j *job) prepare() error {
	o := &j.w.Owner
	if err := o.Check(); err != nil {
		return err
	}
	l := lookups.Get().(*lookup)
	defer l.done()
	a := ask(l, nil, o.App, o.Region, o.Logic, o.ID)
	j.region = j.s.names.named(a.ns, o)
	if err := j.check(a.owner); err != nil {
		return err
	}
	var some [2 * field.MaxColumn]byte
	j.first = string(field.AppendName(append(some[:0], a.owner...), j.names[0]))
	j.owner = j.first[:len(a.owner)]
	return nil
}

// check judges all that can be judged without looking at the fields. It puts them in order:
// a client that repeats a write may name them in another one.
func (j *job) check(owner []byte) error {
	w := j.w
	switch w.Kind {
	case field.Update:
		slices.SortFunc(w.Fields, func(a, b field.Field) int { return cmp.Compare(a.Name, b.Name) })
		j.names = j.room(len(w.Fields))
		for i := range w.Fields {
			j.names[i] = w.Fields[i].Name
			if n := len(w.Fields[i].Value); n > kv.MaxValue {
				return codes.Errorf(codes.TooLarge, "the value of field %.64q has %d bytes, the limit is %d", j.names[i], n, kv.MaxValue)
			}
			j.size += len(w.Fields[i].Value)
		}
	case field.Incr:
		slices.SortFunc(w.Deltas, func(a, b field.Delta) int { return cmp.Compare(a.Name, b.Name) })
		j.names = j.room(len(w.Deltas))
		for i := range w.Deltas {
			j.names[i] = w.Deltas[i].Name
		}
	case field.Remove, field.Restore:
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

// start begins the job. With gather, DoEach hands over what need not be alone.
func (j *job) start(gather bool) {
	if c := j.s.cold; c != nil {
		c.use(hashOf(j.region.ns, j.owner)) // before lines and entries are looked at, see evict.go
	}
	goOn, err := j.s.lines.join(j, false)
	switch {
	case err != nil:
		j.tell(nil, err)
	case !goOn:
	case gather && !j.dependent():
		j.by.writes = append(j.by.writes, j.commits())
	default:
		if gather {
			j.by.handOver(j.s.store) // which came before
		}
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
			j.tell(nil, err)
			return false
		} else if !goOn {
			return false
		}
	}
	if err := j.attempt(); err != nil {
		j.tell(nil, err)
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
	if w.Kind == field.Remove || w.Kind == field.Restore || len(w.Expect) > 0 {
		return true
	}
	// Where the database cannot be the right one, the write would never be landed.
	return j.s.cold != nil && (w.Kind == field.Incr || w.WantPrev || j.s.identity.closed.Load() != nil) && !j.s.cold.absentOrHere(j)
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

// commits makes the transaction of a job that is not dependent.
func (j *job) commits() *kv.Write {
	p := &j.plain
	j.begin(&p.txn).Then = j.set(p.op[:0])
	p.write.Txn, p.write.For = &p.txn, j
	return &p.write
}

// commit hands it over.
func (j *job) commit() {
	j.given[0] = j.commits()
	if _, err := j.s.store.CommitEach(j.by, j.given[:]); err != nil {
		j.tell(nil, err)
	}
}

// handOver gives the store what was gathered.
func (c *Caller) handOver(store kv.Store) {
	list := c.writes
	c.writes = list[:0]
	defer clear(list)
	for len(list) > 0 {
		taken, err := store.CommitEach(c, list)
		if list = list[taken:]; err != nil {
			list[0].For.(*job).tell(nil, err)
			list = list[1:]
		}
	}
}

// Committed implements kv.Caller.
func (c *Caller) Committed(writes []*kv.Write) {
	calls := make([]*Call, len(writes))
	for i, w := range writes {
		j := w.For.(*job)
		if w.Err != nil {
			j.call.Err = j.named(w.Err)
		} else {
			j.call.Outcome = j.outcome(w.Txn, &w.Result)
		}
		calls[i] = j.call
	}
	c.Done(calls)
}

// set appends the operations of an Update or an Incr of fields that need not be looked at.
func (j *job) set(ops []kv.Op) []kv.Op {
	ops = slices.Grow(ops, len(j.names))
	for i, name := range j.names {
		op := kv.Op{NS: j.region.ns, Key: j.key(name), WantPrev: j.w.WantPrev}
		if j.w.Kind == field.Incr {
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
			j.finish(nil, j.named(err))
		default:
			j.finish(j.outcome(txn, res), nil)
		}
	})
	if err != nil {
		j.finish(nil, err)
	}
}

// tell ends the job.
func (j *job) tell(out *field.Outcome, err error) {
	j.call.Outcome, j.call.Err = out, err
	j.by.Done([]*Call{j.call})
}

// finish ends a job that has a line.
func (j *job) finish(out *field.Outcome, err error) {
	j.tell(out, err)
	j.s.lines.leave(j)
}

// named says which field an increment failed for.
func (j *job) named(err error) error {
	if code := codes.Of(err); j.w.Kind != field.Incr || code != codes.WrongType && code != codes.Overflow {
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
func cannotAdd(d field.Delta, to kv.Value) error {
	if to.Type != kv.Int {
		return codes.Errorf(codes.WrongType, "field %q is not a number, so that nothing was incremented", d.Name)
	}
	if n, err := to.Int(); err == nil && (n+d.By > n) != (d.By > 0) && d.By != 0 {
		return codes.Errorf(codes.Overflow, "field %q is %d: adding %d leaves 64 bits, so that nothing was incremented", d.Name, n, d.By)
	}
	return nil
}

// outcome is what the caller is told. Of a write that was Replayed the store has the keys.
func (j *job) outcome(txn *kv.Txn, res *kv.Result) *field.Outcome {
	out := &j.out
	*out = field.Outcome{Revision: res.Revision, Replayed: res.Replayed, Fields: j.wrote[:0]}
	base := j.s.Base()
	wrote, values := res.Ops, res.Ops
	if j.w.Kind == field.Restore && txn.Token != "" {
		wrote, values = res.Ops[:len(res.Ops)/2], res.Ops[len(res.Ops)/2:]
	}
	for i := range wrote {
		e := values[i].Entry
		f := fieldOf(e, j.name(e.Key), base)
		f.Removed = j.w.Kind == field.Remove
		if j.w.Kind == field.Update || j.w.Kind == field.Remove {
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
func (j *job) before(prev *kv.Entry, name string, base int64) (field.Field, bool) {
	switch f := j.states[name]; {
	case !j.w.WantPrev:
	case prev != nil:
		return fieldOf(prev, name, base), live(prev)
	case f != nil && f.entry == nil:
		prev := f.field(name, base)
		return prev, prev.Version != 0
	}
	return field.Field{}, false
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
		case field.Update:
			text(string(w.Fields[i].Value))
		case field.Incr:
			b = binary.AppendVarint(b, w.Deltas[i].By)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w.Expect)) {
		text(name)
		b = binary.AppendVarint(b, w.Expect[name])
	}
	return b
}
