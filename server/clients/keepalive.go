package clients

import (
	"confcenter/protocol"
	"confcenter/server/tcp/loop"
)

// askSlice is how many sessions a keep-alive sweep looks at in one turn.
const askSlice = 1024

// keepAliveSweep probes every session of a loop that has been silent for one interval, and
// closes those silent for two.
type keepAliveSweep struct {
	now, interval int64 // unix ns, ns
	walk          loop.Walk
}

func (k *keepAliveSweep) Deliver(l *loop.Loop, budget int) (int, bool) {
	used := 0
	for seen := 0; seen < askSlice && used < budget; seen++ {
		c := k.walk.Next(l)
		if c == nil {
			break
		}
		switch silent := k.now - c.Active.Load(); {
		case c.Ending():
		case silent > 2*k.interval:
			used++
			l.Group.Count.Idle.Add(1)
			c.Abort("no sign of life for two keep-alive intervals")
		case silent > k.interval:
			used++
			l.Group.Count.KeepAlives.Add(1)
			c.Out.SendFrame(protocol.AppendFrame(nil, protocol.KeepAlive, l.Group.NextSeq(), nil))
		}
	}
	return used + 1, k.walk.Done()
}
