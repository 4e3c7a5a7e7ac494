package server

import (
	"sync/atomic"

	"confcenter/kv"
)

// kvHub is one loop's part of the state store's push: which of its sessions watch
// which keys.
type kvHub struct {
	// loop only
	topics map[kvTopicKey]*kvTopic
	// lengths counts, for each namespace, the prefix topics of each length: they
	// say where a key has to be cut to look its prefixes up.
	lengths map[string][]kvLength
	told    kv.Revision // live watches have been told everything up to it
	work    []*kvTopic  // of the fan-out at work
	frame   []byte      // scratch: the frame being told

	// any goroutine
	watched  atomic.Int64 // watches of this loop: without any, nothing is posted to it
	waiting  atomic.Int64 // weight of the batches that are posted and not told yet
	missing  atomic.Bool  // mail is on its way which says that batches were not posted
	missedTo atomic.Int64 // the last of them; a kv.Revision
}

// kvTopicKey names what a topic is about: a key or a prefix of a namespace. The
// namespace is empty for all keys of all namespaces.
type kvTopicKey struct {
	ns, text string
	exact    bool
}

// kvTopic is the watches of one filter on one loop.
type kvTopic struct {
	key     kvTopicKey
	watches [kvForms][]*kvWatch // in any order; kvWatch.place is the place
	n       int                 // in all forms
	parts   []kvPart            // matching events of the batch being told
}

// kvLength is how many prefix topics of a namespace have that length.
type kvLength struct{ length, topics int }

func (h *kvHub) init() {
	h.topics = make(map[kvTopicKey]*kvTopic)
	h.lengths = make(map[string][]kvLength)
}

func (h *kvHub) add(w *kvWatch) {
	key := kvTopicKey{ns: w.filter.NS, text: w.filter.Text, exact: w.filter.Exact}
	t := h.topics[key]
	if t == nil {
		t = &kvTopic{key: key}
		h.topics[key] = t
		h.countLength(key, 1)
	}
	w.topic = t
	w.place = len(t.watches[w.form])
	t.watches[w.form] = append(t.watches[w.form], w)
	t.n++
}

func (h *kvHub) remove(w *kvWatch) {
	t := w.topic
	list := t.watches[w.form]
	last := len(list) - 1
	list[w.place] = list[last]
	list[w.place].place = w.place
	list[last] = nil
	t.watches[w.form] = list[:last]
	if t.n--; t.n == 0 {
		delete(h.topics, t.key)
		h.countLength(t.key, -1)
	}
}

func (h *kvHub) countLength(key kvTopicKey, by int) {
	if key.exact || key.ns == "" {
		return
	}
	list := h.lengths[key.ns]
	for i := range list {
		if list[i].length != len(key.text) {
			continue
		}
		if list[i].topics += by; list[i].topics == 0 {
			list[i] = list[len(list)-1]
			list = list[:len(list)-1]
		}
		h.setLengths(key.ns, list)
		return
	}
	h.setLengths(key.ns, append(list, kvLength{len(key.text), by}))
}

func (h *kvHub) setLengths(ns string, list []kvLength) {
	if len(list) == 0 {
		delete(h.lengths, ns)
		return
	}
	h.lengths[ns] = list
}

// match notes the event under every topic it belongs to and returns how many look-ups
// that took.
func (h *kvHub) match(rev kv.Revision, events []kv.Event, i int) (looked int) {
	e := events[i].Entry
	h.note(kvTopicKey{ns: e.NS, text: e.Key, exact: true}, rev, events, i)
	h.note(kvTopicKey{}, rev, events, i)
	lengths := h.lengths[e.NS]
	for _, l := range lengths {
		if l.length <= len(e.Key) {
			h.note(kvTopicKey{ns: e.NS, text: e.Key[:l.length]}, rev, events, i)
		}
	}
	return 2 + len(lengths)
}

func (h *kvHub) note(key kvTopicKey, rev kv.Revision, events []kv.Event, i int) {
	t := h.topics[key]
	if t == nil {
		return
	}
	if len(t.parts) == 0 {
		h.work = append(h.work, t)
	}
	if last := len(t.parts) - 1; last >= 0 && t.parts[last].rev == rev {
		t.parts[last].add(events, i)
		return
	}
	t.parts = append(t.parts, kvPart{rev: rev, events: events[i : i+1 : i+1], next: i + 1})
}
