package loop

import (
	"runtime/debug"
	"time"

	"confcenter/protocol"
)

// overtaken is how long requests wait for the reply to an earlier one that waits for a network.
// Then they are answered before it: what hangs holds up only those who ask for it.
const overtaken = time.Second

// besides are a connection's requests that are answered beside each other.
type besides struct {
	n     int    // that are not answered; loop only
	last  uint64 // the slot behind that of the newest; loop only
	write uint64 // the slot behind that of the newest write; loop only
}

// beside is a reply that is being made while its connection goes on.
type beside struct {
	c     *Conn
	id    uint64
	began int64 // unix ns
}

// Beside makes the reply's body away from the loop, while the connection goes on with requests
// that are as this one: they read. A worker tries first; if it returns nil, one of those who wait
// for a network makes the body. The reply keeps its place, unless that takes long.
func Beside(c *Conn, h protocol.Header, try, body func(dst []byte) []byte) {
	id := c.reserve(h.Command)
	c.besides.last = id + 1
	c.besides.n++
	l := c.Loop
	l.besides = append(l.besides, beside{c, id, l.now})
	answer := func(frame []byte) {
		l.Post(MailFunc(func(*Loop) {
			defer Guard(c)
			c.besides.n--
			if place := c.slot(id); place != nil && !place.done {
				c.Fill(id, frame)
			} else if !c.Ending() {
				c.Follow(id, frame)
				c.resume() // it may be about how many there are
			}
		}))
	}
	job := func(make func(dst []byte) []byte, otherwise func()) func() {
		return func() {
			defer func() {
				if what := recover(); what != nil {
					stack := debug.Stack()
					l.Post(MailFunc(func(*Loop) { panicked(c, what, stack) }))
				}
			}()
			if out := make(protocol.BeginFrame(nil, h.Command.Reply(), h.Seq)); out != nil {
				answer(protocol.FinishFrame(out, 0))
			} else {
				otherwise()
			}
		}
	}
	wait := func() { l.Group.waiters.submit(job(body, nil)) }
	if try == nil {
		wait()
		return
	}
	l.Group.workers.submit(job(try, wait))
}

// overtake lets replies leave before those that take long.
func (l *Loop) overtake(now int64) {
	waiting := l.besides[:0]
	for _, b := range l.besides {
		switch place := b.c.slot(b.id); {
		case place == nil || place.done:
		case now-b.began >= overtaken.Nanoseconds():
			b.c.Fill(b.id, nil) // it follows
		default:
			waiting = append(waiting, b)
		}
	}
	clear(l.besides[len(waiting):])
	l.besides = waiting
}
