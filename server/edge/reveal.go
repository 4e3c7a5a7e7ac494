package edge

import (
	"fmt"

	"confcenter/access/guard"
	"confcenter/access/secret"
	"confcenter/codes"
	"confcenter/kv"
	"confcenter/kv/kvjson"
)

// Revealed is valid JSON with those of its sealed values revealed that the sender may know; valid
// itself if there are none. The result is the sender's alone, and not to be kept for others.
func (r *Request) Revealed(valid []byte) []byte { return r.Revealer(true).text(valid) }

// Hides reports whether there may be sealed values in a text, if they can be revealed at all.
func (r *Request) Hides(text []byte) bool { return secret.Has(text) && r.Ring() != nil }

// AppendRevealed is Revealed for JSON that is known to have sealed values.
func (r *Request) AppendRevealed(dst, valid []byte) []byte {
	return r.Ring().AppendRevealed(dst, valid, r.Rights.Reveals)
}

// Seal seals the values of a transaction that are to be, or what is within JSON values. Its token then stands for what was
// asked, which a digest tells no one who lacks the keys. What cannot be sealed is refused.
func (r *Request) Seal(t *kv.Txn) error {
	ring := r.Ring()
	for i := range t.If {
		if err := Unsealed(t.If[i].Value); err != nil {
			return err
		}
	}
	asked := false
	for _, ops := range [...][]kv.Op{t.Then, t.Else} {
		for i := range ops {
			op := &ops[i]
			if !op.Kind.Has(kv.MemberSeal) {
				if err := Unsealed(op.Value); err != nil {
					return err
				}
				continue
			}
			if !op.Seal && (op.Value.Type != kv.JSON || !secret.Asks(op.Value.Data)) {
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
func sealedValue(ring *secret.Ring, op *kv.Op) ([]byte, error) {
	origin := secret.OfKey(op.NS, op.Key)
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
// something else each time, and in a lock, whose value tells everyone who holds it.
func Unsealed(v kv.Value) error {
	if v.Type == kv.JSON && secret.Asks(v.Data) {
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

// Revealer reveals what a sender may know of what is read. The nil Revealer reveals nothing. What it is
// given stays as it is, because it is others', too, and is returned where there is nothing to reveal.
// What it returns is the caller's alone.
type Revealer struct {
	caller *guard.Caller
	ring   func() *secret.Ring
}

// Revealer reveals sealed values to the sender, if that is asked for.
func (r *Request) Revealer(asked bool) *Revealer {
	if !asked {
		return nil
	}
	return &Revealer{r.Rights, r.Ring}
}

// text reveals what is sealed in valid JSON.
func (r *Revealer) text(valid []byte) []byte {
	if ring := r.ring(); ring != nil && secret.Has(valid) {
		return ring.AppendRevealed(nil, valid, r.caller.Reveals)
	}
	return valid
}

// Entry reveals an entry of a key, which may be nil.
func (r *Revealer) Entry(e *kv.Entry) *kv.Entry {
	if r == nil || e == nil || e.Value.Type != kv.JSON {
		return e
	}
	if value, ok := r.opened(e.Value.Data); ok {
		return with(e, value)
	}
	return r.document(e)
}

// document reveals an entry that stays JSON whatever was sealed.
func (r *Revealer) document(e *kv.Entry) *kv.Entry {
	if r == nil || e == nil || !secret.Has(e.Value.Data) || r.ring() == nil {
		return e
	}
	return with(e, kv.Value{Type: e.Value.Type, Data: r.text(e.Value.Data)})
}

func with(e *kv.Entry, v kv.Value) *kv.Entry {
	revealed := *e
	revealed.Value = v
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

// Documents reveals changes of documents.
func (r *Revealer) Documents(list []kv.Event) []kv.Event { return eachEntry(list, r.document) }

func eachEntry(list []kv.Event, one func(*kv.Entry) *kv.Entry) []kv.Event {
	revealed := make([]kv.Event, len(list))
	for i, e := range list {
		e.Entry, e.Prev = one(e.Entry), one(e.Prev)
		revealed[i] = e
	}
	return revealed
}

// opened is the value of a type of its own that a mark stands for, if valid is nothing else.
func (r *Revealer) opened(valid []byte) (v kv.Value, ok bool) {
	ring := r.ring()
	if ring == nil || !secret.Has(valid) {
		return v, false
	}
	o, ok := ring.OpenWhole(valid, r.caller.Reveals)
	if !ok || o.Type == "" {
		return v, false
	}
	typ, err := kv.ParseType(o.Type)
	if err == nil {
		v, err = kvjson.ParseValue(typ, o.Value)
	}
	return v, err == nil
}
