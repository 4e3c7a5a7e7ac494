package player

import (
	"context"
	"errors"
	"strconv"

	"confcenter/codes"
	"confcenter/kv"
	"confcenter/player/field"
)

// Claim gives a dirty table to the lander of that name, which no other one that runs may have,
// or prolongs its claim. The claim ends when it is given back, and when it was not prolonged for
// the lock time of the settings.
func (s *Storage) Claim(ctx context.Context, table int, who string) (field.Claim, error) {
	if who == "" {
		return field.Claim{}, codes.Errorf(codes.BadRequest, "a lander needs a name")
	}
	if b, err := s.Dirty(ctx, table, 1); err != nil || b == nil {
		return field.Claim{Idle: true}, err
	}
	ns, key := LockOf(table)
	e, _ := s.store.Get([]byte(ns), []byte(key))
	if e != nil && string(e.Value.Data) != who {
		return field.Claim{Holder: string(e.Value.Data)}, nil
	}
	txn := &kv.Txn{If: []kv.Compare{kv.Absent(ns, key)},
		Then: []kv.Op{{Kind: kv.OpPut, NS: ns, Key: key, Value: kv.StringValue(who), TTL: s.Settings().LockTime}}}
	if e != nil { // the fence of a key that is written again stays
		txn.If[0] = kv.Compare{NS: ns, Key: key, Target: kv.CompareCreate, Relation: kv.Equal, Number: int64(e.Create)}
	}
	result, err := s.commit(ctx, txn)
	if err != nil || !result.Held { // another one was faster
		return field.Claim{}, err
	}
	return field.Claim{Fence: result.Ops[0].Entry.Create}, nil
}

// LockOf is the lock that a lander of the dirty table has to hold; its fence goes with Landed.
func LockOf(table int) (ns, key string) { return field.Landing, numbered("lock/", table) }

// numbered is the key of what a dirty table has in Landing.
func numbered(what string, table int) string { return what + strconv.Itoa(table) }

// Free ends the claims of a lander that is known not to run.
func (s *Storage) Free(ctx context.Context, who string) error {
	for table := range s.Settings().Tables {
		ns, key := LockOf(table)
		if e, _ := s.store.Get([]byte(ns), []byte(key)); e != nil && string(e.Value.Data) == who {
			if err := s.Release(ctx, table, e.Create); err != nil {
				return err
			}
		}
	}
	return nil
}

// Release gives a claim back. It is no error if it has ended.
func (s *Storage) Release(ctx context.Context, table int, fence kv.Revision) error {
	ns, key := LockOf(table)
	_, err := s.commit(ctx, &kv.Txn{Fences: []kv.Fence{{NS: ns, Key: key, Token: fence}}, Then: []kv.Op{{Kind: kv.OpDelete, NS: ns, Key: key}}})
	if errors.Is(err, codes.FenceLost) {
		return nil
	}
	return err
}
