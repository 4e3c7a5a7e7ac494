// Package remote runs models of a cluster's state over a client's connection.
package remote

import (
	"context"

	"confcenter/client"
	"confcenter/codes"
	"confcenter/kv"
	"confcenter/protocol"
	"confcenter/state"
	"confcenter/state/flow"
)

// Store is the state store of the server that c is connected to. It has no state of its own.
// Its transactions are sent again after a lost connection, see [client.Client.Txn]; they have
// at most [kv.MaxCompares] conditions, and write to no guarded namespace.
func Store(c *client.Client) state.Store { return store{c} }

type store struct{ c *client.Client }

// Get implements state.Store.
func (s store) Get(ctx context.Context, ns, key string) (*kv.Entry, error) {
	e, err := s.c.KV(ns).Get(ctx, key)
	if codes.Of(err) == codes.NotFound {
		return nil, nil
	}
	return e, err
}

// List implements state.Store.
func (s store) List(ctx context.Context, l kv.List) (kv.Page, error) {
	return s.c.KV(l.NS).List(ctx, l)
}

// GetMany implements state.Store.
func (s store) GetMany(ctx context.Context, ns string, keys ...string) ([]*kv.Entry, error) {
	return s.c.KV(ns).GetMany(ctx, keys...)
}

// Txn implements state.Store. The wire has neither Must nor Asked: a token would stand for an
// attempt that failed, or for other operations than those of the attempt before.
func (s store) Txn(ctx context.Context, txn *kv.Txn) (*kv.Result, error) {
	if !txn.Must {
		return s.c.Txn(ctx, txn)
	}
	own := *txn
	own.Must, own.Token, own.TokenNS, own.Asked = false, "", "", nil
	res, err := s.c.Txn(ctx, &own)
	if err == nil && !res.Held {
		return nil, codes.Errorf(codes.Conflict, "what the transaction requires does not hold")
	}
	return res, err
}

// KeepLease implements state.Store.
func (s store) KeepLease(ctx context.Context, id kv.LeaseID) (kv.Lease, error) {
	return s.c.KeepLease(ctx, id)
}

// FlowCalls has a method for each operation of a server's flow model.
type FlowCalls struct{ c *client.Client }

// Flow is the flow model of the server that c is connected to.
func Flow(c *client.Client) *FlowCalls { return &FlowCalls{c} }

// Lock is TryLock that waits until the lock is free: as long as another owner has it, it only
// listens. Of several that wait any one is next. It needs the right to read the scope, too.
func (c *FlowCalls) Lock(ctx context.Context, q *flow.LockAsk) (*flow.LockAnswer, error) {
	layout := flow.Open(Store(c.c), flow.Config{})
	for {
		a, err := c.TryLock(ctx, q)
		if err != nil || a.Granted {
			return a, err
		}
		if err := layout.AwaitUnlock(ctx, q.Scope, q.Key, a); err != nil {
			return nil, err
		}
	}
}

// BenchCalls has a method for each operation of a server's bench model.
type BenchCalls struct{ c *client.Client }

// Bench is the bench model of the server that c is connected to.
func Bench(c *client.Client) *BenchCalls { return &BenchCalls{c} }

// AuthCalls has a method for each operation of a server's tokens.
type AuthCalls struct{ c *client.Client }

// Auth is the tokens of the server that c is connected to.
func Auth(c *client.Client) *AuthCalls { return &AuthCalls{c} }

// ReviewCalls has a method for each operation of a server's reviews.
type ReviewCalls struct{ c *client.Client }

// Review is the changes that wait for approval at the server that c is connected to.
func Review(c *client.Client) *ReviewCalls { return &ReviewCalls{c} }

// SecretCalls has a method for each operation of a server's data keys.
type SecretCalls struct{ c *client.Client }

// Secret is the data keys of the server that c is connected to.
func Secret(c *client.Client) *SecretCalls { return &SecretCalls{c} }

// AuditCalls has a method for each operation of a server's audit.
type AuditCalls struct{ c *client.Client }

// Audit is the audit of the server that c is connected to.
func Audit(c *client.Client) *AuditCalls { return &AuditCalls{c} }

// HistoryCalls has a method for each operation of a server's history of documents.
type HistoryCalls struct{ c *client.Client }

// History is the history of the documents of the server that c is connected to.
func History(c *client.Client) *HistoryCalls { return &HistoryCalls{c} }

// call asks one operation, nil as an empty question; see [client.Client.Call].
func call[Q, A any](ctx context.Context, c *client.Client, cmd protocol.Command, writes bool, q *Q) (*A, error) {
	if q == nil {
		q = new(Q)
	}
	answer := new(A)
	if err := c.Call(ctx, cmd, writes, q, answer); err != nil {
		return nil, err
	}
	return answer, nil
}

// Watch implements state.Store.
func (s store) Watch(ctx context.Context, f kv.Filter, after kv.Revision) (state.Watch, error) {
	o := client.WatchOptions{Prefix: f.Text, From: after, State: after == 0, Prev: true}
	if f.Exact {
		o.Key, o.Prefix = f.Text, ""
	}
	w, err := s.c.KV(f.NS).Watch(ctx, o)
	if err != nil {
		return nil, err
	}
	return w, nil
}
