// Package gate is what every frame passes on its way to a handler, and who its sender is:
// a session is a connection and the client that it says it is. The table says for each
// command what the gate asks for and which handler acts; the handlers are in the
// packages above, one for each family of commands, and put themselves into the table.
//
// A family keeps what it needs of a session or of a loop under its key, so that no
// family has to be known here.
package gate

import (
	"fmt"
	"sync"
	"time"

	"confcenter/access"
	"confcenter/codes"
	"confcenter/protocol"
	"confcenter/server/loop"
)

// Gate is what the sessions of one server share: who they are, what they may send and
// who acts on it.
type Gate struct {
	// set at open
	Group *loop.Group
	Left  func(s *Session) // is told, on its loop, of each client that goes
	// Permits is asked, on its loop, for the right of each frame that a session sends;
	// nil: everybody has every right.
	Permits  func(s *Session, right access.Right) bool
	cfg      Config
	routes   routeTable
	families [families]func(*Desk) any // each makes what its family keeps for a loop
	handOver func(s *Session)          // see HandOver
	ahead    Ahead                     // see LookAhead

	Registry Registry // any goroutine

	mu sync.Mutex
	// guarded by mu
	desks []*Desk
}

// Config is how a gate behaves; there are no defaults.
type Config struct {
	ServerID        int // the first client is given ServerID*1000+1001
	MaxConnections  int
	IdentifyTimeout time.Duration
}

// New makes a gate at which nobody handles commands yet.
func New(group *loop.Group, cfg Config) *Gate {
	g := &Gate{Group: group, cfg: cfg, routes: newRoutes(), Left: func(*Session) {}, handOver: func(*Session) {}}
	g.Registry.init(cfg.ServerID)
	return g
}

// Add has a family handle its commands.
func (g *Gate) Add(routes map[protocol.Command]Route) {
	for cmd, r := range routes {
		r.Row = g.routes[cmd].Row
		g.routes[cmd] = r
	}
}

// Handles says whether somebody acts on the command.
func (g *Gate) Handles(cmd protocol.Command) bool { return g.routes.row(cmd).Handle != nil }

// Keep says what a family keeps for each loop.
func (g *Gate) Keep(key Family, perDesk func(*Desk) any) { g.families[key] = perDesk }

// HandOver has a family collect what the frames that arrive together ask for: f is told
// when they have all been handled, and whenever the session may go on after it has
// waited.
func (g *Gate) HandOver(f func(s *Session)) { g.handOver = f }

// Ahead is a family that looks up what several sessions ask for before their frames are
// judged; see loop.User.
type Ahead interface {
	Foresee(s *Session, b []byte) bool
	LookUp(d *Desk)
}

// LookAhead says which family does.
func (g *Gate) LookAhead(a Ahead) { g.ahead = a }

// NewDesk makes the desk of a new loop, and the loop.
func (g *Gate) NewDesk(exec func(fn func()) error) *Desk {
	d := &Desk{gate: g, Loop: loop.NewLoop(g.Group, exec)}
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

// Desks is the desks there are; one made later begins with a snapshot that
// is at least as new as whatever the caller is about to post.
func (g *Gate) Desks() []*Desk {
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
	row  *Route
	size int // header and body
}

// judge is the gate. Every frame passes it just before it is acted on, whether it
// has come alone or in a run, and nothing is acted on that has not. It describes the
// frame in f.
func (s *Session) judge(b []byte, f *frame) verdict {
	if !s.Reads() {
		return stays
	}
	s.Needs(0)
	if len(b) < protocol.HeaderSize {
		return stays
	}
	h, err := protocol.ParseHeader(b)
	if err != nil {
		s.badFrame(err.Error())
		return stays
	}
	row := s.Gate.routes.row(h.Command)
	if limit := row.bodyLimit(s.Client != nil); h.BodyLen > limit {
		s.badFrame(fmt.Sprintf("%s announces %d bytes of body, the limit is %d", h.Command, h.BodyLen, limit))
		return stays
	}
	f.Header, f.row, f.size = h, row, protocol.HeaderSize+int(h.BodyLen)
	switch {
	case len(b) < f.size:
		s.Needs(f.size)
		return stays
	case !s.Admit(row.Write && !h.Command.IsReply()):
		return stays
	case s.Client == nil && !row.anonymous():
		s.turnOut(h)
		return refused
	case row.Row != nil && !s.may(row.Right):
		s.Result(h, int(codes.Forbidden), fmt.Sprintf("%s needs the right %s", h.Command, row.Right))
		return refused
	}
	return passed
}

// may says whether the session has a right. Nobody asks for it anywhere else.
func (s *Session) may(right access.Right) bool {
	return s.Gate.Permits == nil || s.Gate.Permits(s, right)
}

// Decode handles the frames at the front of b and returns how many bytes they took.
func (s *Session) Decode(b []byte) (taken int) {
	taken = s.handleEach(b)
	s.Gate.handOver(s)
	return taken
}

func (s *Session) handleEach(b []byte) (taken int) {
	var f frame
	ahead := 0 // frames of a run that have been looked up already
	for taken < len(b) {
		switch s.judge(b[taken:], &f) {
		case stays:
			return taken
		case refused:
			ahead = 0
			s.TakePrepared() // which was for this frame
		case passed:
			s.Touch()
			if ahead == 0 && f.row.Ahead != nil && !f.Command.IsReply() {
				ahead = f.row.Ahead(s, b[taken:])
			}
			if ahead > 0 {
				ahead--
				s.Count(f.Command)
				f.row.Answer(s, f.Header)
			} else if !s.handle(&f, b[taken+protocol.HeaderSize:taken+f.size]) {
				return taken
			}
		}
		taken += f.size
		s.Took(taken)
	}
	return taken
}

// handle acts on a frame that came alone; false means that it was not consumed.
func (s *Session) handle(f *frame, body []byte) bool {
	if f.Command.IsReply() {
		if s.Client != nil && f.row.PassOn != nil && s.Desk.Req.Parse(body) == nil {
			f.row.PassOn(s, f.Header)
		}
		return true
	}
	s.Count(f.Command)
	switch r := f.row; {
	case r.Handle == nil:
		s.ignore(f.Header)
		return true
	case r.Tailed:
		if !s.parseTailed(f.Header, body) {
			return true
		}
	case !r.Raw:
		if err := s.Desk.Req.Parse(body); err != nil {
			s.badJSON(f.Header, err)
			return true
		}
	}
	return f.row.Handle(s, f.Header, body)
}

// badFrame closes a connection that does not speak the protocol: without a
// reply, since there is no frame to answer.
func (s *Session) badFrame(reason string) {
	s.Group().Count.BadFrames.Add(1)
	s.Dismiss(reason)
}

// turnOut closes a peer that asks for something before WHOAMI.
func (s *Session) turnOut(h protocol.Header) {
	if h.Command.IsReply() {
		s.Dismiss("a reply before WHOAMI") // replies are never answered
		return
	}
	s.Result(h, int(codes.NotIdentified), notIdentified(h))
	s.Finish()
}

// ignore says nothing to the peer.
func (s *Session) ignore(h protocol.Header) {
	row := protocol.Lookup(h.Command)
	if row == nil || row.Role != protocol.Peers {
		return
	}
	s.Group().Count.IgnoredPeers.Add(1)
	s.Group().PeerLog.Warn().Stringer("peer", s.Peer).Str("client", s.Name()).Stringer("command", h.Command).
		Msg("server-to-server command from a client ignored")
}
