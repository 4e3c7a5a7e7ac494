package gate

import (
	"net/netip"

	"confcenter/protocol"
	"confcenter/server/loop"
)

// Session is a connection and who its peer says it is. Everything in it belongs to
// its loop.
type Session struct {
	loop.Conn

	// set at open
	Gate *Gate
	Desk *Desk

	// loop only
	Client *Client // nil before WHOAMI
	parts  [families]Part
}

// Part is what a family of commands keeps for one session. It belongs to the
// session's loop.
type Part interface {
	// ReadOn is called when the peer has read, so that more can be sent.
	ReadOn()
	// Ended lets go of everything: the session is gone.
	Ended()
	// Describe adds to info what the session has, at most room things of a kind that
	// there can be many of.
	Describe(info *ClientInfo, room int)
}

// Family names the families of commands that keep something for a session or a loop.
type Family uint8

// The families.
const (
	OfWatch Family = iota
	OfConfig
	OfState
	families
)

// Desk is where the sessions of one loop are served. It belongs to the loop.
type Desk struct {
	// set at open
	gate *Gate
	Loop *loop.Loop

	Req   protocol.Request // the one being handled
	parts [families]any    // what families keep for the loop
}

// Part is what a family keeps for the loop.
func (d *Desk) Part(key Family) any { return d.parts[key] }

// Open makes a session for a new connection; nil if it has to be turned away.
func (d *Desk) Open(t loop.Transport, peer netip.AddrPort, fd int) *loop.Conn {
	if s := d.open(t, peer, fd); s != nil {
		return &s.Conn
	}
	return nil
}

func (d *Desk) open(t loop.Transport, peer netip.AddrPort, fd int) *Session {
	g := d.gate
	s := &Session{Gate: g, Desk: d}
	s.Conn.Open(d.Loop, s, t, peer, fd)
	if g.Group.IsDraining() || !g.Registry.enter(s, g.cfg.MaxConnections) {
		g.Group.Count.TurnedAway.Add(1)
		g.Group.PeerLog.Warn().Stringer("peer", s.Peer).Int("limit", g.cfg.MaxConnections).Msg("connection turned away: the limit is reached")
		return nil
	}
	g.Group.Count.Opened.Add(1)
	d.Loop.Add(&s.Conn)
	s.Expire(s.Opened + g.cfg.IdentifyTimeout.Nanoseconds())
	return s
}

// Part is what a family keeps of the session; nil: nothing yet.
func (s *Session) Part(key Family) Part { return s.parts[key] }

// SetPart has a family keep p.
func (s *Session) SetPart(key Family, p Part) { s.parts[key] = p }

// Describe adds to info what the families know, at most room things in all of what
// there can be many of, and most of a kind.
func (s *Session) Describe(info *ClientInfo, most, room int) {
	for _, p := range s.parts {
		if p != nil {
			p.Describe(info, min(most, room-info.Many()))
		}
	}
}

// Foresee reports whether b asks for what is looked up together with others.
func (s *Session) Foresee(b []byte) bool {
	return s.Client != nil && s.Gate.ahead != nil && s.Gate.ahead.Foresee(s, b)
}

// LookUp looks up what sessions of the loop have foreseen.
func (s *Session) LookUp() { s.Gate.ahead.LookUp(s.Desk) }

// ReadOn is called when the peer has read.
func (s *Session) ReadOn() {
	for _, p := range s.parts {
		if p != nil {
			p.ReadOn()
		}
	}
}

// Ended lets go of all that others know of the session.
func (s *Session) Ended(err error) {
	for _, p := range s.parts {
		if p != nil {
			p.Ended()
		}
	}
	s.Gate.Group.Count.Closed.Add(1)
	if s.Client != nil {
		s.Gate.Left(s)
		s.Gate.Group.Log.Debug().Stringer("peer", s.Peer).Str("client", s.Name()).AnErr("error", err).Msg("client gone")
	}
	s.Gate.Registry.leave(s)
}

// Identify makes the peer a client, with the id it wants, or a free one for wanted <= 0.
// It reports false if the id belongs to another live connection.
func (s *Session) Identify(wanted int32, props []protocol.Property) bool {
	s.Client = s.Gate.Registry.identify(s, wanted, props)
	return s.Client != nil
}

// Identified is false before WHOAMI.
func (s *Session) Identified() bool { return s.Client != nil }

// Name is what logs call the session.
func (s *Session) Name() string {
	if s.Client == nil {
		return ""
	}
	return s.Gate.Registry.label(s.Client)
}

// SessionOf is whose connection c is.
func SessionOf(c *loop.Conn) *Session { return c.User.(*Session) }
