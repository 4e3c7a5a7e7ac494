package protocol

import (
	"confcenter/codes"
	"confcenter/internal/jsontext"
	"confcenter/kv"
)

var targetNames = [...]string{kv.CompareValue: "value", kv.CompareVersion: "version", kv.CompareCreate: "create", kv.CompareMod: "mod"}

var relationNames = [...]string{kv.Equal: "=", kv.NotEqual: "!=", kv.Less: "<", kv.Greater: ">"}

// nameIn is the index of name; 0 if it has none.
func nameIn(names []string, name []byte) int {
	for i := 1; i < len(names); i++ {
		if names[i] == string(name) {
			return i
		}
	}
	return 0
}

// txn reads KVTXN's request. The parts are read in the order in which they stand in
// the JSON, because that is the order of their octets.
func (m *message) txn(w *KVWrite) {
	t := new(kv.Txn)
	w.Txn, w.Raw = t, m.top.flag(fieldRaw)
	ns := string(m.text(&m.top, fieldNS))
	parts := [...]field{fieldIf, fieldThen, fieldElse}
	sortByPlace(&m.top, &parts)
	for _, f := range parts {
		switch f {
		case fieldIf:
			m.compares(t, ns)
		case fieldThen:
			t.Then = m.ops(f, ns)
		case fieldElse:
			t.Else = m.ops(f, ns)
		}
	}
	w.then, w.other = formsOf(t.Then), formsOf(t.Else)
	m.conditions(t, ns)
}

func sortByPlace(o *object, parts *[3]field) {
	for i := range parts {
		for j := i; j > 0 && o.at[parts[j-1]] > o.at[parts[j]]; j-- {
			parts[j-1], parts[j] = parts[j], parts[j-1]
		}
	}
}

// elements is how many elements an array has, but not more than one above limit.
func elements(o *object, f field, limit int) int {
	member, n := o.member(f), 0
	if member == nil || member.Kind != jsontext.Array {
		return 0
	}
	for it := jsontext.Iterate(member.Raw); n <= limit && it.Next(); {
		n++
	}
	return n
}

func (m *message) compares(t *kv.Txn, ns string) {
	n := elements(&m.top, fieldIf, kv.MaxCompares)
	if n > kv.MaxCompares {
		m.fail(codes.Errorf(codes.TooManyOps, "if has more conditions than the limit of %d", kv.MaxCompares))
		return
	}
	if n > 0 {
		t.If = make([]kv.Compare, 0, n)
	}
	m.array(&m.top, fieldIf, func(raw []byte, _ jsontext.Kind) {
		var o object
		m.enter(0, raw, &o)
		t.If = append(t.If, m.compare(&o, ns))
		m.within(fieldIf, len(t.If)-1)
	})
}

// within says in which element of an array the fault is.
func (m *message) within(f field, i int) {
	if m.err != nil {
		m.err = codes.Errorf(codes.Of(m.err), "%s %d: %w", fieldNames[f], i, m.err)
	}
}

func (m *message) compare(o *object, ns string) kv.Compare {
	var c kv.Compare
	c.NS, c.Key = m.names(o, ns, fieldKey)
	if c.Target = kv.Target(nameIn(targetNames[:], m.text(o, fieldTarget))); c.Target == 0 {
		m.badMember(fieldTarget, "value, version, create or mod")
	}
	c.Relation = kv.Equal
	if o.has(fieldOp) {
		if c.Relation = kv.Relation(nameIn(relationNames[:], m.text(o, fieldOp))); c.Relation == 0 {
			m.badMember(fieldOp, "=, !=, < or >")
		}
	}
	switch {
	case c.Target == kv.CompareValue:
		c.Value = m.given(o, 0)
	case !o.has(fieldNumber):
		m.badMember(fieldNumber, "an integer of 64 bits")
	default:
		c.Number = m.number(o, fieldNumber)
	}
	return c
}

func (m *message) ops(f field, ns string) []kv.Op {
	n := elements(&m.top, f, kv.MaxOps)
	if n > kv.MaxOps {
		m.fail(codes.Errorf(codes.TooManyOps, "%s has more operations than the limit of %d", fieldNames[f], kv.MaxOps))
		return nil
	}
	var ops []kv.Op
	if n > 0 {
		ops = make([]kv.Op, 0, n)
	}
	m.array(&m.top, f, func(raw []byte, _ jsontext.Kind) {
		var o object
		m.enter(0, raw, &o)
		ops = ops[:len(ops)+1]
		if kind, ok := kv.ParseOp(string(m.text(&o, fieldOp))); ok {
			m.op(&o, KVTxn, kind, ns, &ops[len(ops)-1])
		} else {
			m.fail(codes.Errorf(codes.BadOp, "there is no operation %q: use get, put, delete, delete_prefix, incr, grant or revoke", cut(m.text(&o, fieldOp))))
		}
		m.within(f, len(ops)-1)
	})
	return ops
}

// cut bounds what an error shows of a request.
func cut(text []byte) []byte { return text[:min(len(text), 40)] }
