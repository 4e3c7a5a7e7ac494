package flow

import (
	"context"
	"strings"
	"sync"
	"time"

	"confcenter/codes"
	"confcenter/internal/clock"
	"confcenter/kv"
)

// lateDuty is how long the sweep leaves a duty alone that it could not carry out, or that another
// goroutine in this process is carrying out.
const lateDuty = time.Second

// undertake notes that one more goroutine carries out a duty, until done is called.
func (f *Flow) undertake(key string) (done func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.under[key]++
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.under[key]--; f.under[key] == 0 {
			delete(f.under, key)
		}
	}
}

func (f *Flow) undertaken(key string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.under[key] > 0
}

// Run finishes, until ctx ends, what others began and left, here or in another process: it
// notices when a worker, a scheduler or a stage has lost its lease, and rolls forward what a
// crash has cut off. Any number of them may run on a store. It returns why it ended.
func (f *Flow) Run(ctx context.Context) error {
	w, err := f.store.Watch(ctx, kv.Filter{NS: index}, 0)
	if err != nil {
		return err
	}
	defer w.Stop()
	s := &sweep{f: f, there: map[string]map[string]struct{}{liveKey: {}}}
	var running sync.WaitGroup
	defer running.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, what := range [...]string{dutyLive, dutyBack, dutyStage, dutyCopy, dutyGone} {
		s.there[what] = map[string]struct{}{}
		s.lanes = append(s.lanes, &lane{sweep: s, what: what, leased: what == dutyLive || what == dutyStage || what == dutyCopy,
			news: make(chan struct{}, 1), told: map[string]string{}})
	}
	for _, l := range s.lanes {
		running.Go(func() { l.run(ctx) })
	}
	for {
		n, err := w.Next(ctx)
		if err != nil {
			return err
		}
		s.learn(&n)
	}
}

// sweep is what one Run knows of the index.
type sweep struct {
	f     *Flow
	lanes []*lane // set by Run

	mu     sync.Mutex
	there  map[string]map[string]struct{} // SCOPE.KIND.ID, by the duty or liveKey; guarded by mu
	synced bool                           // guarded by mu
	more   bool                           // what was told last is half a transaction; guarded by mu
}

// lane carries out the duties of one kind, one after the other. No kind waits for another: a
// large removal must not delay the notice of a dead worker.
type lane struct {
	*sweep
	what   string
	leased bool          // only those count whose lease has ended
	news   chan struct{} // capacity 1: look again

	told map[string]string // what was said of those that failed; run only
}

// learn takes in a notice.
func (s *sweep) learn(n *kv.Notice) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.more = n.More
	switch n.Kind {
	case kv.Resync:
		s.synced = false
		for _, set := range s.there {
			clear(set)
		}
	case kv.Synced:
		s.synced = true
	}
	for i := range n.Events {
		e := &n.Events[i]
		what, whose, _ := strings.Cut(e.Entry.Key, ".")
		set := s.there[what]
		if delete(set, whose); set != nil && e.Kind == kv.Put {
			set[whose] = struct{}{}
		}
	}
	for _, l := range s.lanes {
		clock.Nudge(l.news)
	}
}

// due returns the duties that have no live holder.
func (l *lane) due() (list []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.synced || l.more {
		return nil
	}
	for whose := range l.there[l.what] {
		if _, lives := l.there[liveKey][whose]; !lives || !l.leased {
			list = append(list, whose)
		}
	}
	return list
}

func (l *lane) run(ctx context.Context) {
	timer := l.f.cfg.Clock.NewTimer(lateDuty)
	defer timer.Stop()
	for {
		due, late := l.due(), false
		if len(due) == 0 {
			clear(l.told)
		}
		for _, whose := range due {
			late = !l.perform(ctx, whose) || late
		}
		var again <-chan time.Time
		if late {
			timer.Reset(lateDuty)
			again = timer.C()
		}
		select {
		case <-l.news:
		case <-again:
		case <-ctx.Done():
			return
		}
	}
}

// perform carries out a duty, unless another goroutine is doing so, and reports whether it is done.
func (l *lane) perform(ctx context.Context, whose string) bool {
	key := l.what + "." + whose
	if l.f.undertaken(key) {
		return false
	}
	err := l.f.perform(ctx, l.what, whose)
	switch {
	case err == nil:
		delete(l.told, whose)
	case codes.Of(err) == codes.Busy || ctx.Err() != nil: // it has to wait for another
	case l.told[whose] != err.Error():
		l.told[whose] = err.Error()
		if l.f.cfg.Failed != nil {
			l.f.cfg.Failed(key, err)
		}
	}
	return err == nil
}

// perform carries a duty out. It fails with codes.NotFound if that has been done elsewhere.
func (f *Flow) perform(ctx context.Context, what, whose string) error {
	scope, name, _ := strings.Cut(whose, ".")
	m, err := ParseMember(name)
	if err != nil {
		return nil // of a later version
	}
	e := &edit{draft: draft{ns: kv.FlowPrefix + scope}, f: f, who: "flow"}
	switch what {
	case dutyStage:
		_, err = e.drop(ctx, m, 0, true)
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
