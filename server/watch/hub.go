package watch

import (
	"sync/atomic"

	"confcenter/kv"
	"confcenter/kv/follow"
	"confcenter/server/tcp/gate"
	"confcenter/server/tcp/loop"
)

// hub has the watches of one loop: which of its sessions watch which keys.
type hub struct {
	loop *loop.Loop // set at open

	// loop only
	topics follow.Topics[fans]
	told   kv.Revision   // live watches have everything up to it
	cursor follow.Cursor // over the events of the current topic
	frame  []byte        // scratch: the current frame

	// any goroutine
	watched atomic.Int64            // number of watches; nothing is posted to a loop without any
	backlog follow.Queue[*kv.Batch] // what fanOuts in the mailbox are going to send
}

func newHub(l *loop.Loop) *hub {
	return &hub{loop: l, backlog: follow.Queue[*kv.Batch]{Limit: l.Group.Limits.Backlog, Join: func(_, next *kv.Batch) *kv.Batch {
		return &kv.Batch{Changes: []kv.Change{{Revision: next.Last()}}, Reset: true}
	}}}
}

// topic is the watches of one filter on one loop.
type topic = follow.Topic[fans]

// fans are the watches of a topic by their lists, in any order; watch.place is the place.
type fans [lists][]*watch

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

func (f *Handlers) hubOf(d *gate.Local) *hub { return d.Part(f.kind.family).(*hub) }

func (h *hub) add(w *watch) {
	w.topic = h.topics.Join(w.cursor.Filter())
	list := &w.topic.Of[w.list()]
	w.place = len(*list)
	*list = append(*list, w)
}

func (h *hub) remove(w *watch) {
	list := &w.topic.Of[w.list()]
	last := len(*list) - 1
	(*list)[w.place] = (*list)[last]
	(*list)[w.place].place = w.place
	(*list)[last] = nil
	*list = (*list)[:last]
	h.topics.Leave(w.topic)
}
