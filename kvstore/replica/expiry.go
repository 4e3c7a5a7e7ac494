package replica

// expiry holds the keys that have a time to live. Only the committer uses it.
type expiry struct {
	agenda agenda[*plan]
	of     map[*slot]*plan
	most   int // plans since the map was made
}

// plan is the expiry of one key.
type plan struct {
	at    int64 // ms since 1970
	space *space
	slot  *slot
	pos   int // in the agenda
}

func (p *plan) when() int64 { return p.at }
func (p *plan) place() *int { return &p.pos }

// plan schedules the key's expiry at a time in ms since 1970; 0 cancels it.
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

// due returns a key that has expired by a time in ms since 1970, or nil.
func (x *expiry) due(millis int64) *plan {
	if p, ok := x.agenda.first(); ok && p.at <= millis {
		return p
	}
	return nil
}
