package flow

import (
	"context"
	"fmt"
	"strings"

	"confcenter/access"
	"confcenter/codes"
	"confcenter/kv"
)

// ReplicateAsk is the question of Replicate.
type ReplicateAsk struct {
	Scope string `json:"scope,omitempty" doc:"the scope, cl if left out"`
	Key   string `json:"key" arg:"1" doc:"the node: node.ID"`
	Count int64  `json:"count" arg:"2" doc:"how many replicas: node.ID-1 and so on"`
	Who   string `json:"who,omitempty" doc:"who makes the change; left out: the connection's name"`
	Token string `json:"token,omitempty" doc:"request token: a repetition has no further effect"`
}

// Replicate copies a node with all its fields, all replicas or none: they get its id with -1
// and so on, that number as subidx, and wait. What is written before all are there is in no
// list; if this process dies meanwhile, the sweep takes it away.
func (f *Flow) Replicate(ctx context.Context, by *access.Actor, q *ReplicateAsk) (*WriteAnswer, error) {
	e, err := f.edit(by, q.Scope, q.Who, q.Token, q)
	if err != nil {
		return nil, err
	}
	m, err := ParseMember(q.Key)
	switch {
	case err != nil:
		return nil, err
	case m.Kind != Node:
		return nil, codes.Errorf(codes.BadRequest, "%s is no node: only nodes have replicas", m)
	case q.Count < 1 || q.Count > MaxReplicas:
		return nil, codes.Errorf(codes.BadRequest, "count %d is out of range: it is from 1 to %d", q.Count, MaxReplicas)
	case len(replica(m, q.Count).ID) > MaxID:
		return nil, codes.Errorf(codes.NameTooLong, "the id of %s is too long to add a number to it; the limit is %d bytes", m, MaxID)
	}
	if res, err := e.known(ctx); res != nil || err != nil {
		return written(res, err)
	}
	staged := *e
	staged.token = ""
	c := &copying{edit: &staged, node: m, count: q.Count}
	lease, err := c.begin(ctx)
	if err != nil {
		return nil, err
	}
	if err := c.write(ctx, lease); err != nil {
		_ = c.dropCopy(ctx, m)
		return nil, err
	}
	c.edit = e
	return written(c.publish(ctx, lease))
}

func replica(m Member, i int64) Member { return Member{m.Kind, fmt.Sprintf("%s-%d", m.ID, i)} }

// copying makes replicas.
type copying struct {
	*edit
	node  Member
	count int64

	// what is copied, set by begin
	from   *record
	fields []*kv.Entry
}

func (c *copying) duty() string { return c.f.indexKey(dutyCopy, c.ns, c.node) }
func (c *copying) live() string { return c.f.indexKey(liveKey, c.ns, c.node) }

// begin reads the node, sees to it that there are no replicas, and notes the duty.
func (c *copying) begin(ctx context.Context) (kv.LeaseID, error) {
	lease, err := c.grant(ctx, c.f.cfg.Stage)
	if err != nil {
		return 0, err
	}
	_, err = c.apply(ctx, func() error {
		if err := c.read(ctx); err != nil {
			return err
		}
		if got, err := c.f.store.Get(ctx, c.f.index(), c.duty()); err != nil {
			return err
		} else if got != nil {
			return codes.Errorf(codes.Conflict, "%s is being copied; try again when that is done", c.node)
		}
		c.when(kv.Absent(c.f.index(), c.duty()))
		c.whenSame(c.from.field("atime"), c.from.atime)
		c.putIn(c.f.index(), c.duty(), kv.IntValue(c.count), 0)
		c.putIn(c.f.index(), c.live(), kv.IntValue(int64(lease)), lease)
		return nil
	})
	if err != nil {
		c.revoke(ctx, lease)
	}
	return lease, err
}

func (c *copying) read(ctx context.Context) (err error) {
	if c.from, err = c.f.load(ctx, c.ns, c.node); err != nil {
		return err
	}
	c.fields = nil
	err = c.f.list(ctx, c.ns, c.node.String()+".", func(e *kv.Entry) error {
		k, err := ParseKey(e.Key)
		if err != nil || k.Form != Field {
			return nil
		}
		switch k.Field {
		case "worker", "atime", "whoac", "ctime", "cstat", "state", "count", "dsize", "subidx":
		default:
			c.fields = append(c.fields, e)
		}
		return nil
	})
	for i := int64(1); i <= c.count && err == nil; i += mostConds {
		var keys []string
		for j := i; j < i+mostConds && j <= c.count; j++ {
			keys = append(keys, replica(c.node, j).field("atime"))
		}
		var got []*kv.Entry
		got, err = c.f.store.GetMany(ctx, c.ns, keys...)
		for j := range got {
			if got[j] != nil {
				return codes.Errorf(codes.Conflict, "%s is there already; remove it first", replica(c.node, i+int64(j)))
			}
		}
	}
	return err
}

