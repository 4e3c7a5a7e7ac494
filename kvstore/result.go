package kvstore

import (
	"encoding/binary"
	"time"

	"confcenter/codes"
	"confcenter/kv"
)

// The results remembered for request tokens have an encoding of their own. It omits what
// the transaction itself contains (keys, the values it puts), since a repeated request
// carries that again.

// resultFormat is the first byte of a stored result. Format 1 stored revisions as they
// are. Since then 0 stands for the transaction's own revision, which only the log knows
// for certain, and any other revision is stored plus 1. A transaction that says itself what
// it was Asked may be repeated by other operations: its result also has the number of
// operations, and the names of the keys; an empty namespace is that of the key before.
const (
	resultFormat         = 2
	absoluteResultFormat = 1
	askedResultFormat    = 3
)

// relative encodes a revision in the result of a transaction that has the revision own.
func relative(rev, own kv.Revision) uint64 {
	if rev == own {
		return 0
	}
	return uint64(rev) + 1
}

// The parts that an operation's result has.
const (
	hasEntry = 1 << iota
	hasPrev
	hasMore
	hasLease
	hasCount
	hasEntryValue
	allParts = 1<<iota - 1
)

// resultSize returns how many bytes of values a stored result has.
func resultSize(txn *kv.Txn, r *kv.Result) int {
	ops := branch(txn, r.Held)
	size := 0
	for i := range r.Ops {
		if e := r.Ops[i].Entry; e != nil && ops[i].Kind != kv.OpPut {
			size += len(e.Value.Data)
		}
		if e := r.Ops[i].Prev; e != nil {
			size += len(e.Value.Data)
		}
	}
	return size
}

// appendResult appends the stored form of the result of a transaction that has the
// revision own.
func appendResult(b []byte, txn *kv.Txn, r *kv.Result, own kv.Revision) []byte {
	held := byte(0)
	if r.Held {
		held = 1
	}
	w := resultWriter{own: own, named: len(txn.Asked) > 0}
	format := byte(resultFormat)
	if w.named {
		format = askedResultFormat
	}
	b = append(b, format, held)
	b = binary.AppendUvarint(b, relative(r.Revision, own))
	if w.named {
		b = binary.AppendUvarint(b, uint64(len(r.Ops)))
	}
	ops := branch(txn, r.Held)
	for i := range r.Ops {
		b = w.op(b, &r.Ops[i], ops[i].Kind != kv.OpPut)
	}
	return b
}

// resultWriter is what all operations of a stored result share.
type resultWriter struct {
	own   kv.Revision
	named bool   // entries have their names
	ns    string // of the entry before
}

func (w *resultWriter) op(b []byte, r *kv.OpResult, withValue bool) []byte {
	var parts byte
	if r.Entry != nil {
		parts |= hasEntry
		if withValue {
			parts |= hasEntryValue
		}
	}
	if r.Prev != nil {
		parts |= hasPrev
	}
	if r.More {
		parts |= hasMore
	}
	if r.Lease.ID != 0 {
		parts |= hasLease
	}
	if r.Count != 0 {
		parts |= hasCount
	}
	b = append(b, parts)
	if r.Entry != nil {
		b = w.entry(b, r.Entry, withValue)
	}
	if r.Prev != nil {
		b = w.entry(b, r.Prev, true)
	}
	if r.Lease.ID != 0 {
		b = binary.AppendUvarint(b, relative(kv.Revision(r.Lease.ID), w.own)) // it is named after its revision
		b = binary.AppendUvarint(b, uint64(r.Lease.TTL))
	}
	if r.Count != 0 {
		b = binary.AppendUvarint(b, uint64(r.Count))
	}
	return b
}

func (w *resultWriter) entry(b []byte, e *kv.Entry, withValue bool) []byte {
	if w.named {
		ns := e.NS
		if ns == w.ns {
			ns = ""
		}
		w.ns = e.NS
		b = appendText(appendText(b, ns), e.Key)
	}
	for _, n := range [...]uint64{relative(e.Create, w.own), relative(e.Mod, w.own), uint64(e.Version), uint64(e.Updated), uint64(e.Expires), uint64(e.Lease)} {
		b = binary.AppendUvarint(b, n)
	}
	if withValue {
		b = appendValue(b, e.Value)
	}
	return b
}

