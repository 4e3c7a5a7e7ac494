package guard

import (
	"fmt"
	"strings"

	"confcenter/access/policy"
	"confcenter/access/seal"
	"confcenter/codes"
	"confcenter/kv"
)

// Reveals reports whether the caller may know a value that was sealed there: config:NAME or
// kv:NAMESPACE/KEY. It is a
// right to where a value comes from, wherever it is read.
func (c *Caller) Reveals(origin string) bool {
	if c == nil {
		return true
	}
	if name, ok := strings.CutPrefix(origin, seal.OfDocument); ok {
		return c.Document(policy.Reveal, name) == nil
	}
	name, ok := strings.CutPrefix(origin, ofKey)
	ns, key, named := strings.Cut(name, "/")
	return ok && named && c.Key(policy.Reveal, []byte(unescapeNS.Replace(ns)), []byte(key)) == nil
}

// Revealed is valid JSON with those of its sealed values revealed that the caller may know; valid
// itself if there are none. The result is the caller's alone, and not to be kept for others.
func (c *Caller) Revealed(ring *seal.Ring, valid []byte) []byte {
	if ring == nil || !seal.Has(valid) {
		return valid
	}
	return ring.AppendRevealed(nil, valid, c.Reveals)
}

// ofKey begins the origins of values that were sealed in keys; namespace and key follow.
const ofKey = "kv:"

// A slash in a namespace must not end it.
var (
	escapeNS   = strings.NewReplacer("%", "%25", "/", "%2F")
	unescapeNS = strings.NewReplacer("%25", "%", "%2F", "/")
)

// SealTxn seals the JSON values of a transaction that ask for it. Its token then stands for what was
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
			if op.Kind != kv.OpPut || op.Value.Type != kv.JSON || !seal.Asks(op.Value.Data) {
				continue
			}
			if !asked && t.Token != "" && ring.Seals() {
				sum := ring.Digest(spelled(t))
				t.Asked = sum[:]
			}
			asked = true
			sealed, err := ring.Seal(ofKey+escapeNS.Replace(op.NS)+"/"+op.Key, op.Value.Data)
			switch {
			case err != nil:
				return err
			case len(sealed) > kv.MaxValue:
				return codes.Errorf(codes.TooLarge, "value has %d bytes when it is sealed, the limit is %d", len(sealed), kv.MaxValue)
			}
			op.Value.Data = sealed
		}
	}
	return nil
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
	b := fmt.Appendf(nil, "%x %x", t.Fences, t.If)
	for _, ops := range [...][]kv.Op{t.Then, t.Else} {
		b = append(b, ';')
		for _, op := range ops {
			for _, bound := range [...]*int64{op.Min, op.Max} {
				if bound != nil {
					b = fmt.Appendf(b, " %d", *bound)
				}
				b = append(b, ',')
			}
			b = fmt.Appendf(b, " %d %t %x/%x %d %x %d %d %d %d %d %d", op.Kind, op.WantPrev, op.NS, op.Key, op.Value.Type, op.Value.Data,
				op.TTL, op.Expires, op.Lease, op.Delta, op.Initial, op.Limit)
		}
	}
	return b
}

// RevealedEntry is an entry of which the sealed values are revealed that the caller may know; e
// itself if there are none.
func RevealedEntry(c *Caller, ring *seal.Ring, e *kv.Entry) *kv.Entry {
	if e == nil || e.Value.Type != kv.JSON || ring == nil || !seal.Has(e.Value.Data) {
		return e
	}
	revealed := *e
	revealed.Value.Data = c.Revealed(ring, e.Value.Data)
	return &revealed
}
