package flow

import (
	"context"
	"fmt"
	"slices"
	"strconv"
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
// list; if this process dies meanwhile, the sweep takes it away, or a repetition with the same
// token, which begins again at once. A replica has no replicas.
func (f *Flow) Replicate(ctx context.Context, by *access.Actor, q *ReplicateAsk) (*WriteAnswer, error) {
	e, m, err := f.editOf(by, q.Scope, q.Key, ParseMember, q.Who, q.Token, q)
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
	defer f.undertake(indexKey(dutyCopy, e.ns, m))()
	return written(e.pieces(ctx, func(piece *edit) (res *kv.Result, err error) {
		c := &copying{edit: piece, node: m, count: q.Count}
		if err = afresh(ctx, piece, dutyCopy, m, func() error { return c.begin(ctx) }); err != nil {
			return nil, err
		}
		if err = c.write(ctx); err == nil {
			c.edit = e
			res, err = c.commit(ctx, func() error { return c.publish() })
		}
		if err != nil || res.Replayed {
			piece.revoke(ctx, c.lease)
			_ = piece.dropCopy(ctx, m) // or else the sweep does
		}
		return res, err
	}))
}

func replica(m Member, i int64) Member { return Member{m.Kind, fmt.Sprintf("%s-%d", m.ID, i)} }

// copying makes replicas.
type copying struct {
	*edit
	node  Member
	count int64

	// set by begin
	from   *record
	fields map[string]kv.Value // of each replica, but for its number
	lease  kv.LeaseID
}

// begin reads the node, sees to it that there are no replicas, and notes the duty.
func (c *copying) begin(ctx context.Context) (err error) {
	_, err = c.commitLeased(ctx, c.f.cfg.Stage, func(lease kv.LeaseID) error {
		c.lease = lease
		duty := indexKey(dutyCopy, c.ns, c.node)
		if got := c.f.store.Get(index, duty); got != nil {
			return underWay(c.edit, got, "%s is being copied; try again when that is done", c.node)
		}
		if err := c.read(); err != nil {
			return err
		}
		c.when(kv.Absent(index, duty))
		c.whenSame(c.from.field("atime"), c.from.atime)
		c.last(dutyCopy, c.node, kv.StringValue(strconv.FormatInt(c.count, 10)+c.mark()), c.lease)
		return nil
	})
	return err
}

// read reads what is copied.
func (c *copying) read() (err error) {
	if c.from, err = c.f.load(c.ns, c.node); err != nil {
		return err
	}
	c.fields = map[string]kv.Value{}
	size := 0
	err = c.f.fields(c.ns, c.node, func(name string, e *kv.Entry) error {
		if name == "uuid" && text(e) != c.node.ID || name == "subidx" && number(e) != 0 {
			return codes.Errorf(codes.BadRequest, "%s is a replica itself: replicate the node that it is one of", c.node)
		}
		switch name {
		case "worker", "atime", "whoac", "ctime", "cstat", "state", "count", "dsize", "subidx":
		default: // the uuid too, which stays the node's
			c.fields[name] = e.Value
		}
		if size += len(e.Value.Data); size > mostBytes {
			return codes.Errorf(codes.TooLarge, "the fields of %s have more than %d bytes together, which is the limit of what is copied", c.node, mostBytes)
		}
		return nil
	})
	c.fields["inscount"] = kv.IntValue(c.count + 1)
	for i := int64(1); i <= c.count && err == nil; i += mostConds {
		err = c.unused(i, min(mostConds, c.count-i+1))
	}
	return err
}

// unused reports whether the names of n replicas are.
func (c *copying) unused(from, n int64) error {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = replica(c.node, from+int64(i)).field("atime")
	}
	for i, got := range c.f.store.GetMany(c.ns, keys...) {
		if got != nil {
			return codes.Errorf(codes.Conflict, "%s is there already; remove it first", replica(c.node, from+int64(i)))
		}
	}
	return nil
}

