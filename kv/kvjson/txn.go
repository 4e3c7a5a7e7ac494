package kvjson

import (
	"cmp"
	"slices"
	"strings"

	"confcenter/codes"
	"confcenter/internal/jsontext"
	"confcenter/kv"
)

// nameIn returns the index of name, or 0, whose name is empty.
func nameIn(names []string, name []byte) int {
	return max(0, slices.IndexFunc(names, func(one string) bool { return one == string(name) }))
}

// Txn reads a transaction. The default namespace is that of the message, or else
// ns. The parts are read in their order in the JSON, because that is the order of
// their octets.
func (r *Reader) Txn(ns string, t *kv.Txn) {
	if own := r.Text(&r.Top, NS); own != nil {
		ns = string(own)
	}
	parts := [...]Field{If, Then, Else}
	slices.SortFunc(parts[:], func(f, g Field) int { return cmp.Compare(r.Top.at[f], r.Top.at[g]) })
	for _, f := range parts {
		switch f {
		case If:
			r.compares(t, ns)
		case Then:
			t.Then = r.ops(f, ns)
		case Else:
			t.Else = r.ops(f, ns)
		}
	}
	r.Conditions(t, ns)
}

func (r *Reader) compares(t *kv.Txn, ns string) {
	list := r.Elements(&r.Top, If, kv.MaxCompares)
	if list.Len > 0 {
		t.If = make([]kv.Compare, 0, list.Len)
	}
	var o Object
	for r.Next(&list, &o) {
		t.If = append(t.If, r.compare(&o, ns))
	}
}

func (r *Reader) compare(o *Object, ns string) kv.Compare {
	o.allow(r.dialect, compareFields)
	var c kv.Compare
	c.NS, c.Key = r.Names(o, ns, Key)
	if c.Target = kv.Target(nameIn(kv.TargetNames[:], r.Text(o, Target))); c.Target == 0 {
		r.Bad(Target, "value, version, create or mod")
	}
	c.Relation = kv.Equal
	if op := r.Text(o, Op); op != nil {
		if c.Relation = kv.Relation(nameIn(kv.RelationNames[:], op)); c.Relation == 0 {
			r.Bad(Op, "=, !=, < or >")
		}
	}
	switch {
	case c.Target == kv.CompareValue:
		c.Value = r.NeedValue(o, 0)
	case !o.Has(Number):
		r.Bad(Number, "an integer of 64 bits")
	default:
		c.Number = r.Number(o, Number)
	}
	return c
}

func (r *Reader) ops(f Field, ns string) []kv.Op {
	list := r.Elements(&r.Top, f, kv.MaxOps)
	if list.Len == 0 || r.err != nil {
		return nil
	}
	ops := make([]kv.Op, 0, list.Len)
	var o Object
	for r.Next(&list, &o) {
		o.allow(r.dialect, opFields)
		ops = ops[:len(ops)+1]
		if kind, ok := kv.ParseOp(string(r.Text(&o, Op))); ok {
			r.Op(&o, kind, ns, &ops[len(ops)-1])
		} else {
			r.Fail(codes.Errorf(codes.BadOp, "there is no operation %q: use %s", cut(r.Text(&o, Op)), knownOps()))
		}
	}
	return ops
}

