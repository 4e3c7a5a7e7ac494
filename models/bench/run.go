package bench

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"

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
	both.Go(func() { end(b.sweep(ctx, "alive/", b.notLost, b.lose)) })
	both.Go(func() { end(b.sweep(ctx, "queue/", b.taken, b.endHold)) })
	both.Wait()
	return context.Cause(ctx)
}

// sweep calls one for each key with a prefix that ends, and for all when it may have missed some.
func (b *Bench) sweep(ctx context.Context, prefix string, all func() ([]string, error), one func(context.Context, string) error) error {
	w, err := b.store.Watch(ctx, kv.Filter{NS: kv.BenchNamespace, Text: prefix}, 0)
	if err != nil {
		return err
	}
	defer w.Stop()
	for {
		n, err := w.Next(ctx)
		var ended []string
		if err == nil && n.Kind == kv.Synced { // at the beginning, and whenever changes were missed
			ended, err = all()
		}
		for _, e := range n.Events {
			if e.Entry.Deleted() {
				ended = append(ended, strings.TrimPrefix(e.Entry.Key, prefix))
			}
		}
		if err == nil {
			err = together(ended, func(key string) error { return one(ctx, key) })
		}
		if err != nil {
			return err
		}
	}
}

// together calls do for each key, for several at a time, which then share the durable writes.
func together(keys []string, do func(key string) error) error {
	const most = 16
	var all sync.WaitGroup
	var begun atomic.Int64
	var failed atomic.Pointer[error]
	for range min(most, len(keys)) {
		all.Go(func() {
			for i := begun.Add(1); int(i) <= len(keys) && failed.Load() == nil; i = begun.Add(1) {
				if err := do(keys[i-1]); err != nil {
					failed.Store(&err)
				}
			}
		})
	}
	all.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}

// notLost are the ids of all nodes that may have to be marked as lost.
func (b *Bench) notLost() (ids []string, err error) {
	return ids, b.eachNode(func(n *nodeKeys) {
		if !n.Lost {
			ids = append(ids, n.ID)
		}
	})
}

// lose marks a node as lost, unless it is alive or no longer there.
func (b *Bench) lose(ctx context.Context, id string) error {
	_, err := apply(ctx, b, itself, "node/"+id, "", nil, func(c *change) (*UpdateAnswer, error) {
		n, err := b.node(id)
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
	j, err := c.b.job(n.Job)
	if codes.Of(err) == codes.NotFound {
		return nil // it has let the node go meanwhile: the node has changed, too
	} else if err != nil {
		return err
	}
	c.save(j, map[bool]string{true: "lost a node", false: "has a node back"}[to.Lost], "node "+n.ID)
	return nil
}

// taken are the places in the queue of all jobs that were taken.
func (b *Bench) taken() (places []string, err error) {
	for e, err := range b.each("queue/") {
		if err != nil {
			return nil, err
		}
		if strings.HasSuffix(e.Key, "/taken") {
			places = append(places, strings.TrimPrefix(e.Key, "queue/"))
		}
	}
	return places, nil
}

// endHold writes that the hold of a job in the queue has ended, if it has.
func (b *Bench) endHold(ctx context.Context, key string) error {
	ticket, what, _ := strings.Cut(key, "/")
	e := b.store.Get(kv.BenchNamespace, "queue/"+ticket)
	if what == "" || e == nil {
		return nil
	}
	id := string(e.Value.Data)
	_, err := apply(ctx, b, itself, "job/"+id, "", nil, func(c *change) (*UpdateAnswer, error) {
		j, err := b.job(id)
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
	taken := c.b.store.Get(kv.BenchNamespace, queueKey(j.Ticket)+"/taken")
	if taken == nil {
		return nil
	}
	if err := c.letGo(j, "lost its holder"); err != nil {
		return err
	}
	c.delete(taken.Key)
	c.save(j, "hold ended", "")
	return nil
}
