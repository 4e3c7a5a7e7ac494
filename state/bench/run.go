package bench

import (
	"context"
	"strings"
	"time"

	"confcenter/access"
	"confcenter/codes"
	"confcenter/kv"
)

// again is how long Run waits after a failure.
const again = time.Second

var itself = &access.Actor{Origin: access.Server, Name: "bench"}

// Run marks nodes as lost whose time has ended, until the context or the store ends. One for
// each namespace is enough, and several do no harm.
func (b *Bench) Run(ctx context.Context) error {
	for {
		err := b.watchNodes(ctx)
		if ctx.Err() != nil || codes.Of(err) == codes.Closed {
			return err
		}
		timer := b.cfg.Clock.NewTimer(again)
		select {
		case <-timer.C():
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

func (b *Bench) watchNodes(ctx context.Context) error {
	w, err := b.store.Watch(ctx, kv.Filter{NS: b.cfg.NS, Text: "alive/"}, 0)
	if err != nil {
		return err
	}
	defer w.Stop()
	for {
		n, err := w.Next(ctx)
		if err != nil {
			return err
		}
		switch n.Kind {
		case kv.Synced: // at the beginning, and whenever changes were missed
			err = b.loseSilent(ctx)
		case kv.Changed:
			for _, e := range n.Events {
				if e.Entry.Deleted() && err == nil {
					err = b.lose(ctx, strings.TrimPrefix(e.Entry.Key, "alive/"))
				}
			}
		}
		if err != nil {
			return err
		}
	}
}

// loseSilent looks at all nodes.
func (b *Bench) loseSilent(ctx context.Context) error {
	nodes, err := b.everyNode(ctx)
	if err != nil {
		return err
	}
	for _, n := range nodes {
		if n.Lost {
			continue
		}
		if err := b.lose(ctx, n.ID); err != nil {
			return err
		}
	}
	return nil
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
		return &UpdateAnswer{}, nil
	})
	return err
}
