package suite

import (
	"fmt"
	"sync"

	"confcenter/kv"
	"confcenter/kv/follow"
	"confcenter/kv/follow/followtest"

	"github.com/stretchr/testify/require"
)

// witness is a watcher that remembers everything it was told.
type witness struct {
	s       *subject
	request follow.Request
	watcher *followtest.Watcher
	from    kv.Revision // what it is told of came after

	mu      sync.Mutex
	notices []kv.Notice // guarded by mu

	// set at start
	gate  chan struct{} // unless nil, deliver waits for it
	ended chan struct{} // closed when no one is going to open the gate any more
}

func (s *subject) watch(request follow.Request) *witness {
	s.Helper()
	return s.watchThrough(request, followtest.Cut, nil)
}

func (s *subject) watchThrough(request follow.Request, cut follow.Cut, gate chan struct{}) *witness {
	s.Helper()
	w := &witness{s: s, request: request, from: request.From, gate: gate, ended: make(chan struct{})}
	if request.From == 0 && !request.Past {
		w.from = s.Engine.Revision()
	}
	var err error
	w.watcher, err = followtest.Watch(s.Engine, request, cut, w.deliver)
	require.NoError(s, err)
	s.hooks = append(s.hooks, func() {
		close(w.ended)
		w.watcher.Close()
	})
	return w
}

func (w *witness) deliver(n kv.Notice) error {
	if w.gate != nil {
		select {
		case <-w.gate:
		case <-w.ended:
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.notices = append(w.notices, n)
	return nil
}

func (w *witness) told() []kv.Notice {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.notices[:len(w.notices):len(w.notices)]
}

// count returns how many notices of that kind have arrived.
func (w *witness) count(kind kv.NoticeKind) (n int) {
	for _, notice := range w.told() {
		if notice.Kind == kind {
			n++
		}
	}
	return n
}

// events returns all changes, each event with its revision.
func (w *witness) events() []string { return changedTexts(w.told()) }

func changedTexts(notices []kv.Notice) []string {
	var list []string
	for _, notice := range notices {
		if notice.Kind != kv.Changed {
			continue
		}
		for i, text := range eventTexts(notice.Events) {
			list = append(list, fmt.Sprintf("%d %s", notice.Events[i].Entry.Mod, text))
		}
	}
	return list
}

// await waits until n events have arrived.
func (w *witness) await(n int) {
	w.s.Helper()
	w.s.until(fmt.Sprintf("the watcher of %+v is told of %d events", w.request, n), func() bool { return len(w.events()) >= n }, func() {})
}

// believes returns the state as the watcher knows it.
func (w *witness) believes() map[name]string {
	state := map[name]string{}
	for _, notice := range w.told() {
		if notice.Kind == kv.Resync {
			clear(state)
		}
		for _, e := range notice.Events {
			n := name{e.Entry.NS, e.Entry.Key}
			if e.Kind == kv.Put {
				state[n] = string(e.Entry.Value.Data)
			} else {
				delete(state, n)
			}
		}
	}
	return state
}

// standing returns the revision from which the watcher can resume: that of the last notice that
// completed one.
func (w *witness) standing() kv.Revision {
	notices := w.told()
	for i := len(notices) - 1; i >= 0; i-- {
		if (notices[i].Kind == kv.Changed || notices[i].Kind == kv.Synced) && !notices[i].More {
			return notices[i].Revision
		}
	}
	return w.from
}
