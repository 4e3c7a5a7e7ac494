package guard

import (
	"fmt"
	"strings"

	"confcenter/access/policy"
	"confcenter/access/seal"
	"confcenter/codes"
	"confcenter/kv"
	"confcenter/kv/kvjson"
	"confcenter/op"
)

// Reveals reports whether the caller may know a value that was sealed there: config:NAME or
// kv:NAMESPACE/KEY. It is a
// right to where a value comes from, wherever it is read.
func (c *Caller) Reveals(origin string) bool {
	if c == nil {
		return true
	}
	if name, ok := strings.CutPrefix(origin, seal.OfDocument); ok {
		return c.Sees(op.Document(policy.Reveal, name))
	}
	ns, key, ok := seal.KeyOf(origin)
	return ok && c.Sees(op.Key(policy.Reveal, ns, key))
}

// Revealed is valid JSON with those of its sealed values revealed that the caller may know; valid
// itself if there are none. The result is the caller's alone, and not to be kept for others.
func (c *Caller) Revealed(ring *seal.Ring, valid []byte) []byte {
	if ring == nil || !seal.Has(valid) {
		return valid
	}
	return ring.AppendRevealed(nil, valid, c.Reveals)
}

// SealTxn seals the values of a transaction that are to be, or what is within JSON values. Its token then stands for what was
// asked, which a digest tells nobody who lacks the keys. What cannot be sealed is refused.
func SealTxn(ring *seal.Ring, t *kv.Txn) error {
	for i := range t.If {
		if err := Unsealed(t.If[i].Value); err != nil {
			return err
		}
	}
	asked := false
	for _, ops := range [...][]kv.Op{t.Then, t.Else} {
		for i := range ops {
			op := &ops[i]
			if op.Kind != kv.OpPut || !op.Seal && (op.Value.Type != kv.JSON || !seal.Asks(op.Value.Data)) {
				continue
			}
			if !asked && t.Token != "" && ring.Seals() {
				sum := ring.Digest(spelled(t))
				t.Asked = sum[:]
			}
			asked = true
			sealed, err := sealedValue(ring, op)
			switch {
			case err != nil:
				return err
			case len(sealed) > kv.MaxValue:
				return codes.Errorf(codes.TooLarge, "value has %d bytes when it is sealed, the limit is %d", len(sealed), kv.MaxValue)
			}
			op.Value, op.Seal = kv.JSONValue(sealed), false
		}
	}
	return nil
}

// sealedValue is the JSON that stands for the value of a put, or for what is to be sealed in it.
func sealedValue(ring *seal.Ring, op *kv.Op) ([]byte, error) {
	origin := seal.OfKey(op.NS, op.Key)
	if !op.Seal {
		return ring.Seal(origin, op.Value.Data)
	}
	if err := op.CheckValue(); err != nil {
		return nil, err
	}
	text := kvjson.AppendValue(nil, op.Value)
	if op.Value.Type != kv.JSON {
		return ring.SealTyped(origin, op.Value.Type.String(), text)
	}
	return ring.Seal(origin, append(append([]byte(`{"$seal":`), text...), '}'))
}

// Unsealed refuses a value to be sealed where none can be: in a comparison, for it is sealed to
// something else each time, and in a lock, which tells everybody who holds it.
func Unsealed(v kv.Value) error {
	if v.Type == kv.JSON && seal.Asks(v.Data) {
		return codes.Errorf(codes.BadRequest, "a value to be sealed ($seal) can only be put: compare mod or version instead, and keep secrets out of locks; nothing was written")
	}
	return nil
}

