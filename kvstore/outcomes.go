package kvstore

import "confcenter/kv"

// outcomes tells those who committed what became of it: callers once for all that is
// theirs.
type outcomes struct {
	callers []given
	told    int // of the callers
}

type given struct {
	caller kv.Caller
	writes []*kv.Write
}

// add notes one; at most so many follow, itself included.
func (o *outcomes) add(q *queued, result *kv.Result, err error, most int) {
	w := q.write
	if w == nil {
		q.done(result, err)
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

// tell goes on behind a caller that has panicked.
func (o *outcomes) tell() {
	for o.told < len(o.callers) {
		one := &o.callers[o.told]
		o.told++
		one.caller.Committed(one.writes)
	}
	o.callers, o.told = emptied(o.callers), 0
}
