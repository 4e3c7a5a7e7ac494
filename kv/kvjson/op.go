package kvjson

import (
	"time"

	"confcenter/codes"
	"confcenter/kv"
)

// The members that a File may have in an operation and a compare even if they have
// no meaning there.
var (
	opFields      = setOf(NS, Key, Type, Value, Raw, Seal, Op, TTL, TTLMs, Expires, ExpiresMs, Lease, Prev, Prefix, Limit, By, Initial, Min, Max, Confirm)
	compareFields = setOf(NS, Key, Type, Value, Raw, Target, Op, Number)
)

// allow makes Leave accept fields in a File.
func (o *Object) allow(d Dialect, fields fieldSet) {
	if d == File {
		o.asked[0] |= fields[0]
		o.asked[1] |= fields[1]
	}
}

// Op reads the members of an operation of that kind. ns is the default namespace.
func (r *Reader) Op(o *Object, kind kv.OpKind, ns string, op *kv.Op) {
	op.Kind = kind
	has := kind.Members()
	if has&kv.MemberKey != 0 {
		op.NS, op.Key = r.Names(o, ns, Key)
	}
	if has&kv.MemberPrefix != 0 {
		if !o.Has(Prefix) {
			r.Fail(codes.Errorf(codes.BadRequest, "member prefix is missing"))
		}
		op.NS, op.Key = r.Names(o, ns, Prefix)
		op.Limit, op.Confirm = int(r.Count(o, Limit)), string(r.Text(o, Confirm))
	}
	if has&kv.MemberPrev != 0 {
		op.WantPrev = r.Flag(o, Prev)
	}
	r.Change(o, op)
}

// Change reads the members of an operation but for names and previous entry.
func (r *Reader) Change(o *Object, op *kv.Op) {
	has := op.Kind.Members()
	if has&kv.MemberEnds != 0 {
		r.Ends(o, op)
		op.Seal = r.Flag(o, Seal)
	}
	if has&kv.MemberValue != 0 {
		op.Value = r.NeedValue(o, kv.String)
	}
	if has&kv.MemberBy != 0 {
		op.Delta = 1
		if o.Has(By) {
			op.Delta = r.Number(o, By)
		}
		op.Initial = r.Number(o, Initial)
		op.Min, op.Max = r.optional(o, Min), r.optional(o, Max)
	}
	if has&kv.MemberTTL != 0 {
		op.TTL = r.TTL(o)
	}
	if has&kv.MemberLease != 0 {
		op.Lease = r.Lease(o)
	}
}

// Ends reads when a key expires, and its lease.
func (r *Reader) Ends(o *Object, op *kv.Op) {
	op.TTL, op.Expires = r.TTL(o), r.millis(o, Expires, ExpiresMs)
	op.Lease = kv.LeaseID(r.Count(o, Lease))
}

// TTL is 0 if absent. One of 0 is refused: it would count as none.
func (r *Reader) TTL(o *Object) time.Duration {
	n := r.millis(o, TTL, TTLMs)
	given := o.Has(TTL) || r.dialect != Wire && o.Has(TTLMs)
	if n < 0 || n > kv.MaxTTL.Milliseconds() || n == 0 && given {
		r.Fail(codes.Errorf(codes.BadTTL, "ttl of %d ms is out of range: the limits are 1 and %d; leave it out for none", n, kv.MaxTTL.Milliseconds()))
		return 0
	}
	return time.Duration(n) * time.Millisecond
}

// millis reads a number of ms, which has one name on the wire and another over
// HTTP.
func (r *Reader) millis(o *Object, wire, http Field) int64 {
	switch {
	case r.dialect == Wire:
		return r.Number(o, wire)
	case r.dialect == HTTP && o.Given(wire): // seconds to Plum, ms elsewhere
		r.Fail(codes.Errorf(codes.BadRequest, "member %q is not known here: give %s, in milliseconds", wire, http))
	case !o.Has(wire):
		return r.Number(o, http)
	case o.Has(http) && r.Number(o, http) != r.Number(o, wire):
		r.Fail(codes.Errorf(codes.BadTTL, "%s and %s differ: give one of them, in milliseconds", wire, http))
	}
	return r.Number(o, wire)
}

// Names copies a namespace (default ns) and a name in it. Both live as long as the
// key, so they share one allocation.
func (r *Reader) Names(o *Object, ns string, f Field) (string, string) {
	space, name := r.Text(o, NS), r.Text(o, f)
	if space == nil {
		return ns, string(name)
	}
	both := string(space) + string(name)
	return both[:len(space)], both[len(space):]
}

// Lease reads a lease, which must be given.
func (r *Reader) Lease(o *Object) kv.LeaseID {
	if !o.Has(Lease) {
		r.Fail(codes.Errorf(codes.BadRequest, "member lease is missing"))
	}
	if r.dialect.http() {
		return kv.LeaseID(r.Count(o, Lease))
	}
	return kv.LeaseID(r.Number(o, Lease))
}

// Op appends an operation's members without its kind and namespace.
func (w *Writer) Op(op *kv.Op) {
	has := op.Kind.Members()
	if has&kv.MemberKey != 0 {
		w.Text(Key, op.Key)
	}
	if has&kv.MemberPrefix != 0 {
		w.Text(Prefix, op.Key)
		w.Given(Limit, int64(op.Limit))
		w.TextGiven(Confirm, op.Confirm)
	}
	if has&kv.MemberValue != 0 {
		w.Value(op.Value)
		w.Flag(Seal, op.Seal)
	}
	if has&kv.MemberBy != 0 {
		w.Number(By, op.Delta)
		w.Given(Initial, op.Initial)
		w.bound(Min, op.Min)
		w.bound(Max, op.Max)
	}
	if has&kv.MemberEnds != 0 {
		w.Ends(op)
	}
	if has&kv.MemberTTL != 0 {
		w.Number(TTL, wholeMillis(op.TTL))
	}
	if has&kv.MemberLease != 0 {
		w.Number(Lease, int64(op.Lease))
	}
	w.Flag(Prev, op.WantPrev && has&kv.MemberKey != 0)
}

// Ends appends when a key expires, and its lease.
func (w *Writer) Ends(op *kv.Op) {
	w.Given(TTL, wholeMillis(op.TTL))
	w.Given(Expires, op.Expires)
	w.Given(Lease, int64(op.Lease))
}

// wholeMillis rounds up, like stores: a time to live never ends early.
func wholeMillis(d time.Duration) int64 { return int64((d + time.Millisecond - 1) / time.Millisecond) }

func (w *Writer) bound(f Field, n *int64) {
	if n != nil {
		w.Number(f, *n)
	}
}
