package player

import (
	"confcenter/access/policy"
	"confcenter/op"
	"confcenter/player"
	"confcenter/protocol"
	"confcenter/server/tcp/gate"
	"confcenter/server/tcp/loop"
)

// gets are STGETs that are looked up together.
type gets struct {
	f *Handlers // set at open

	gets     [loop.MaxGathered]player.Get
	versions [loop.MaxGathered]bool // are asked for
	names    int                    // that they ask for
}

// Add implements gate.Together. It does not take a get that is too large for the loop.
func (g *gets) Add(i int, req *protocol.Request, body []byte) bool {
	if i == 0 {
		g.names = 0
	}
	one := &g.gets[i]
	q := protocol.StorageRead{Names: one.Names}
	if !readGet(&q, req, body) || g.names+len(q.Names) > loopFields {
		clear(q.Names)
		return false
	}
	one.App, one.Region, one.Logic, one.ID, one.Names = q.App, q.Region, q.Logic, q.ID, q.Names
	g.versions[i] = q.Versions
	g.names += len(q.Names)
	return true
}

// readGet reads a valid body.
func readGet(q *protocol.StorageRead, req *protocol.Request, body []byte) bool {
	return q.ReadPlain(body) || req != nil && req.Parse(body) == nil && req.IsObject() && req.StorageRead(q) == nil
}

// LookUp implements gate.Together.
func (g *gets) LookUp(n int) { g.f.store.GetEach(g.gets[:n]) }

// Answer implements gate.Together.
func (g *gets) Answer(s *gate.Session, h protocol.Header, i int) {
	one := &g.gets[i]
	var err error
	if s.Judged() {
		err = s.Judge(append(s.Things(), op.Owner(policy.Read, one.App, one.Region, one.Logic, one.ID)))
	}
	if err == nil {
		err = one.Err
	}
	switch {
	case err != nil:
		s.Refuse(h, err)
	case one.Cold:
		g.f.load(gate.Beside, s, h, one.Owner(), textsOf(one.Names), g.versions[i])
	default:
		answer(s, h, one.Fields, g.versions[i])
	}
	g.Forget(i)
}

// Forget implements gate.Together.
func (g *gets) Forget(i int) {
	one := &g.gets[i]
	clear(one.Names)
	clear(one.Fields)
	*one = player.Get{Names: one.Names[:0], Fields: one.Fields[:0]}
}