// knownOps lists the operations for an error text.
func knownOps() string {
	var names []string
	for _, kind := range kv.OpKinds() {
		names = append(names, kind.String())
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// Conditions reads token and if_fence, which every write may have. ns is the
// namespace of the token, and the default of fences.
func (r *Reader) Conditions(t *kv.Txn, ns string) {
	r.Token(t, ns)
	if m := r.Top.member(IfFence); m != nil && m.Kind == jsontext.Object {
		var o Object
		r.Enter(0, m.Raw, &o)
		r.fence(&o, t, ns)
		r.Leave(&o)
		return
	}
	var o Object
	for list := r.Elements(&r.Top, IfFence, kv.MaxCompares); r.Next(&list, &o); {
		r.fence(&o, t, ns)
	}
}

// Token reads the request token, which belongs to the namespace ns.
func (r *Reader) Token(t *kv.Txn, ns string) {
	if token := r.Text(&r.Top, Token); len(token) > 0 {
		t.Token, t.TokenNS = string(token), ns
	}
}

// everyField is what a fence in a File may have.
var everyField = fieldSet{^uint64(0), ^uint64(0)}

func (r *Reader) fence(o *Object, t *kv.Txn, ns string) {
	o.allow(r.dialect, everyField)
	if !o.Has(Fence) {
		r.Fail(codes.Errorf(codes.BadRequest, "if_fence has no member fence: give the token of the lock"))
	}
	space, key := r.Names(o, ns, Key)
	t.Fences = append(t.Fences, kv.Fence{NS: space, Key: key, Token: kv.Revision(r.Number(o, Fence))})
}

// Expect reads the condition of a compare-and-swap: the expected value, or null if
// there is none.
func (r *Reader) Expect() kv.Compare {
	m := r.Top.find(Expect)
	switch {
	case m == nil:
		r.Fail(codes.Errorf(codes.BadRequest, "member expect is missing: give the expected value, or null if there is none"))
	case m.Kind == jsontext.Null:
		return kv.Absent("", "")
	case m.Kind != jsontext.Object:
		r.Bad(Expect, "an object with a value, or null")
	default:
		var o Object
		r.Enter(0, m.Raw, &o)
		c := kv.Compare{Target: kv.CompareValue, Relation: kv.Equal, Value: r.NeedValue(&o, 0)}
		r.Leave(&o)
		return c
	}
	return kv.Compare{}
}

// Expect appends what Expect reads.
func (w *Writer) Expect(c *kv.Compare) {
	if c.Target != kv.CompareValue {
		w.Null(Expect)
		return
	}
	w.Open(Expect, '{')
	w.Value(c.Value)
	w.Close('}')
}

// Txn appends the conditions and operations of a transaction. ns is the default
// namespace.
func (w *Writer) Txn(t *kv.Txn, ns string) {
	if len(t.If) > 0 {
		w.Open(If, '[')
		for i := range t.If {
			w.Element()
			w.compare(&t.If[i], ns)
			w.Close('}')
		}
		w.Close(']')
	}
	for i, ops := range [2][]kv.Op{t.Then, t.Else} {
		if len(ops) == 0 {
			continue
		}
		w.Open([2]Field{Then, Else}[i], '[')
		for j := range ops {
			w.Element()
			w.Text(Op, ops[j].Kind.String())
			if ops[j].Kind.Has(kv.MemberKey | kv.MemberPrefix) {
				w.name(ops[j].NS, ns)
			}
			w.Op(&ops[j])
			w.Close('}')
		}
		w.Close(']')
	}
}

// name appends a namespace unless it is the message's.
func (w *Writer) name(ns, base string) {
	if ns != base {
		w.Text(NS, ns)
	}
}

func (w *Writer) compare(c *kv.Compare, ns string) {
	w.name(c.NS, ns)
	w.Text(Key, c.Key)
	w.Text(Target, kv.TargetNames[c.Target])
	w.Text(Op, kv.RelationNames[c.Relation])
	if c.Target == kv.CompareValue {
		w.Value(c.Value)
	} else {
		w.Number(Number, c.Number)
	}
}

// Conditions appends token and fences.
func (w *Writer) Conditions(t *kv.Txn, ns string) {
	w.TextGiven(Token, t.Token)
	if len(t.Fences) == 0 {
		return
	}
	w.Open(IfFence, '[')
	for i := range t.Fences {
		w.Element()
		w.name(t.Fences[i].NS, ns)
		w.Text(Key, t.Fences[i].Key)
		w.Number(Fence, int64(t.Fences[i].Token))
		w.Close('}')
	}
	w.Close(']')
}