// write writes the replicas in pieces. The duty keeps a second Replicate of the same node out;
// if a member with such an id is registered meanwhile, the piece fails.
func (c *copying) write(ctx context.Context, lease kv.LeaseID) error {
	each := len(c.fields) + perPart
	for i := int64(1); i <= c.count; {
		if _, err := c.f.store.KeepLease(ctx, lease); err != nil {
			return err
		}
		piece := min(c.count-i+1, max(1, min(mostConds, int64(c.f.mostOps/each))))
		_, err := c.apply(ctx, func() error {
			c.when(exists(c.f.index(), c.live()), exists(c.f.index(), c.duty()))
			if got, err := c.f.store.Get(ctx, c.f.index(), c.live()); err != nil {
				return err
			} else if got == nil {
				return c.late()
			}
			for j := i; j < i+piece; j++ {
				c.writeOne(j)
			}
			return nil
		})
		if err != nil {
			return err
		}
		i += piece
	}
	return nil
}

func (c *copying) late() error {
	return codes.Errorf(codes.LeaseGone, "copying %s took longer than its lease lasts; nothing was copied, try again", c.node)
}

func (c *copying) writeOne(i int64) {
	r := &record{Member: replica(c.node, i), parent: c.from.parent, listed: c.from.listed, app: c.from.app}
	values := map[string]kv.Value{"subidx": kv.IntValue(i)}
	c.create(r, values, false)
	for _, e := range c.fields { // the uuid too, which stays the node's
		c.put(r.field(strings.TrimPrefix(e.Key, c.node.String()+".")), e.Value)
	}
}

// publish lists the replicas.
func (c *copying) publish(ctx context.Context, lease kv.LeaseID) (*kv.Result, error) {
	res, err := c.commit(ctx, func() error {
		r, err := c.f.load(ctx, c.ns, c.node)
		if err != nil {
			return err
		}
		got, err := c.f.store.GetMany(ctx, c.f.index(), c.live(), c.duty())
		if err != nil {
			return err
		}
		if got[0] == nil || got[1] == nil {
			return c.late()
		}
		c.when(exists(c.f.index(), c.live()), exists(c.f.index(), c.duty()), exists(c.ns, applisted(r.app)))
		c.whenSame(r.listKey(), r.list)
		c.removeIn(c.f.index(), c.live())
		c.removeIn(c.f.index(), c.duty())
		c.put(r.field("inscount"), kv.IntValue(c.count+1))
		c.touch(r.Member, r.atime, fmt.Sprintf("copied %d times", c.count))
		for i := int64(1); i <= c.count; i++ {
			c.putStatus(r.listed+"."+replica(c.node, i).String(), Waiting)
		}
		return nil
	})
	if err == nil {
		c.revoke(ctx, lease)
	} else if codes.Of(err) == codes.NotFound {
		_ = c.dropCopy(ctx, c.node)
	}
	return res, err
}

// dropCopy takes away what was written of replicas that nobody publishes.
func (e *edit) dropCopy(ctx context.Context, m Member) error {
	index, duty, live := e.f.index(), e.f.indexKey(dutyCopy, e.ns, m), e.f.indexKey(liveKey, e.ns, m)
	var count int64
	begin := func() error {
		got, err := e.f.store.Get(ctx, index, duty)
		if err != nil {
			return err
		}
		if got == nil {
			return errNoMember(m)
		}
		count = number(got)
		e.when(is(index, duty, got.Value))
		return nil
	}
	// Without its lease nobody writes to it or publishes it any more.
	if _, err := e.apply(ctx, func() error { e.removeIn(index, live); return begin() }); err != nil {
		return err
	}
	for i := int64(1); i <= count; i += mostGoing {
		if _, err := e.apply(ctx, func() error {
			for j := i; j < i+mostGoing && j <= count; j++ {
				e.removeBelow(replica(m, j).String() + ".")
			}
			return begin()
		}); err != nil {
			return err
		}
	}
	_, err := e.apply(ctx, func() error { e.removeIn(index, duty); return begin() })
	return err
}
