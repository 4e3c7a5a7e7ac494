package replica

import "confcenter/kv"

// outcomes tells those who committed what became of it: callers once for all that is
// theirs.
type outcomes struct {
	contain func(what string) // deferred around those who are told
	callers []given
}

type given struct {
	caller kv.Caller
	writes []*kv.Write
}

// add notes one; at most so many follow, itself included.
func (o *outcomes) add(q *queued, result *kv.Result, err error, most int) {
	w := q.write
	if w == nil {
		o.done(q, result, err)
		return
	}
	if w.Err = err; result != nil && result != &w.Result {
		w.Result = *result // the first one's, of a token
	}
	for i := range o.callers {
		if one := &o.callers[i]; one.caller == q.caller {
			one.writes = append(one.writes, w)
			return
		}
	}
	o.callers = append(o.callers, given{q.caller, append(make([]*kv.Write, 0, most), w)})
}

func (o *outcomes) done(q *queued, result *kv.Result, err error) {
	defer o.contain("telling who committed")
	q.done(result, err)
}

func (o *outcomes) tell() {
	for i := range o.callers {
		o.committed(&o.callers[i])
	}
	o.callers = emptied(o.callers)
}

func (o *outcomes) committed(g *given) {
	defer o.contain("telling who committed")
	g.caller.Committed(g.writes)
}
