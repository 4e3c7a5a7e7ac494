package replica

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
// for certain, and any other revision is stored plus 1.
const (
	resultFormat         = 2
	absoluteResultFormat = 1
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
// revision own. named: the ID of a lease it granted is that revision.
func appendResult(b []byte, txn *kv.Txn, r *kv.Result, own kv.Revision, named bool) []byte {
	held := byte(0)
	if r.Held {
		held = 1
	}
	b = append(b, resultFormat, held)
	b = binary.AppendUvarint(b, relative(r.Revision, own))
	ops := branch(txn, r.Held)
	for i := range r.Ops {
		lease := uint64(r.Ops[i].Lease.ID) + 1
		if named {
			lease = relative(kv.Revision(r.Ops[i].Lease.ID), own)
		}
		b = appendOpResult(b, &r.Ops[i], own, lease, ops[i].Kind != kv.OpPut)
	}
	return b
}

func appendOpResult(b []byte, r *kv.OpResult, own kv.Revision, lease uint64, withValue bool) []byte {
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
		b = appendEntry(b, r.Entry, own, withValue)
	}
	if r.Prev != nil {
		b = appendEntry(b, r.Prev, own, true)
	}
	if r.Lease.ID != 0 {
		b = binary.AppendUvarint(b, lease)
		b = binary.AppendUvarint(b, uint64(r.Lease.TTL))
	}
	if r.Count != 0 {
		b = binary.AppendUvarint(b, uint64(r.Count))
	}
	return b
}

func appendEntry(b []byte, e *kv.Entry, own kv.Revision, withValue bool) []byte {
	for _, n := range [...]uint64{relative(e.Create, own), relative(e.Mod, own), uint64(e.Version), uint64(e.Updated), uint64(e.Expires), uint64(e.Lease)} {
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
	p.absolute = format == absoluteResultFormat
	if p.bad || (format != resultFormat && !p.absolute) {
		return nil, codes.Errorf(codes.Internal, "the stored result of token %q has the unknown format %d", txn.Token, format)
	}
	r := &kv.Result{Held: p.byte() == 1, Revision: p.revision(), Replayed: true}
	ops := branch(txn, r.Held)
	r.Ops = make([]kv.OpResult, len(ops))
	for i := range ops {
		p.opResult(&ops[i], &r.Ops[i])
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
	e.Create, e.Mod, e.Version = p.revision(), p.revision(), p.number()
	e.Updated, e.Expires, e.Lease = p.number(), p.number(), kv.LeaseID(p.number())
	if !withValue {
		return e
	}
	e.Value.Type = kv.Type(p.byte())
	n := p.number()
	if n < 0 || n > int64(len(p.rest)) {
		p.rest, p.bad = nil, true
		return e
	}
	e.Value.Data, p.rest = p.rest[:n:n], p.rest[n:]
	return e
}
