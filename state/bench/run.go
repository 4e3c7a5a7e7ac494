package bench

import (
	"context"
	"strings"
	"sync"

	"confcenter/access"
	"confcenter/codes"
	"confcenter/kv"
)

var itself = &access.Actor{Origin: access.Server, Name: "bench"}

// Run finishes removals that were cut off, marks nodes as lost whose time has ended, and notes
// it in the history of a job when its hold has, until the context or the store ends or it
// fails; then it can be run again. One for each namespace is enough, and several do no harm.
func (b *Bench) Run(ctx context.Context) error {
	if err := b.clearGone(ctx); err != nil {
		return err
	}
	ctx, end := context.WithCancelCause(ctx)
	var both sync.WaitGroup
	both.Go(func() { end(b.sweep(ctx, "alive/", b.loseSilent, b.lose)) })
	both.Go(func() { end(b.sweep(ctx, "queue/", b.endHolds, b.endHold)) })
	both.Wait()
	return context.Cause(ctx)
}

// sweep calls one for each key with a prefix that ends, and all when it may have missed some.
func (b *Bench) sweep(ctx context.Context, prefix string, all func(context.Context) error, one func(context.Context, string) error) error {
	w, err := b.store.Watch(ctx, kv.Filter{NS: b.cfg.NS, Text: prefix}, 0)
	if err != nil {
		return err
	}
	defer w.Stop()
	for {
		n, err := w.Next(ctx)
		if err == nil && n.Kind == kv.Synced { // at the beginning, and whenever changes were missed
			err = all(ctx)
		}
		for _, e := range n.Events {
			if e.Entry.Deleted() && err == nil {
				err = one(ctx, strings.TrimPrefix(e.Entry.Key, prefix))
			}
		}
		if err != nil {
			return err
		}
	}
}

// loseSilent looks at all nodes.
func (b *Bench) loseSilent(ctx context.Context) error {
	return b.eachNode(ctx, func(n *nodeKeys) error {
		if n.Lost {
			return nil
		}
		return b.lose(ctx, n.ID)
	})
}

// lose marks a node as lost, unless it is alive or no longer there.
func (b *Bench) lose(ctx context.Context, id string) error {
	_, err := apply(ctx, b, itself, "node/"+id, "", nil, func(c *change) (*UpdateAnswer, error) {
		n, err := b.node(ctx, id)
		if err != nil || n.info == nil || n.has != nil || n.state.Lost {
			return &UpdateAnswer{}, err
		}
		c.unchanged("alive/"+id, nil)
		to := n.state
		to.Lost = true
		c.setState(id, n, to, "lost", "silent for longer than "+n.state.ttl().String())
		return &UpdateAnswer{}, c.tellJob(n, to)
	})
	return err
}

// tellJob writes into the history of the job that has a node that the node is lost or came back.
func (c *change) tellJob(n *nodeKeys, to nodeState) error {
	if n.Job == "" || n.state.Lost == to.Lost {
		return nil
	}
	j, err := c.b.job(c.ctx, n.Job)
	if codes.Of(err) == codes.NotFound {
		return nil // it has let the node go meanwhile: the node has changed, too
	} else if err != nil {
		return err
	}
	c.save(j, map[bool]string{true: "lost a node", false: "has a node back"}[to.Lost], "node "+n.ID)
	return nil
}

// endHolds looks at all jobs that were taken.
func (b *Bench) endHolds(ctx context.Context) error {
	for after, more := "", true; more; {
		page, err := b.list(ctx, "queue/", after, 0)
		if err != nil {
			return err
		}
		for _, e := range page.Entries {
			if after = e.Key; strings.HasSuffix(after, "/taken") {
				if err := b.endHold(ctx, strings.TrimPrefix(after, "queue/")); err != nil {
					return err
				}
			}
		}
		more = page.More
	}
	return nil
}

// endHold writes that the hold of a job in the queue has ended, if it has.
func (b *Bench) endHold(ctx context.Context, key string) error {
	ticket, what, _ := strings.Cut(key, "/")
	e, err := b.store.Get(ctx, b.cfg.NS, "queue/"+ticket)
	if what == "" || e == nil || err != nil {
		return err
	}
	id := string(e.Value.Data)
	_, err = apply(ctx, b, itself, "job/"+id, "", nil, func(c *change) (*UpdateAnswer, error) {
		j, err := b.job(ctx, id)
		if codes.Of(err) == codes.NotFound {
			return &UpdateAnswer{}, nil // removed meanwhile
		} else if err != nil {
			return nil, err
		}
		return &UpdateAnswer{}, c.holdEnded(j)
	})
	return err
}

// holdEnded writes that the hold of a job has ended, unless it lasts or that is written.
func (c *change) holdEnded(j *job) error {
	if j.Ticket == 0 || j.heldEntry != nil {
		return nil
	}
	taken, err := c.read(queueKey(j.Ticket)+"/taken", nil)
	if taken == nil || err != nil {
		return err
	}
	if err := c.letGo(j, "lost its holder"); err != nil {
		return err
	}
	c.delete(taken.Key)
	c.save(j, "hold ended", "")
	return nil
}
