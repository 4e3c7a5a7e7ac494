package server

import (
	"time"

	"confcenter/protocol"
)

// tickPeriod is how often the loops look at their clocks.
const tickPeriod = time.Second

// ticker posts the time to every loop until the server stops.
func (s *Server) ticker() {
	t := s.cfg.Clock.NewTicker(tickPeriod)
	defer t.Stop()
	for {
		select {
		case <-s.life.Done():
			return
		case <-t.C():
			now := s.cfg.Clock.Now()
			sweep := s.sweepDue(now)
			for _, l := range s.allLoops() {
				l.post(mailFunc(func(l *loop) { l.tick(now.UnixNano()) }))
				if sweep {
					l.post(&keepAliveSweep{now: now.UnixNano(), interval: s.cfg.KeepAlive.Nanoseconds(), next: -1})
				}
			}
		}
	}
}

// sweepDue says whether an interval has passed since the start or the last sweep.
func (s *Server) sweepDue(now time.Time) bool {
	if now.Before(s.nextSweep) {
		return false
	}
	for !now.Before(s.nextSweep) {
		s.nextSweep = s.nextSweep.Add(s.cfg.KeepAlive)
	}
	return true
}

// askSlice is how many sessions a keep-alive sweep looks at in one turn.
const askSlice = 1024

// keepAliveSweep asks every session of a loop that has been silent for one
// interval, and closes those silent for two. It goes from the end of the list,
// so that sessions that leave in between make it miss nobody.
type keepAliveSweep struct {
	now, interval int64 // unix ns, ns
	next          int   // -1: not begun
}

func (k *keepAliveSweep) deliver(l *loop, budget int) (int, bool) {
	if k.next < 0 {
		k.next = len(l.conns)
	}
	used := 0
	for seen := 0; k.next > 0 && seen < askSlice && used < budget; seen++ {
		k.next--
		if k.next >= len(l.conns) {
			continue
		}
		s := l.conns[k.next]
		switch silent := k.now - s.active.Load(); {
		case s.state.over():
		case silent > 2*k.interval:
			used++
			l.srv.count.Idle.Add(1)
			s.abort("no sign of life for two keep-alive intervals")
		case silent > k.interval:
			used++
			l.srv.count.KeepAlives.Add(1)
			s.out.sendFrame(protocol.AppendFrame(nil, protocol.KeepAlive, l.srv.nextSeq(), nil))
		}
	}
	return used + 1, k.next == 0
}
