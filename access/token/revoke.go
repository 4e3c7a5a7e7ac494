package token

import (
	"context"
	"strings"

	"confcenter/access"
	"confcenter/access/policy"
	"confcenter/codes"
	"confcenter/kv"
	"confcenter/op"
)

// RevokeAsk names a token.
type RevokeAsk struct {
	ID   string `json:"id" arg:"1" doc:"of the token"`
	Made bool   `json:"made,omitempty" doc:"end the tokens that it has made as well, and those that these have made"`
}

// Revoked says that a token is of no use any more.
type Revoked struct {
	Revision int64   `json:"revision" doc:"of the state store, from which on it is"`
	Ended    []Token `json:"ended,omitempty" doc:"the tokens that it had made and that ended with it"`
	Made     []Token `json:"made,omitempty" doc:"the tokens that it, or another one of its name, had made and that still count, and those that these have made; told to those who may read roles"`
}

// Revoke ends a token. codes.NotFound: there is none with that id.
func (t *Tokens) Revoke(ctx context.Context, by *access.Actor, q *RevokeAsk) (*Revoked, error) {
	if strings.Contains(q.ID, "_") { // a token, or much of one, which no one must learn from an error or the audit
		return nil, codes.Errorf(codes.NotFound, "there is no token by that id: give what is between the underscores of a token, or list them")
	}
	if err := kv.CheckKey(tokenPrefix + q.ID); err != nil {
		return nil, err
	}
	r := t.record(q.ID)
	answer := &Revoked{}
	var err error
	if answer.Revision, err = t.revoke(ctx, by, q.ID, r); err != nil || r == nil {
		return answer, err
	}
	made, err := madeBy(r.Name, t.all(ctx))
	if err != nil {
		return nil, err
	}
	tells := op.MayOf(ctx).Sees(op.Whole(policy.Read, policy.Roles))
	for i := range made {
		child := &made[i]
		if q.Made {
			_, err := t.revoke(ctx, by, child.ID, t.record(child.ID))
			switch codes.Of(err) {
			case codes.OK, codes.NotFound:
				answer.Ended = append(answer.Ended, *child)
				continue
			case codes.Forbidden: // it may do more
			default:
				return nil, err
			}
		}
		if tells {
			answer.Made = append(answer.Made, *child)
		}
	}
	return answer, nil
}

// revoke ends one token, of which r is kept if it is valid, and returns the revision.
func (t *Tokens) revoke(ctx context.Context, by *access.Actor, id string, r *record) (int64, error) {
	del := func(key string) kv.Op { return kv.Op{Kind: kv.OpDelete, NS: kv.AccessNamespace, Key: key} }
	ops := []kv.Op{del(tokenPrefix + id), del(usedPrefix + id)}
	if r != nil {
		if err := t.mayHandle(by, r.identity()); err != nil {
			return 0, err
		}
		ops = append(ops, t.names.keep(r, 0))
	}
	result, err := t.store.Txn(ctx, &kv.Txn{Then: ops, System: true, Lessens: true, Actor: by, Note: noteOf("revoke", id, r)})
	switch {
	case err != nil:
		return 0, err
	case result.Ops[0].Count == 0:
		return 0, codes.Errorf(codes.NotFound, "there is no token %.40q; list them to find its id", id)
	}
	t.mu.Lock()
	delete(t.used, id)
	t.mu.Unlock()
	return int64(result.Revision), nil
}
