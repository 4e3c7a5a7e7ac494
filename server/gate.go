package server

import (
	"fmt"
	"sync"
	"time"

	"confcenter/access"
	"confcenter/codes"
	"confcenter/protocol"
)

// gate is what the sessions of one server share: who they are, what they may send and
// who acts on it.
type gate struct {
	// set at open
	group    *group
	cfg      gateConfig
	routes   routeTable
	families [families]func(*desk) any // each makes what its family keeps for a loop

	left     func(s *session) // is told, on its loop, of each client that goes
	registry registry

	mu sync.Mutex
	// guarded by mu
	desks []*desk
}

// gateConfig is how a gate behaves; there are no defaults.
type gateConfig struct {
	ServerID        int // the first client is given ServerID*1000+1001
	MaxConnections  int
	IdentifyTimeout time.Duration
}

// newGate makes a gate at which nobody handles commands yet.
func newGate(group *group, cfg gateConfig) *gate {
	g := &gate{group: group, cfg: cfg, routes: newRoutes(), left: func(*session) {}}
	g.registry.init(cfg.ServerID)
	return g
}

// add has a family handle its commands.
func (g *gate) add(routes map[protocol.Command]route) {
	for cmd, r := range routes {
		r.Row = g.routes[cmd].Row
		g.routes[cmd] = r
	}
}

// handles says whether somebody acts on the command.
func (g *gate) handles(cmd protocol.Command) bool { return g.routes.row(cmd).handle != nil }

// keep says what a family keeps for each loop.
func (g *gate) keep(key familyKey, perDesk func(*desk) any) { g.families[key] = perDesk }

// newDesk makes the desk of a new loop, and the loop.
func (g *gate) newDesk(exec func(fn func()) error) *desk {
	d := &desk{gate: g, loop: newLoop(g.group, exec)}
	for key, perDesk := range g.families {
		if perDesk != nil {
			d.parts[key] = perDesk(d)
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.desks = append(g.desks[:len(g.desks):len(g.desks)], d)
	return d
}

// allDesks is the desks there are; one made later begins with a snapshot that
// is at least as new as whatever the caller is about to post.
func (g *gate) allDesks() []*desk {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.desks
}

// verdict is what the gate says of what stands at the front of a session's input.
type verdict uint8

const (
	stays   verdict = iota // it is not whole, has to wait or is the last that was looked at
	refused                // it was answered and is done with
	passed                 // it is the handler's
)

// frame is one that is whole at the front of the input. It is not kept.
type frame struct {
	protocol.Header
	row  *route
	size int // header and body
}

// judge is the gate. Every frame passes it just before it is acted on, whether it
// has come alone or in a run, and nothing is acted on that has not.
func (s *session) judge(b []byte) (f frame, v verdict) {
	if !s.reads() {
		return f, stays
	}
	s.needs(0)
	if len(b) < protocol.HeaderSize {
		return f, stays
	}
	h, err := protocol.ParseHeader(b)
	if err != nil {
		s.badFrame(err.Error())
		return f, stays
	}
	row := s.gate.routes.row(h.Command)
	if limit := row.bodyLimit(s.client != nil); h.BodyLen > limit {
		s.badFrame(fmt.Sprintf("%s announces %d bytes of body, the limit is %d", h.Command, h.BodyLen, limit))
		return f, stays
	}
	f = frame{h, row, protocol.HeaderSize + int(h.BodyLen)}
	switch {
	case len(b) < f.size:
		s.needs(f.size)
		return f, stays
	case !s.admit(row.write && !h.Command.IsReply()):
		return f, stays
	case s.client == nil && !row.anonymous():
		s.turnOut(h)
		return f, refused
	case row.Row != nil && !s.may(row.Right):
		s.result(h, int(codes.Forbidden), fmt.Sprintf("%s needs the right %s", h.Command, row.Right))
		return f, refused
	}
	return f, passed
}

// may says whether the session has a right. Everybody has every right as long as
// there is nothing to tell one from the other; whatever will, is asked here.
func (s *session) may(access.Right) bool { return true }

// decode handles the frames at the front of b and returns how many bytes they took.
func (s *session) decode(b []byte) (taken int) {
	ahead := 0 // frames of a run that have been looked up already
	for {
		f, v := s.judge(b[taken:])
		switch v {
		case stays:
			return taken
		case refused:
			ahead = 0
		case passed:
			s.touch()
			if ahead == 0 && f.row.ahead != nil && !f.Command.IsReply() {
				ahead = f.row.ahead(s, b[taken:])
			}
			if ahead > 0 {
				ahead--
				s.count(f.Command)
				f.row.answer(s, f.Header)
			} else if !s.handle(f, b[taken+protocol.HeaderSize:taken+f.size]) {
				return taken
			}
		}
		taken += f.size
		s.took(taken)
	}
}

// handle acts on a frame that came alone; false means that it was not consumed.
func (s *session) handle(f frame, body []byte) bool {
	if f.Command.IsReply() {
		if s.client != nil && f.row.passOn != nil && s.desk.req.Parse(body) == nil {
			f.row.passOn(s, f.Header)
		}
		return true
	}
	s.count(f.Command)
	switch r := f.row; {
	case r.handle == nil:
		s.ignore(f.Header)
		return true
	case r.tailed:
		if !s.parseTailed(f.Header, body) {
			return true
		}
	case !r.raw:
		if err := s.desk.req.Parse(body); err != nil {
			s.badJSON(f.Header, err)
			return true
		}
	}
	return f.row.handle(s, f.Header, body)
}

// badFrame closes a connection that does not speak the protocol: without a
// reply, since there is no frame to answer.
func (s *session) badFrame(reason string) {
	s.group().count.BadFrames.Add(1)
	s.dismiss(reason)
}

// turnOut closes a peer that asks for something before WHOAMI.
func (s *session) turnOut(h protocol.Header) {
	if h.Command.IsReply() {
		s.dismiss("a reply before WHOAMI") // replies are never answered
		return
	}
	s.result(h, int(codes.NotIdentified), notIdentified(h))
	s.finish()
}

// ignore says nothing to the peer.
func (s *session) ignore(h protocol.Header) {
	row := protocol.Lookup(h.Command)
	if row == nil || row.Role != protocol.Peers {
		return
	}
	s.group().count.IgnoredPeers.Add(1)
	s.group().peerLog.Warn().Stringer("peer", s.peer).Str("client", s.name()).Stringer("command", h.Command).
		Msg("server-to-server command from a client ignored")
}
