package snapshot

import (
	"cmp"
	"slices"
	"strings"

	"confcenter/access"
	"confcenter/internal/memory"
	"confcenter/kv/follow"
)

// NewBacklog makes a queue of batches for a subscriber that processes them on another goroutine. They
// stay separate up to about limit bytes; beyond it the newest are joined, so that the queue is bounded
// by the number of documents, however often they change. What is taken has to be completed.
func NewBacklog(limit int64) *follow.Queue[*Batch] {
	return &follow.Queue[*Batch]{Limit: limit, Join: (*Batch).join}
}

// Weight is what a batch weighs in a backlog.
func (b *Batch) Weight() int64 { return Weight(b.Changes) }

// unshared is about how many documents' worth of memory a batch retains besides its changes: the parts of
// the snapshot that it does not share with the next.
const unshared = 10

// Weight is roughly how many bytes a batch retains if all of it has changed again meanwhile.
func Weight(changes []Change) int64 {
	n := int64(unshared * memory.DocumentCost)
	for i := range changes {
		n += memory.DocumentCost
		if c := &changes[i]; c.Own {
			n += int64(c.Node.Size())
		}
	}
	return n
}

// join returns a batch for both, of which Complete finds out the changes. Others share b, unless it was
// joined before.
func (b *Batch) join(next *Batch) *Batch {
	if b.joined == nil {
		b = (&Batch{Prev: b.Prev, joined: map[string]*access.Actor{}}).join(b)
	}
	for i := range next.Changes {
		if c := &next.Changes[i]; c.Own || b.joined[c.Name] == nil {
			b.joined[c.Name] = c.Actor
		}
	}
	b.Seq, b.Snapshot = next.Seq, next.Snapshot
	return b
}

// Complete finds out the changes of a batch in the place of several, as if they had been found together:
// the two snapshots say what they are. It does nothing to any other.
func (b *Batch) Complete() {
	for name, actor := range b.joined {
		node := cmp.Or(b.Snapshot.Node(name), &Node{name: name}) // _meta.json no longer has it
		c := changeOf(b.Prev.Node(name), node, func(name string) bool {
			before, now := b.Prev.Node(name), b.Snapshot.Node(name)
			return now.Known() && (!before.Known() || before.own.served != now.own.served)
		})
		c.Actor = actor
		b.Changes = append(b.Changes, c)
	}
	if b.joined != nil {
		slices.SortFunc(b.Changes, func(a, b Change) int { return strings.Compare(a.Name, b.Name) })
		b.Changes, b.joined = basesFirst(b.Changes), nil
	}
}
