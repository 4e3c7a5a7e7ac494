package loop

import "sync/atomic"

// hungry are a loop's connections that found a store's queue full.
type hungry struct {
	l *Loop // set at open

	// loop only
	list []*Conn // the one that has waited longest is first
	room bool    // a store's queue has had room since they last tried

	told atomic.Bool // any goroutine: mail about room is on its way
}

func (h *hungry) add(c *Conn) {
	if c.on.join(onHungry) {
		h.l.Group.hungry.Add(1)
		h.list = append(h.list, c)
	}
}

// feed lets them try again if there has been room.
func (h *hungry) feed() {
	if h.room {
		h.room = false
		h.tryAgain()
	}
}

// tryAgain lets them try until the queue is full again. Each try parses its request again:
// if all of them tried after every write, the cost would grow with the square of their
// number.
func (h *hungry) tryAgain() {
	list := h.list
	h.list = nil
	for i, c := range list {
		c.on.leave(onHungry)
		h.l.Group.hungry.Add(-1)
		c.resume()
		if c.on&onHungry != 0 {
			// Those that have had a turn go behind those that have not.
			h.list = append(list[i+1:], h.list...)
			return
		}
	}
}

// HasRoom records that a store has finished a write, so that its queue has room.
func (l *Loop) HasRoom() { l.hungry.room = true }

// FeedOthers tells the other loops that a store's queue has room again. Any goroutine
// may call it.
func (l *Loop) FeedOthers() {
	if l.Group.hungry.Load() == 0 {
		return
	}
	for _, other := range l.Group.allLoops() {
		if other != l && !other.hungry.told.Swap(true) {
			other.Post(MailFunc(func(other *Loop) {
				other.hungry.told.Store(false)
				other.hungry.room = true
			}))
		}
	}
}
