package gate

import (
	"errors"
	"net/netip"
	"sync/atomic"

	"confcenter/access"
	"confcenter/internal/admission"
	"confcenter/internal/roster"
	"confcenter/protocol"
	"confcenter/server/edge"
	"confcenter/server/tcp/loop"
)

// Session is a connection and its client. It belongs to its loop.
type Session struct {
	loop.Conn

	// set at open
	Gate  *Gate
	Local *Local

	edge.Request // that is being handled
	conn         edge.Conn

	turn int // what this turn's frames count as beyond their bytes; loop only

	peer atomic.Pointer[access.Actor] // any goroutine: who the peer has proved to be; nil: not asked yet

	// loop only
	Client *Client // nil before WHOAMI
	parts  [families]Part
	early  int    // bytes of the input that waits which were looked over, see lookOver
	tarry  func() // ends the wait of a refusal, see Tarry; nil: none has waited
}

// Part is a family's data for one session. It belongs to the session's loop.
type Part interface {
	// ReadOn is called when the peer has read, so that more can be sent.
	ReadOn()
	// Ended releases everything: the session has ended.
	Ended()
	// Describe adds what the session has to info, at most room items of each kind that can
	// be numerous.
	Describe(info *roster.Client, room int)
}

// Family is the key of a family of commands that keeps data for sessions or loops.
type Family uint8

// The families.
const (
	OfWatch Family = iota
	OfConfig
	OfState
	OfStorage
	OfDocuments
	families
)

// Local is what the sessions of one loop share. It belongs to the loop.
type Local struct {
	// set at open
	gate *Gate
	Loop *loop.Loop

	Req   protocol.Request // the current request
	room  edge.Room
	parts [families]any // the families' data for the loop
	runs  []*runs       // by Route.runs, from 1
}

// Part returns a family's data for the loop.
func (d *Local) Part(key Family) any { return d.parts[key] }

// Open makes a session for a new connection that holds place, and gives it back when it
// ends; nil if it has to leave at once.
func (d *Local) Open(t loop.Transport, place *admission.Place, peer netip.AddrPort, fd int) *loop.Conn {
	g := d.gate
	s := &Session{Gate: g, Local: d, conn: edge.Conn{Place: place}, Request: edge.Request{Edge: g.cfg.Edge, Meter: place.Meter, Room: &d.room}}
	s.Conn.Open(d.Loop, s, t, peer, fd)
	if s.LetIn != nil {
		s.Deny() // before WHOAMI
	}
	if g.Group.IsDraining() || !place.Evictable(func() {
		d.Loop.Post(loop.MailFunc(func(*loop.Loop) { s.Reset() }))
	}) {
		return nil
	}
	g.Registry.enter(s)
	g.Group.Count.Opened.Add(1)
	d.Loop.Add(&s.Conn)
	s.Expire(s.Opened + g.cfg.IdentifyTimeout.Nanoseconds())
	return &s.Conn
}

// Part returns a family's data for the session, nil if there is none yet.
func (s *Session) Part(key Family) Part { return s.parts[key] }

// SetPart sets a family's data for the session.
func (s *Session) SetPart(key Family, p Part) { s.parts[key] = p }

// Describe adds what the families know to info: of things that can be numerous, at most
// room in all and most of each kind.
func (s *Session) Describe(info *roster.Client, most, room int) {
	for _, p := range s.parts {
		if p != nil {
			p.Describe(info, min(most, room-info.Many()))
		}
	}
}

// ReadOn is called when the peer has read.
func (s *Session) ReadOn() {
	defer loop.Guard(&s.Conn)
	for _, p := range s.parts {
		if p != nil {
			p.ReadOn()
		}
	}
}

// Ended removes the session everywhere.
func (s *Session) Ended(err error) {
	for _, p := range s.parts {
		if p != nil {
			s.endPart(p)
		}
	}
	s.Gate.Group.Count.Closed.Add(1)
	if s.Client != nil {
		s.Gate.Left(s)
		s.Gate.Group.Log.Debug().Stringer("peer", s.Peer).Str("client", s.Name()).AnErr("error", err).Msg("client gone")
	}
	s.Gate.Registry.leave(s)
	s.conn.Place.Leave()
	s.conn.Leave()
	s.Account = nil
	if s.tarry != nil {
		s.tarry()
	}
}

func (s *Session) endPart(p Part) {
	defer loop.Guard(&s.Conn) // the others must end as well
	p.Ended()
}

// Identify makes the peer a client, with the id it wants, or a free one for wanted <= 0.
// It fails with [ErrTaken] if the id belongs to the server or to another live connection,
// with codes.Busy if there are as many clients as there may be, and with codes.Limit if the peer's
// identity has as many connections as it may.
func (s *Session) Identify(wanted int32, props []protocol.Property) error {
	c := s.Gate.Registry.identify(s, wanted, props)
	if c == nil {
		return ErrTaken
	}
	if err := s.conn.Settle(c.Prop("svrname")); err != nil {
		s.Gate.Registry.unidentify(c)
		s.conn.Place.Spoke()
		return err
	}
	s.Client = c
	return nil
}

// ErrTaken is Identify's answer to an id that is someone else's.
var ErrTaken = errors.New("the id is taken")

// Spoke is called when the peer has sent half a frame.
func (s *Session) Spoke() { s.conn.Place.Spoke() }

// Identified is false before WHOAMI.
func (s *Session) Identified() bool { return s.Client != nil }

// Name is the session's name in logs.
func (s *Session) Name() string {
	if s.Client == nil {
		return ""
	}
	return s.Gate.Registry.label(s.Client)
}

// SessionOf returns the session of connection c.
func SessionOf(c *loop.Conn) *Session { return c.User.(*Session) }
