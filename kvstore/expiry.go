package kvstore

// expiry holds the keys that expire. Only the committer uses it.
type expiry struct {
	moments minHeap[*plan] // by the time of day
	lives   minHeap[*plan] // by the monotonic clock
}

// plan is the expiry of one key.
type plan struct {
	at    int64 // ms since 1970
	in    *minHeap[*plan]
	space *space
	slot  *slot
	pos   int // in the heap
}

func newExpiry() expiry {
	plans := minHeap[*plan]{when: func(p *plan) int64 { return p.at }, place: func(p *plan) *int { return &p.pos }}
	return expiry{moments: plans, lives: plans}
}

// end is when a key expires.
type end struct {
	moment int64 // ms since 1970; 0: never
	own    int64 // the same by the monotonic clock; 0: the moment counts
}

// plan schedules the key's expiry, or cancels it.
func (x *expiry) plan(sp *space, s *slot, at end) {
	p := s.plan
	if p != nil {
		p.in.remove(p)
	}
	if at.moment == 0 {
		s.plan = nil
		return
	}
	if p == nil {
		p = &plan{space: sp, slot: s, pos: -1}
		s.plan = p
	}
	if p.at, p.in = at.moment, &x.moments; at.own != 0 {
		p.at, p.in = at.own, &x.lives
	}
	p.in.set(p)
}

// due returns a key that has expired by a time in ms since 1970 and the same by the
// monotonic clock, or nil.
func (x *expiry) due(millis, own int64) *plan {
	if p, ok := x.moments.first(); ok && p.at <= millis {
		return p
	}
	if p, ok := x.lives.first(); ok && p.at <= own {
		return p
	}
	return nil
}