// spelled is all of a transaction that makes it another one.
func spelled(t *kv.Txn) []byte {
	b := fmt.Appendf(nil, "%x [", t.Fences)
	for i, c := range t.If {
		if i > 0 {
			b = append(b, ' ')
		}
		b = fmt.Appendf(b, "{%x %x %x %x %x {%x %x}}", c.NS, c.Key, c.Target, c.Relation, c.Number, c.Value.Type, c.Value.Data)
	}
	b = append(b, ']')
	for _, ops := range [...][]kv.Op{t.Then, t.Else} {
		b = append(b, ';')
		for _, op := range ops {
			for _, bound := range [...]*int64{op.Min, op.Max} {
				if bound != nil {
					b = fmt.Appendf(b, " %d", *bound)
				}
				b = append(b, ',')
			}
			b = fmt.Appendf(b, " %d %t %t %x/%x %d %x %d %d %d %d %d %d", op.Kind, op.WantPrev, op.Seal, op.NS, op.Key, op.Value.Type, op.Value.Data,
				op.TTL, op.Expires, op.Lease, op.Delta, op.Initial, op.Limit)
		}
	}
	return b
}

// Revealer reveals what a caller may know of what is read. The nil Revealer reveals nothing. What it is
// given stays as it is, because it is others', too, and is returned where there is nothing to reveal.
// What it returns is the caller's alone.
type Revealer struct {
	caller *Caller
	ring   func() *seal.Ring
}

// Revealer reveals to the caller, for as long as it is asked on the caller's goroutine or c is [Caller.Apart],
// if asked is set.
func (c *Caller) Revealer(ring func() *seal.Ring, asked bool) *Revealer {
	if !asked {
		return nil
	}
	return &Revealer{c, ring}
}

// Entry reveals an entry of a key, which may be nil.
func (r *Revealer) Entry(e *kv.Entry) *kv.Entry {
	if r == nil || e == nil || e.Value.Type != kv.JSON || !seal.Has(e.Value.Data) {
		return e
	}
	ring := r.ring()
	if ring == nil {
		return e
	}
	revealed := *e
	if value, ok := opened(r.caller, ring, e.Value.Data); ok {
		revealed.Value = value
	} else {
		revealed.Value.Data = r.caller.Revealed(ring, e.Value.Data)
	}
	return &revealed
}

// Entries reveals entries of keys.
func (r *Revealer) Entries(list []*kv.Entry) []*kv.Entry {
	if r == nil {
		return list
	}
	revealed := make([]*kv.Entry, len(list))
	for i, e := range list {
		revealed[i] = r.Entry(e)
	}
	return revealed
}

// Results reveals what operations have found and left.
func (r *Revealer) Results(list []kv.OpResult) []kv.OpResult {
	if r == nil {
		return list
	}
	revealed := make([]kv.OpResult, len(list))
	for i, res := range list {
		res.Entry, res.Prev = r.Entry(res.Entry), r.Entry(res.Prev)
		revealed[i] = res
	}
	return revealed
}

// Events reveals changes of keys.
func (r *Revealer) Events(list []kv.Event) []kv.Event { return eachEntry(list, r.Entry) }

// Documents reveals changes of documents, which stay JSON whatever was sealed.
func (r *Revealer) Documents(list []kv.Event) []kv.Event {
	return eachEntry(list, func(e *kv.Entry) *kv.Entry {
		if r == nil || e == nil || !seal.Has(e.Value.Data) {
			return e
		}
		revealed := *e
		revealed.Value.Data = r.caller.Revealed(r.ring(), e.Value.Data)
		return &revealed
	})
}

func eachEntry(list []kv.Event, one func(*kv.Entry) *kv.Entry) []kv.Event {
	revealed := make([]kv.Event, len(list))
	for i, e := range list {
		e.Entry, e.Prev = one(e.Entry), one(e.Prev)
		revealed[i] = e
	}
	return revealed
}

// opened is the value of a type of its own that a mark stands for, if valid is nothing else.
func opened(c *Caller, ring *seal.Ring, valid []byte) (v kv.Value, ok bool) {
	o, ok := ring.OpenWhole(valid, c.Reveals)
	if !ok || o.Type == "" {
		return v, false
	}
	typ, err := kv.ParseType(o.Type)
	if err != nil {
		return v, false
	}
	if v, err = kvjson.ParseValue(typ, o.Value); err != nil {
		return kv.Value{}, false
	}
	return v, true
}