// write writes the replicas in pieces.
func (c *copying) write(ctx context.Context) error {
	left := slices.Repeat([]part{{values: c.fields}}, int(c.count))
	for i := int64(1); len(left) > 0; {
		if _, err := c.f.store.KeepLease(ctx, c.lease); err != nil {
			return err
		}
		n := int64(c.chunk(left))
		if _, err := c.apply(ctx, func() error {
			if _, _, err := c.lasts(dutyCopy, c.node, c.lease, false); err != nil {
				return c.late(err)
			}
			if err := c.unused(i, n); err != nil {
				return err
			}
			for j := i; j < i+n; j++ {
				r := newRecord(replica(c.node, j), c.from.above)
				c.create(&r, nil, false)
				for name, v := range c.fields {
					c.put(r.field(name), v)
				}
				c.put(r.field("subidx"), kv.IntValue(j))
			}
			return nil
		}); err != nil {
			return err
		}
		i, left = i+n, left[n:]
	}
	return nil
}

func (c *copying) late(err error) error {
	if codes.Of(err) == codes.NotFound {
		err = codes.Errorf(codes.LeaseGone, "copying %s took longer than its lease lasts; nothing was copied, try again", c.node)
	}
	return err
}

// publish builds the transaction that lists the replicas.
func (c *copying) publish() error {
	duty, live, err := c.lasts(dutyCopy, c.node, c.lease, false)
	if err != nil {
		return c.late(err)
	}
	r, err := c.f.load(c.ns, c.node)
	if err != nil {
		return err
	}
	if r.atime.Create != c.from.atime.Create {
		return errNoMember(c.node) // it is another of that name
	}
	c.whenVisible(r)
	c.whenSame(r.listKey(), r.list)
	c.done(duty, live)
	c.put(r.field("inscount"), c.fields["inscount"])
	c.touch(r.Member, r.atime, fmt.Sprintf("copied %d times", c.count))
	for i := int64(1); i <= c.count; i++ {
		c.putStatus(r.listed+"."+replica(c.node, i).String(), Waiting)
	}
	return nil
}

// dropCopy removes what was written of replicas that will not be published any more: what came
// after the duty and is in no list.
func (e *edit) dropCopy(ctx context.Context, m Member) error {
	var duty *kv.Entry
	for i, count := int64(1), int64(0); duty == nil || i <= count; i += mostGoing {
		if _, err := e.apply(ctx, func() error {
			got, _, err := e.lasts(dutyCopy, m, 0, true)
			if err != nil {
				return err
			}
			if duty == nil {
				duty, count = got, copies(got)
			}
			if got.Create != duty.Create {
				return errNoMember(m) // it has been done elsewhere
			}
			if i+mostGoing > count {
				e.done(duty, nil)
			}
			e.dropReplicas(m, i, min(mostGoing, count-i+1), duty.Create)
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// copies is how many replicas a duty is for.
func copies(duty *kv.Entry) int64 {
	text, _, _ := strings.Cut(string(duty.Value.Data), " ")
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}

func (e *edit) dropReplicas(m Member, from, n int64, since kv.Revision) {
	list := make([]part, n)
	for i := range list {
		list[i].record = newRecord(replica(m, from+int64(i)), []Member{m})
	}
	there := e.placed(list)
	keys := make([]string, n)
	for i := range list {
		keys[i] = there[list[i].Member].parent.list(Node) + "." + list[i].Member.String()
	}
	listed := e.f.store.GetMany(e.ns, keys...)
	for i := range list {
		r, was := &list[i].record, there[list[i].Member]
		if was.atime == nil || was.atime.Create < since || listed[i] != nil {
			continue
		}
		e.whenSame(keys[i], nil)
		e.whenSame(r.field("atime"), was.atime)
		e.removeBelow(r.Member.String() + ".")
	}
}
