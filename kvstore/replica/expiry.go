package replica

// expiry is the keys that end by themselves. Only the committer uses it.
type expiry struct {
	agenda agenda[*plan]
	of     map[*slot]*plan
}

// plan is when a key expires.
type plan struct {
	at    int64 // ms since 1970
	space *space
	slot  *slot
	pos   int // in the agenda
}

func (p *plan) when() int64 { return p.at }
func (p *plan) place() *int { return &p.pos }

// plan has the key expire at a moment in ms since 1970; 0: not at all.
func (x *expiry) plan(sp *space, s *slot, at int64) {
	p := x.of[s]
	if at == 0 {
		if p != nil {
			x.agenda.remove(p)
			delete(x.of, s)
		}
		return
	}
	if p == nil {
		p = &plan{space: sp, slot: s, pos: -1}
		x.of[s] = p
	}
	p.at = at
	x.agenda.set(p)
}

// due is what has expired by a moment in ms since 1970, or nil.
func (x *expiry) due(millis int64) *plan {
	if p, ok := x.agenda.first(); ok && p.at <= millis {
		return p
	}
	return nil
}
