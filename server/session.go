package server

import (
	"net/netip"

	"confcenter/protocol"
)

// session is a connection and who its peer says it is. Everything in it belongs to
// its loop.
type session struct {
	conn

	// set at open
	gate *gate
	desk *desk

	// loop only
	client *client // nil before WHOAMI
	parts  [families]part
}

// part is what a family of commands keeps for one session. It belongs to the
// session's loop.
type part interface {
	// readOn is called when the peer has read, so that more can be sent.
	readOn()
	// ended lets go of everything: the session is gone.
	ended()
	// describe adds to info what the session has, at most room things of a kind that
	// there can be many of.
	describe(info *ClientInfo, room int)
}

// familyKey names the families of commands that keep something for a session or a loop.
type familyKey uint8

const (
	ofWatch familyKey = iota
	ofConfig
	ofState
	families
)

// desk is where the sessions of one loop are served. It belongs to the loop.
type desk struct {
	// set at open
	gate *gate
	loop *loop

	req   protocol.Request // the one being handled
	parts [families]any    // what families keep for the loop
}

// part is what a family keeps for the loop.
func (d *desk) part(key familyKey) any { return d.parts[key] }

// Open makes a session for a new connection; nil if it has to be turned away.
func (d *desk) Open(t transport, peer netip.AddrPort, fd int) *conn {
	if s := d.open(t, peer, fd); s != nil {
		return &s.conn
	}
	return nil
}

func (d *desk) open(t transport, peer netip.AddrPort, fd int) *session {
	g := d.gate
	s := &session{gate: g, desk: d}
	s.conn.open(d.loop, s, t, peer, fd)
	if g.group.isDraining() || !g.registry.enter(s, g.cfg.MaxConnections) {
		g.group.count.TurnedAway.Add(1)
		g.group.peerLog.Warn().Stringer("peer", s.peer).Int("limit", g.cfg.MaxConnections).Msg("connection turned away: the limit is reached")
		return nil
	}
	g.group.count.Opened.Add(1)
	d.loop.add(&s.conn)
	s.expire(s.opened + g.cfg.IdentifyTimeout.Nanoseconds())
	return s
}

// part is what a family keeps of the session; nil: nothing yet.
func (s *session) part(key familyKey) part { return s.parts[key] }

// setPart has a family keep p.
func (s *session) setPart(key familyKey, p part) { s.parts[key] = p }

// describe adds to info what the families know, at most room things in all of what
// there can be many of, and most of a kind.
func (s *session) describe(info *ClientInfo, most, room int) {
	for _, p := range s.parts {
		if p != nil {
			p.describe(info, min(most, room-info.many()))
		}
	}
}

// readOn is called when the peer has read.
func (s *session) readOn() {
	for _, p := range s.parts {
		if p != nil {
			p.readOn()
		}
	}
}

// ended lets go of all that others know of the session.
func (s *session) ended(err error) {
	for _, p := range s.parts {
		if p != nil {
			p.ended()
		}
	}
	s.gate.group.count.Closed.Add(1)
	if s.client != nil {
		s.gate.left(s)
		s.gate.group.log.Debug().Stringer("peer", s.peer).Str("client", s.name()).AnErr("error", err).Msg("client gone")
	}
	s.gate.registry.leave(s)
}

// identify makes the peer a client, with the id it wants, or a free one for wanted <= 0.
// It reports false if the id belongs to another live connection.
func (s *session) identify(wanted int32, props []protocol.Property) bool {
	s.client = s.gate.registry.identify(s, wanted, props)
	return s.client != nil
}

func (s *session) identified() bool { return s.client != nil }

// name is what logs call the session.
func (s *session) name() string {
	if s.client == nil {
		return ""
	}
	return s.gate.registry.label(s.client)
}

// sessionAt is that of the loop's connection at place i.
func sessionAt(l *loop, i int) *session { return l.conns[i].user.(*session) }
