package watch

import (
	"sync/atomic"

	"confcenter/kv"
	"confcenter/kv/follow"
	"confcenter/server/gate"
	"confcenter/server/loop"
)

// hub has the watches of one loop: which of its sessions watch which keys.
type hub struct {
	loop *loop.Loop // set at open

	// loop only
	topics map[kv.Filter]*topic
	// lengths counts, for each namespace, the prefix topics of each length: the prefixes of
	// a key that are worth looking up.
	lengths map[string][]length
	told    kv.Revision   // live watches have everything up to it
	work    []*topic      // of the current fan-out
	cursor  follow.Cursor // over the events of the current topic
	frame   []byte        // scratch: the current frame

	// any goroutine
	watched  atomic.Int64 // number of watches; nothing is posted to a loop without any
	waiting  atomic.Int64 // weight of the batches that are posted and not sent yet
	missing  atomic.Bool  // a missed is on its way
	missedTo atomic.Int64 // the last batch that was not posted; a kv.Revision
}

// topic is the watches of one filter on one loop.
type topic struct {
	key     kv.Filter
	watches [lists][]*watch // in any order; kvWatch.place is the place
	n       int             // in all forms
	parts   []follow.Part   // matching events of the current batch
}

// apart is the list of a topic's watches that have a path, or are told what others may not know;
// the lists before are those of the forms.
const (
	apart = forms
	lists = forms + 1
)

// list is the place of the watch's list in its topic.
func (w *watch) list() form {
	if w.path != "" || w.reveal != nil {
		return apart
	}
	return w.form
}

// length is the number of prefix topics with that length in a namespace.
type length struct{ length, topics int }

func newHub(l *loop.Loop) *hub {
	return &hub{loop: l, topics: make(map[kv.Filter]*topic), lengths: make(map[string][]length)}
}

func (f *Handlers) hubOf(d *gate.Desk) *hub { return d.Part(f.talk.family).(*hub) }

func (h *hub) add(w *watch) {
	key := w.cursor.Filter()
	t := h.topics[key]
	if t == nil {
		t = &topic{key: key}
		h.topics[key] = t
		h.countLength(key, 1)
	}
	w.topic = t
	list := w.list()
	w.place = len(t.watches[list])
	t.watches[list] = append(t.watches[list], w)
	t.n++
}

func (h *hub) remove(w *watch) {
	t := w.topic
	list := t.watches[w.list()]
	last := len(list) - 1
	list[w.place] = list[last]
	list[w.place].place = w.place
	list[last] = nil
	t.watches[w.list()] = list[:last]
	if t.n--; t.n == 0 {
		delete(h.topics, t.key)
		h.countLength(t.key, -1)
	}
}

func (h *hub) countLength(key kv.Filter, by int) {
	if key.Exact || key.NS == "" {
		return
	}
	list := h.lengths[key.NS]
	for i := range list {
		if list[i].length != len(key.Text) {
			continue
		}
		if list[i].topics += by; list[i].topics == 0 {
			list[i] = list[len(list)-1]
			list = list[:len(list)-1]
		}
		h.setLengths(key.NS, list)
		return
	}
	h.setLengths(key.NS, append(list, length{len(key.Text), by}))
}

func (h *hub) setLengths(ns string, list []length) {
	if len(list) == 0 {
		delete(h.lengths, ns)
		return
	}
	h.lengths[ns] = list
}

// match adds the event to every topic that it belongs to and returns the number of
// look-ups.
func (h *hub) match(rev kv.Revision, events []kv.Event, i int) (looked int) {
	e := events[i].Entry
	h.note(kv.Filter{NS: e.NS, Text: e.Key, Exact: true}, rev, events, i)
	h.note(kv.Filter{}, rev, events, i)
	lengths := h.lengths[e.NS]
	for _, l := range lengths {
		if l.length <= len(e.Key) {
			h.note(kv.Filter{NS: e.NS, Text: e.Key[:l.length]}, rev, events, i)
		}
	}
	return 2 + len(lengths)
}

func (h *hub) note(key kv.Filter, rev kv.Revision, events []kv.Event, i int) {
	t := h.topics[key]
	if t == nil {
		return
	}
	if len(t.parts) == 0 {
		h.work = append(h.work, t)
	}
	last := len(t.parts) - 1
	if last < 0 || t.parts[last].Rev != rev {
		t.parts = append(t.parts, follow.Part{Rev: rev})
		last++
	}
	t.parts[last].Add(events, i)
}
