package flow

import (
	"context"
	"strings"
	"time"

	"confcenter/codes"
	"confcenter/kv"
	"confcenter/state"
)

// lateDuty is how long the sweep leaves a duty to itself that it could not carry out, or that
// somebody else in this process is carrying out.
const lateDuty = time.Second

// undertake notes that somebody carries out a duty, until done is called.
func (f *Flow) undertake(key string) (done func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.under[key] = struct{}{}
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.under, key)
	}
}

func (f *Flow) undertaken(key string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, under := f.under[key]
	return under
}

// Run finishes, until ctx ends, what others began and left, here or in another process: it
// notices when a worker, a scheduler or a stage has lost its lease, and rolls forward what a
// crash has cut off. Any number of them may run on a store. It returns why it ended.
func (f *Flow) Run(ctx context.Context) error {
	w, err := f.store.Watch(ctx, kv.Filter{NS: f.index()}, 0)
	if err != nil {
		return err
	}
	defer w.Stop()
	s := &sweep{f: f, duties: map[string]struct{}{}, live: map[string]struct{}{}}
	for {
		if err := s.next(ctx, w); err != nil {
			return err
		}
		if s.synced && !s.more {
			s.perform(ctx)
		}
	}
}

// sweep is what one Run knows of the index.
type sweep struct {
	f      *Flow
	duties map[string]struct{} // by their keys
	live   map[string]struct{} // SCOPE.KIND.ID of those whose lease lasts
	synced bool
	more   bool // what was told last is half a transaction
	late   bool // some duty could not be carried out
}

// next takes in a notice, or the time at which what is late is tried again.
func (s *sweep) next(ctx context.Context, w state.Watch) error {
	wait := ctx
	if s.late {
		var cancel context.CancelFunc
		wait, cancel = context.WithTimeout(ctx, lateDuty)
		defer cancel()
	}
	n, err := w.Next(wait)
	if err != nil {
		if ctx.Err() == nil && wait.Err() != nil {
			return nil
		}
		return err
	}
	s.more = n.More
	switch n.Kind {
	case kv.Resync:
		clear(s.duties)
		clear(s.live)
		s.synced = false
	case kv.Synced:
		s.synced = true
	}
	for i := range n.Events {
		s.learn(&n.Events[i])
	}
	return nil
}

func (s *sweep) learn(e *kv.Event) {
	what, whose, _ := strings.Cut(e.Entry.Key, ".")
	set, key := s.duties, e.Entry.Key
	switch what {
	case "scope", "news":
		return
	case liveKey:
		set, key = s.live, whose
	}
	if e.Kind == kv.Put {
		set[key] = struct{}{}
	} else {
		delete(set, key)
	}
}

// perform carries out the duties that nobody lives for.
func (s *sweep) perform(ctx context.Context) {
	s.late = false
	for key := range s.duties {
		what, whose, _ := strings.Cut(key, ".")
		if _, lives := s.live[whose]; lives && (what == dutyStage || what == dutyCopy || what == dutyLive) {
			continue
		}
		if s.f.undertaken(key) || s.f.perform(ctx, what, whose) != nil {
			s.late = true
		}
	}
}

// perform carries a duty out. It fails with codes.NotFound if somebody else has.
func (f *Flow) perform(ctx context.Context, what, whose string) error {
	scope, name, _ := strings.Cut(whose, ".")
	m, err := ParseMember(name)
	if err != nil {
		return nil // of a later version
	}
	e := &edit{draft: draft{ns: f.cfg.Prefix + scope}, f: f, who: "flow"}
	switch what {
	case dutyStage:
		_, err = e.drop(ctx, m, dutyStage)
	case dutyGone:
		err = f.finishGone(ctx, e.ns, m)
	case dutyLive:
		err = e.lost(ctx, m)
	case dutyBack:
		err = f.finishBack(ctx, e.ns, m)
	case dutyCopy:
		err = e.dropCopy(ctx, m)
	}
	if codes.Of(err) == codes.NotFound {
		return nil
	}
	return err
}