// parseResult decodes what appendResult stored for the same transaction, which has the
// revision own.
func parseResult(stored []byte, txn *kv.Txn, own kv.Revision) (*kv.Result, error) {
	p := parser{rest: stored, own: own}
	format := p.byte()
	p.absolute, p.named = format == absoluteResultFormat, format == askedResultFormat
	if p.bad || (format != resultFormat && !p.absolute && !p.named) {
		return nil, codes.Errorf(codes.Internal, "the stored result of token %q has the unknown format %d", txn.Token, format)
	}
	r := &kv.Result{Held: p.byte() == 1, Revision: p.revision(), Replayed: true}
	if p.named {
		r.Ops = make([]kv.OpResult, p.length()) // each takes a byte at least
		for i := range r.Ops {
			p.opResult(&kv.Op{}, &r.Ops[i])
		}
	} else {
		ops := branch(txn, r.Held)
		r.Ops = make([]kv.OpResult, len(ops))
		for i := range ops {
			p.opResult(&ops[i], &r.Ops[i])
		}
	}
	if p.bad || len(p.rest) > 0 {
		return nil, codes.Errorf(codes.Internal, "the stored result of token %q is damaged", txn.Token)
	}
	return r, nil
}

// parser reads from rest. After the first error it returns only zero values.
type parser struct {
	rest     []byte
	bad      bool
	own      kv.Revision
	absolute bool
	named    bool
	ns       string // of the entry before, if they are named
}

func (p *parser) revision() kv.Revision {
	n := p.number()
	switch {
	case p.absolute || p.bad:
		return kv.Revision(n)
	case n == 0:
		return p.own
	}
	return kv.Revision(n - 1)
}

func (p *parser) byte() byte {
	if len(p.rest) == 0 {
		p.bad = true
		return 0
	}
	c := p.rest[0]
	p.rest = p.rest[1:]
	return c
}

func (p *parser) number() int64 {
	n, size := binary.Uvarint(p.rest)
	if size <= 0 {
		p.rest, p.bad = nil, true
		return 0
	}
	p.rest = p.rest[size:]
	return int64(n)
}

func (p *parser) opResult(op *kv.Op, r *kv.OpResult) {
	parts := p.byte()
	if parts&^byte(allParts) != 0 {
		p.bad = true
		return
	}
	if parts&hasEntry != 0 {
		r.Entry = p.entry(op, parts&hasEntryValue != 0)
	}
	if parts&hasPrev != 0 {
		r.Prev = p.entry(op, true)
	}
	if parts&hasLease != 0 {
		r.Lease.ID, r.Lease.TTL = kv.LeaseID(p.revision()), time.Duration(p.number())
		r.Lease.Left = r.Lease.TTL
	}
	if parts&hasCount != 0 {
		r.Count = p.number()
	}
	r.More = parts&hasMore != 0
}

func (p *parser) entry(op *kv.Op, withValue bool) *kv.Entry {
	e := &kv.Entry{NS: op.NS, Key: op.Key}
	if p.named {
		if ns := p.bytes(); len(ns) > 0 {
			p.ns = string(ns)
		}
		e.NS, e.Key = p.ns, string(p.bytes())
	}
	e.Create, e.Mod, e.Version = p.revision(), p.revision(), p.number()
	e.Updated, e.Expires, e.Lease = p.number(), p.number(), kv.LeaseID(p.number())
	if !withValue {
		return e
	}
	e.Value.Type = kv.Type(p.byte())
	e.Value.Data = p.bytes()
	return e
}

func (p *parser) bytes() []byte {
	n := p.length()
	b := p.rest[:n:n]
	p.rest = p.rest[n:]
	return b
}

// length reads a number that is not above that of the bytes that are left.
func (p *parser) length() int64 {
	n := p.number()
	if n < 0 || n > int64(len(p.rest)) {
		p.rest, p.bad = nil, true
		return 0
	}
	return n
}
