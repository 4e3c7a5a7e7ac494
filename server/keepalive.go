package server

import "confcenter/protocol"

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
		case s.ending():
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
