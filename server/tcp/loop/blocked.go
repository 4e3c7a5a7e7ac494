package loop

import "sync/atomic"

// blocked are a loop's connections that found a store's queue full.
type blocked struct {
	l *Loop // set at open

	// loop only
	list []*Conn // the one that has waited longest is first
	room bool    // a store's queue has had room since they last tried

	told atomic.Bool // any goroutine: mail about room is on its way
}

func (h *blocked) add(c *Conn) {
	if c.on.join(onRoom) {
		h.l.Group.blocked.Add(1)
		h.list = append(h.list, c)
	}
}

// feed lets them try again if there has been room.
func (h *blocked) feed() {
	if h.room {
		h.room = false
		h.tryAgain()
	}
}

// tryAgain lets them try until the queue is full again. Each try parses its request again:
// if all of them tried after every write, the cost would grow with the square of their
// number.
func (h *blocked) tryAgain() {
	list := h.list
	h.list = nil
	for i, c := range list {
		c.on.leave(onRoom)
		h.l.Group.blocked.Add(-1)
		c.resume()
		if c.on&onRoom != 0 {
			// Those that have had a turn go behind those that have not.
			h.list = append(list[i+1:], h.list...)
			return
		}
	}
}

// HasRoom records that a store has finished a write, so that its queue has room.
func (l *Loop) HasRoom() { l.blocked.room = true }

// TellOthersOfRoom tells the other loops that a store's queue has room again. Any goroutine
// may call it.
func (l *Loop) TellOthersOfRoom() {
	if l.Group.blocked.Load() == 0 {
		return
	}
	for _, other := range l.Group.allLoops() {
		if other != l && !other.blocked.told.Swap(true) {
			other.Post(MailFunc(func(other *Loop) {
				other.blocked.told.Store(false)
				other.blocked.room = true
			}))
		}
	}
}
