package clients

import (
	"confcenter/protocol"
	"confcenter/server/loop"
)

// askSlice is how many sessions a keep-alive sweep looks at in one turn.
const askSlice = 1024

// keepAliveSweep asks every session of a loop that has been silent for one
// interval, and closes those silent for two. It goes from the end of the list,
// so that sessions that leave in between make it miss nobody.
type keepAliveSweep struct {
	now, interval int64 // unix ns, ns
	next          int   // -1: not begun
}

func (k *keepAliveSweep) Deliver(l *loop.Loop, budget int) (int, bool) {
	if k.next < 0 {
		k.next = len(l.Conns)
	}
	used := 0
	for seen := 0; k.next > 0 && seen < askSlice && used < budget; seen++ {
		k.next--
		if k.next >= len(l.Conns) {
			continue
		}
		s := l.Conns[k.next]
		switch silent := k.now - s.Active.Load(); {
		case s.Ending():
		case silent > 2*k.interval:
			used++
			l.Group.Count.Idle.Add(1)
			s.Abort("no sign of life for two keep-alive intervals")
		case silent > k.interval:
			used++
			l.Group.Count.KeepAlives.Add(1)
			s.Out.SendFrame(protocol.AppendFrame(nil, protocol.KeepAlive, l.Group.NextSeq(), nil))
		}
	}
	return used + 1, k.next == 0
}
