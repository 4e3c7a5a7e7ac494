package kvjson

import (
	"time"

	"confcenter/internal/jsontext"
	"confcenter/kv"
)

// OpForm is what the form of a result depends on: the operation's kind, and whether
// the previous entry was asked for. The operation itself belongs to the store.
type OpForm uint8

const wantPrev OpForm = 0x80

// FormOf returns the form of an operation.
func FormOf(op *kv.Op) OpForm {
	if op.WantPrev {
		return OpForm(op.Kind) | wantPrev
	}
	return OpForm(op.Kind)
}

// FormsOf returns the forms of operations.
func FormsOf(ops []kv.Op) []OpForm {
	forms := make([]OpForm, len(ops))
	for i := range ops {
		forms[i] = FormOf(&ops[i])
	}
	return forms
}

func (f OpForm) kind() kv.OpKind { return kv.OpKind(f &^ wantPrev) }

// absent reports whether the result is the absence of an entry.
func (f OpForm) absent(res *kv.OpResult, d Dialect) bool {
	return res.Entry == nil && f.kind().HasEntry() && (d.http() || f.kind() == kv.OpGet)
}

// Results appends the results of a transaction's operations.
func (w *Writer) Results(forms []OpForm, res []kv.OpResult) {
	w.Open(Results, '[')
	for i := range min(len(forms), len(res)) {
		if forms[i].absent(&res[i], w.Dialect) {
			w.NullElement()
			continue
		}
		w.Element()
		w.Result(forms[i], &res[i])
		w.Close('}')
	}
	w.Close(']')
}

// Result appends the members of one operation's result.
func (w *Writer) Result(form OpForm, res *kv.OpResult) {
	http := w.Dialect.http()
	switch kind := form.kind(); {
	case kind.HasEntry():
		switch {
		case res.Entry == nil:
		case http:
			w.Named(res.Entry, true)
		default:
			w.Members(res.Entry, kind != kv.OpPut)
		}
	default:
		w.Number(Deleted, res.Count)
		if http && kind.Has(kv.MemberPrefix) {
			w.Bool(More, res.More)
		} else {
			w.Flag(More, res.More)
		}
	case kind.Has(kv.MemberTTL):
		ttl := TTL
		if http {
			ttl = TTLMs
		}
		w.Number(Lease, int64(res.Lease.ID))
		w.Number(ttl, res.Lease.TTL.Milliseconds())
	}
	if form&wantPrev != 0 {
		w.Entry(Prev, res.Prev)
	}
}

// Results reads the results of a transaction's operations.
func (r *Reader) Results(ops []kv.Op) []kv.OpResult {
	list := r.Elements(&r.Top, Results, len(ops)+1)
	if list.Len != len(ops) {
		r.Missing(Results)
		return nil
	}
	results := make([]kv.OpResult, len(ops))
	var o Object
	for i := 0; r.Next(&list, &o); i++ {
		switch {
		case list.Kind() != jsontext.Null:
			r.Result(&o, 1, &ops[i], &results[i])
		case ops[i].Kind != kv.OpGet:
			r.Missing(Results)
		}
	}
	return results
}

// Result reads the result of op from o; level is free for objects in o.
func (r *Reader) Result(o *Object, level int, op *kv.Op, res *kv.OpResult) {
	switch {
	case op.Kind.HasEntry():
		if op.Kind == kv.OpGet || o.Has(Mod) {
			res.Entry = r.Entry(o, op.NS, op.Key)
			if op.Kind == kv.OpPut && !op.Seal && !res.Entry.Deleted() {
				res.Entry.Value = op.Value // replies omit what the sender knows
			}
		}
	default:
		if !o.Has(Deleted) {
			r.Missing(Deleted)
		}
		res.Count, res.More = r.Number(o, Deleted), r.Flag(o, More)
	case op.Kind.Has(kv.MemberTTL):
		res.Lease = kv.Lease{ID: r.Lease(o), TTL: time.Duration(r.Number(o, TTL)) * time.Millisecond}
	}
	if op.WantPrev {
		res.Prev = r.EntryIn(o, Prev, level, op.NS, op.Key)
	}
}
