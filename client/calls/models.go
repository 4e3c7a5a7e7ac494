// Package calls asks the models of a server over a client's connection.
package calls

import (
	"context"

	"confcenter/client"
	"confcenter/kv"
	"confcenter/models/bench"
	"confcenter/models/flow"
	"confcenter/protocol"
)

// FlowCalls has a method for each operation of a server's flow model.
type FlowCalls struct{ c *client.Client }

// Flow is the flow model of the server that c is connected to.
func Flow(c *client.Client) *FlowCalls { return &FlowCalls{c} }

// Watch follows the keys of a scope that begin with a prefix, as "cfworkers." or
// "flow.F.node.": what changes after a revision or, after 0, first what there is. The context is
// for opening it only. Stop it.
func (c *FlowCalls) Watch(ctx context.Context, scope, prefix string, after int64) (*flow.Watch, error) {
	ns, err := flow.Namespace(scope)
	if err != nil {
		return nil, err
	}
	w, err := c.c.KV(ns).Watch(ctx, client.WatchOptions{Prefix: prefix, From: kv.Revision(after), State: after == 0, Prev: true})
	if err != nil {
		return nil, err
	}
	return flow.NewWatch(w), nil
}

// Lock is TryLock that waits until the lock is free: as long as another owner has it, it only
// listens. Of several that wait any one is next. It needs the right to read the scope, too.
func (c *FlowCalls) Lock(ctx context.Context, q *flow.LockAsk) (*flow.LockAnswer, error) {
	for {
		a, err := c.TryLock(ctx, q)
		if err != nil || a.Granted {
			return a, err
		}
		if err := c.awaitUnlock(ctx, q, a); err != nil {
			return nil, err
		}
	}
}

// awaitUnlock returns when a lock that was held, as TryLock has answered, is not any more.
func (c *FlowCalls) awaitUnlock(ctx context.Context, q *flow.LockAsk, held *flow.LockAnswer) error {
	ns, err := flow.Namespace(q.Scope)
	if err != nil {
		return err
	}
	owner := flow.Key{Form: flow.LockField, Text: q.Key, Field: "owner"}
	w, err := c.c.KV(ns).Watch(ctx, client.WatchOptions{Key: owner.String(), From: kv.Revision(held.Revision)})
	if err != nil {
		return err
	}
	defer w.Stop()
	for {
		n, err := w.Next(ctx)
		if err != nil || n.Kind == kv.Resync {
			return err
		}
		for i := range n.Events {
			if n.Events[i].Kind != kv.Put {
				return nil
			}
		}
	}
}

// BenchCalls has a method for each operation of a server's bench model.
type BenchCalls struct{ c *client.Client }

// Bench is the bench model of the server that c is connected to.
func Bench(c *client.Client) *BenchCalls { return &BenchCalls{c} }

// Watch follows what happens to nodes and jobs, from now on or after a revision. The context
// is for opening it only. Stop it.
func (c *BenchCalls) Watch(ctx context.Context, of bench.Of, after kv.Revision) (*bench.Watch, error) {
	prefix, err := of.Prefix()
	if err != nil {
		return nil, err
	}
	w, err := c.c.KV(kv.BenchNamespace).Watch(ctx, client.WatchOptions{Prefix: prefix, From: after})
	if err != nil {
		return nil, err
	}
	return bench.NewWatch(w), nil
}

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
