package replica

import "container/heap"

// expiry is the keys that end by themselves, the earliest first. Only the
// committer uses it.
type expiry struct {
	queue planned
	of    map[*slot]*plan
}

// plan is when a key expires.
type plan struct {
	at    int64 // ms since 1970
	space *space
	slot  *slot
	pos   int // in the queue
}

// plan has the key expire at a moment in ms since 1970; 0: not at all.
func (x *expiry) plan(sp *space, s *slot, at int64) {
	p := x.of[s]
	switch {
	case at == 0 && p != nil:
		heap.Remove(&x.queue, p.pos)
		delete(x.of, s)
	case at == 0:
	case p != nil:
		p.at = at
		heap.Fix(&x.queue, p.pos)
	default:
		p = &plan{at: at, space: sp, slot: s}
		x.of[s] = p
		heap.Push(&x.queue, p)
	}
}

// first is what expires first, or nil.
func (x *expiry) first() *plan {
	if len(x.queue) == 0 {
		return nil
	}
	return x.queue[0]
}

// due is what has expired by a moment in ms since 1970, or nil.
func (x *expiry) due(millis int64) *plan {
	if p := x.first(); p != nil && p.at <= millis {
		return p
	}
	return nil
}

// planned is a heap.
type planned []*plan

func (q planned) Len() int           { return len(q) }
func (q planned) Less(i, j int) bool { return q[i].at < q[j].at }

func (q planned) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].pos, q[j].pos = i, j
}

// Push is for the heap.
func (q *planned) Push(p any) {
	p.(*plan).pos = len(*q)
	*q = append(*q, p.(*plan))
}

// Pop is for the heap.
func (q *planned) Pop() any {
	last := len(*q) - 1
	p := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	return p
}
