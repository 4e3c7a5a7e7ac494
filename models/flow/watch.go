package flow

import (
	"context"

	"confcenter/kv"
	"confcenter/kv/embedded"
)

// Change is what has happened to one key. Old and New are what it was and is; nil is absent.
// Their values must not be modified.
type Change struct {
	Key      Key
	Old, New *kv.Entry // Old is also nil if the store does not know it any more
	Expired  bool      // it has ended with its lease
}

// Was and Is are the statuses before and after, of a key that is a member of a list.
func (c *Change) Was() Status { return Status(text(c.Old)) }

// Is is described at Was.
func (c *Change) Is() Status { return Status(text(c.New)) }

// Changes is one message of a Watch.
type Changes struct {
	Kind     kv.NoticeKind // as of a notice of the store
	Revision kv.Revision   // watching after it continues without a gap
	List     []Change
	More     bool // the last transaction continues in the next message
}

// Watch tells of changes of a scope, as a [embedded.Watch] does. A client opens it by the Watch of
// calls.FlowCalls.
type Watch struct{ w embedded.Watch }

// NewWatch takes over a watch of keys of a scope.
func NewWatch(w embedded.Watch) *Watch { return &Watch{w} }

// Next waits for the next message.
func (w *Watch) Next(ctx context.Context) (*Changes, error) {
	n, err := w.w.Next(ctx)
	if err != nil {
		return nil, err
	}
	c := &Changes{Kind: n.Kind, Revision: n.Revision, More: n.More, List: make([]Change, 0, len(n.Events))}
	for i := range n.Events {
		e := &n.Events[i]
		key, err := ParseKey(e.Entry.Key)
		if err != nil {
			key = Key{Form: Free, Text: e.Entry.Key}
		}
		one := Change{Key: key, Old: e.Prev, New: e.Entry, Expired: e.Kind == kv.Expire}
		if e.Kind != kv.Put {
			one.New = nil
		}
		c.List = append(c.List, one)
	}
	return c, nil
}

// Stop ends the watch.
func (w *Watch) Stop() { w.w.Stop() }
