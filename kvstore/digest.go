package kvstore

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
	"sync"

	"confcenter/kv"
)

var digestBuffers = sync.Pool{New: func() any { return new([]byte) }}

// digestOf is the same for two transactions only if they ask for the same. Every
// text is preceded by its length and every list by its number, so that nothing
// can be read in two ways. It is stored: the encoding must never change.
//
// Who is known to ask is part of what is asked: no one gets the answer to another.
func digestOf(txn *kv.Txn) [16]byte {
	asked := digestOfTxn(txn)
	who := txn.Actor.Proved()
	if who == nil {
		return asked
	}
	sum := sha256.Sum256(append(asked[:], who.Name...))
	return [16]byte(sum[:16])
}

func digestOfTxn(txn *kv.Txn) [16]byte {
	if len(txn.Asked) > 0 {
		return digestOfAsked(txn.Asked)
	}
	buffer := digestBuffers.Get().(*[]byte)
	b := binary.AppendUvarint((*buffer)[:0], uint64(len(txn.Fences)))
	for i := range txn.Fences {
		f := &txn.Fences[i]
		b = binary.AppendVarint(appendText(appendText(b, f.NS), f.Key), int64(f.Token))
	}
	b = binary.AppendUvarint(b, uint64(len(txn.If)))
	for i := range txn.If {
		c := &txn.If[i]
		b = append(appendText(appendText(b, c.NS), c.Key), byte(c.Target), byte(c.Relation))
		b = appendValue(binary.AppendVarint(b, c.Number), c.Value)
	}
	for _, ops := range [2][]kv.Op{txn.Then, txn.Else} {
		b = binary.AppendUvarint(b, uint64(len(ops)))
		for i := range ops {
			b = appendOp(b, &ops[i])
		}
	}
	sum := sha256.Sum256(b)
	const mostKept = 64 << 10
	if cap(b) <= mostKept {
		*buffer = b
		digestBuffers.Put(buffer)
	}
	return [16]byte(sum[:16])
}

// digestOfAsked begins with a number that no transaction has of fences.
func digestOfAsked(asked []byte) [16]byte {
	h := sha256.New()
	_, _ = h.Write(binary.AppendUvarint(nil, math.MaxUint64)) // never fails
	_, _ = h.Write(asked)
	return [16]byte(h.Sum(nil)[:16])
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendValue(b []byte, v kv.Value) []byte {
	b = append(b, byte(v.Type))
	return append(binary.AppendUvarint(b, uint64(len(v.Data))), v.Data...)
}

func appendOp(b []byte, op *kv.Op) []byte {
	b = appendValue(appendText(appendText(append(b, byte(op.Kind)), op.NS), op.Key), op.Value)
	for _, n := range [...]int64{int64(op.TTL), op.Expires, int64(op.Lease), op.Delta, op.Initial, int64(op.Limit)} {
		b = binary.AppendVarint(b, n)
	}
	for _, bound := range [2]*int64{op.Min, op.Max} {
		if bound == nil {
			b = append(b, 0)
			continue
		}
		b = binary.AppendVarint(append(b, 1), *bound)
	}
	if op.WantPrev {
		return append(b, 1)
	}
	return append(b, 0)
}
