package state

import (
	"confcenter/kv"
	"confcenter/protocol"
	"confcenter/server/tcp/gate"
	"confcenter/server/tcp/loop"
)

// gets are KVGETs that are looked up together.
type gets struct {
	store kv.Store // set at open

	asked [loop.MaxGathered]protocol.KVRead
	reads [loop.MaxGathered]kv.Read
	rev   kv.Revision // of the read
	sum   byte        // of Prefetch
}

// Add implements gate.Together. It takes requests for what is in memory.
func (g *gets) Add(i int, req *protocol.Request, body []byte) bool {
	q, ok := protocol.PlainKVGet(body)
	if !ok {
		if req == nil || req.ParseTailed(body) != nil || !req.IsObject() {
			return false
		}
		var err error
		if q, err = req.KVGet(); err != nil || q.Rev != 0 {
			return false
		}
	}
	g.asked[i], g.reads[i] = q, kv.Read{NS: q.NS, Key: q.Key}
	return true
}

// LookUp implements gate.Together.
func (g *gets) LookUp(n int) {
	g.rev = g.store.GetEach(g.reads[:n])
	g.sum += kv.Prefetch(g.reads[:n])
}

// Answer implements gate.Together.
func (g *gets) Answer(s *gate.Session, h protocol.Header, i int) {
	var err error
	if s.Judged() {
		err = s.Judge(g.asked[i].Things(s.Things()))
	}
	if err != nil {
		s.Refuse(h, err)
	} else {
		kvGot(s, h, g.asked[i], g.reads[i].Entry, g.rev)
	}
	g.Forget(i)
}

// Forget implements gate.Together.
func (g *gets) Forget(i int) { g.reads[i], g.asked[i] = kv.Read{}, protocol.KVRead{} }
