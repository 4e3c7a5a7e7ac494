package client

import (
	"context"
	"fmt"

	"confcenter/codes"
	"confcenter/kv"
	"confcenter/protocol"
)

// The operations, alone and as parts of a transaction: kvcalls.go has those that follow from their rows.

// PutString is Put of a string.
func (s *KV) PutString(ctx context.Context, key, v string, opts ...Option) (Written, error) {
	return s.Put(ctx, key, kv.StringValue(v), opts...)
}

// PutInt is Put of an int.
func (s *KV) PutInt(ctx context.Context, key string, v int64, opts ...Option) (Written, error) {
	return s.Put(ctx, key, kv.IntValue(v), opts...)
}

// PutDouble is Put of a double, nan and the infinities included.
func (s *KV) PutDouble(ctx context.Context, key string, v float64, opts ...Option) (Written, error) {
	return s.Put(ctx, key, kv.DoubleValue(v), opts...)
}

// PutBool is Put of a bool.
func (s *KV) PutBool(ctx context.Context, key string, v bool, opts ...Option) (Written, error) {
	return s.Put(ctx, key, kv.BoolValue(v), opts...)
}

// PutBytes is Put of any octets, which travel as they are. v is the value of
// Written.Entry, too.
func (s *KV) PutBytes(ctx context.Context, key string, v []byte, opts ...Option) (Written, error) {
	return s.Put(ctx, key, kv.BytesValue(v), opts...)
}

// PutJSON is Put of v as encoding/json would write it; a json.RawMessage is
// written as it is. codes.BadRequest for what has no JSON.
func (s *KV) PutJSON(ctx context.Context, key string, v any, opts ...Option) (Written, error) {
	text, err := decoding.Marshal(v)
	if err != nil {
		return Written{}, fmt.Errorf("put %s of %s: %w", key, s.ns, codes.Errorf(codes.BadRequest, "%T cannot be encoded as JSON: %w", v, err))
	}
	return s.Put(ctx, key, kv.JSONValue(text), opts...)
}

// CAS writes v if the key has exactly old, in type and text; nil means that the key
// is absent. Otherwise the error is codes.Conflict, and Written.Entry is what the key
// holds.
func (s *KV) CAS(ctx context.Context, key string, old *kv.Value, v kv.Value, opts ...Option) (Written, error) {
	expect := kv.Absent(s.ns, key)
	if old != nil {
		expect = kv.Compare{NS: s.ns, Key: key, Target: kv.CompareValue, Relation: kv.Equal, Value: *old}
	}
	return s.write(ctx, kv.Op{Kind: kv.OpPut, Key: key, Value: v}, []kv.Compare{expect}, opts)
}

// Incr adds by, which may be negative, to an int and returns the sum. An absent key
// counts as 0, or as WithInitial says. The error is codes.WrongType if the value has
// another type, and codes.Overflow or codes.OutOfBounds if the sum does not fit.
func (s *KV) Incr(ctx context.Context, key string, by int64, opts ...Option) (int64, error) {
	w, err := s.write(ctx, kv.Op{Kind: kv.OpIncr, Key: key, Delta: by}, nil, opts)
	if err != nil {
		return 0, err
	}
	if w.Entry == nil {
		return 0, fmt.Errorf("incr %s of %s: %w", key, s.ns, unreadable(&protocol.ReplyError{Member: "value"}))
	}
	return w.Entry.Value.Int()
}

// PutString is Put of a string.
func (t *Txn) PutString(key, v string, opts ...Option) *Txn {
	return t.Put(key, kv.StringValue(v), opts...)
}

// PutInt is Put of an int.
func (t *Txn) PutInt(key string, v int64, opts ...Option) *Txn {
	return t.Put(key, kv.IntValue(v), opts...)
}

// DeletePrefix removes up to kv.MaxDeletePrefix keys that begin with prefix, which must not
// be empty: see Drop.
func (t *Txn) DeletePrefix(prefix string) *Txn {
	if err := checkPrefix(prefix); err != nil && t.err == nil {
		t.err = fmt.Errorf("%s: %w", kv.OpDeletePrefix, err)
	}
	return t.Do(kv.Op{Kind: kv.OpDeletePrefix, Key: prefix})
}

// Drop removes up to kv.MaxDeletePrefix keys of the namespace, whatever they are called.
func (t *Txn) Drop() *Txn { return t.Do(kv.Op{Kind: kv.OpDeletePrefix, Confirm: t.s.ns}) }

// Get reads a key as the operations before it left it: OpResult.Entry, nil if it
// is absent.
func (t *Txn) Get(key string) *Txn { return t.add(kv.Op{Kind: kv.OpGet, Key: key}, nil) }
