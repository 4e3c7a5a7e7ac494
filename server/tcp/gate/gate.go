// Package gate has the gate that every frame passes on its way to a handler, and the
// sessions: a session is a connection and its client. The table has, for each command,
// what the gate requires and the handler. The handlers are in the packages above, one for
// each family of commands, and add themselves to the table.
//
// A family stores its data about a session or a loop under its key, so that this package
// need not know the families.
package gate

import (
	"context"
	"fmt"
	"sync"
	"time"

	"confcenter/codes"
	"confcenter/protocol"
	"confcenter/server/edge"
	"confcenter/server/tcp/loop"
)

// Gate is what the sessions of one server share: the clients, the table of commands and
// the handlers.
type Gate struct {
	// set at open
	Group *loop.Group
	Left  func(s *Session) // called, on the session's loop, when a client leaves
	// Permits is called, on the session's loop, with the row that a frame needs the right of, and
	// returns the refusal.
	Permits  func(s *Session, row *Route) error
	cfg      Config
	routes   routeTable
	families [families]func(*Local) any // each makes its family's data for a loop
	handOver []func(s *Session)         // see HandOver
	together []func(*Local) Together    // by Route.runs, from 1

	Registry Registry // any goroutine

	mu sync.Mutex
	// guarded by mu
	locals []*Local
}

// Config are a gate's settings, without defaults.
type Config struct {
	ServerID        int // the first client gets ServerID*1000+1001
	IdentifyTimeout time.Duration
	Life            context.Context // of what is answered away from the loops; nil: it does not end
	Edge            *edge.Edge      // that HTTP shares
}

// New makes a gate without handlers.
func New(group *loop.Group, cfg Config) *Gate {
	if cfg.Life == nil {
		cfg.Life = context.Background()
	}
	g := &Gate{Group: group, cfg: cfg, routes: newRoutes(), Left: func(*Session) {}, Permits: hasRight}
	g.Registry.init(cfg.ServerID)
	return g
}

// Life is the context of what is answered away from the loops. It ends with the server.
func (g *Gate) Life() context.Context { return g.cfg.Life }

// Add adds the handlers of a family.
func (g *Gate) Add(routes map[protocol.Command]Route) {
	for cmd, r := range routes {
		r.Row = g.routes[cmd].Row
		if r.Together != nil {
			g.together = append(g.together, r.Together)
			r.runs = len(g.together)
		}
		g.routes[cmd] = r
	}
}

// Absent is the route of what a server does not have, as why says.
func Absent(why string) Route {
	return Route{Raw: true, Handle: func(s *Session, h protocol.Header, _ []byte) bool {
		s.Result(h, int(codes.NotImplemented), why)
		return true
	}}
}

// Handles reports whether the command has a handler.
func (g *Gate) Handles(cmd protocol.Command) bool { return g.routes.row(cmd).Handle != nil }

// Keep makes a family keep data for each loop.
func (g *Gate) Keep(key Family, perLoop func(*Local) any) { g.families[key] = perLoop }

// HandOver lets a family collect requests that arrive together: f is called when they have
// all been handled, and whenever a session that was waiting may continue.
func (g *Gate) HandOver(f func(s *Session)) { g.handOver = append(g.handOver, f) }

// NewLocal makes what the sessions of a new loop share, and the loop.
func (g *Gate) NewLocal(exec func(fn func()) error) *Local {
	d := &Local{gate: g, Loop: loop.NewLoop(g.Group, exec)}
	for key, perLoop := range g.families {
		if perLoop != nil {
			d.parts[key] = perLoop(d)
		}
	}
	for _, together := range g.together {
		d.runs = append(d.runs, &runs{pipeline: run{Together: together(d)}, foreseen: run{Together: together(d)}})
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.locals = append(g.locals[:len(g.locals):len(g.locals)], d)
	return d
}

// Locals returns those of all loops. One made later begins with a snapshot at least as
// new as what the caller is about to post.
func (g *Gate) Locals() []*Local {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.locals
}

// verdict is the gate's decision about the front of a session's input.
type verdict uint8

const (
	stays   verdict = iota // the frame is incomplete or must wait, or the input has ended
	refused                // the frame was answered
	passed                 // the frame goes to its handler
)

// frame is a complete frame at the front of the input. It is not kept.
type frame struct {
	protocol.Header
	row  *Route
	size int // header and body
}

// judge is the gate. Every frame, alone or in a run, must pass it just before it is acted
// on. judge describes the frame in f.
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
		tooLong(s, h, row, limit)
		return stays
	}
	f.Header, f.row, f.size = h, row, protocol.HeaderSize+int(h.BodyLen)
	s.Size = int64(f.size)
	switch {
	case len(b) < f.size:
		s.Needs(f.size)
		return stays
	case !s.Admit(orderOf(row, h)):
		return stays
	case s.Client == nil && !row.anonymous():
		s.turnOut(h)
		return refused
	case s.Metered() && !s.pays(f):
		return refused
	}
	if row.Row != nil {
		if err := s.Gate.Permits(s, row); err != nil {
			if !h.Command.IsReply() { // replies are never answered
				s.Refuse(h, err)
			}
			return refused
		}
	}
	return passed
}

func orderOf(row *Route, h protocol.Header) loop.Order {
	switch {
	case h.Command.IsReply():
	case row.Write:
		return loop.Writes
	case row.Reads:
		return loop.Reads
	}
	return loop.Strict
}

// hasRight refuses a session that has not the row's right.
func hasRight(s *Session, row *Route) error { return s.Rights.Right(row.Right, row.Named()) }

// Decode handles the frames at the front of b and returns how many bytes they took.
func (s *Session) Decode(b []byte) (taken int) {
	defer loop.Guard(&s.Conn)
	defer s.handOver() // also of what came before a frame that panics
	taken = s.handleEach(b)
	s.early = max(0, s.early-taken)
	lookOver(s, b[taken:])
	return taken
}

func (s *Session) handOver() {
	for _, handOver := range s.Gate.handOver {
		handOver(s)
	}
}

func (s *Session) handleEach(b []byte) (taken int) {
	var f frame
	var ahead *run // the frames at the front have been looked up, as many as left
	left := 0
	s.turn = 0
	for taken < len(b) {
		switch s.judge(b[taken:], &f) {
		case stays:
			return taken
		case refused:
			left = 0
			s.TakePrepared() // it was for this frame
		case passed:
			s.Touch()
			if left == 0 && f.row.runs > 0 && !f.Command.IsReply() {
				ahead, left = s.lookAhead(f.row, b[taken:])
			}
			if left > 0 {
				left--
				s.Count(f.Command)
				ahead.answer(s, f.Header)
			} else if !s.handle(&f, b[taken+protocol.HeaderSize:taken+f.size]) {
				return taken
			}
		}
		s.Next()
		taken += f.size
		s.Took(taken + s.turn)
	}
	return taken
}

// handle acts on a single frame. It returns false if the frame was not consumed.
func (s *Session) handle(f *frame, body []byte) bool {
	if f.Command.IsReply() {
		if s.Client != nil && f.row.PassOn != nil && s.Local.Req.Parse(body) == nil {
			f.row.PassOn(s, f.Header)
		}
		return true
	}
	s.Count(f.Command)
	switch r := f.row; {
	case r.Handle == nil:
		s.ignore(f.Header)
		return true
	case r.Tailed, r.Strict:
		if !s.parseStrictly(f.Header, body, r.Tailed) {
			return true
		}
	case !r.Raw:
		if err := s.Local.Req.Parse(body); err != nil {
			s.badJSON(f.Header, err)
			return true
		}
	}
	return f.row.Handle(s, f.Header, body)
}

// badFrame closes a connection that does not speak the protocol. There is no reply, since
// there is no frame to answer.
func (s *Session) badFrame(reason string) {
	s.Group().Count.BadFrames.Add(1)
	s.Dismiss(reason)
}

// tooLong closes a connection that announces more than a request may have. One of our own commands is
// told why; CppCloud closes without a word.
func tooLong(s *Session, h protocol.Header, row *Route, limit uint32) {
	reason := fmt.Sprintf("%s announces %d bytes of body, the limit is %d", h.Command, h.BodyLen, limit)
	if !h.Command.IsCppCloud() && s.Client != nil && !h.Command.IsReply() {
		s.Group().Count.BadFrames.Add(1)
		s.Refuse(h, codes.Errorf(codes.TooLarge, "%s; the connection ends", reason))
		s.Finish()
		return
	}
	s.badFrame(reason)
}

// turnOut closes a peer that sends a request before WHOAMI.
func (s *Session) turnOut(h protocol.Header) {
	if h.Command.IsReply() {
		s.Dismiss("a reply before WHOAMI") // replies are never answered
		return
	}
	if s.LetIn != nil {
		s.noteRefusal(h, codes.NotIdentified)
	}
	s.Result(h, int(codes.NotIdentified), notIdentified(h))
	s.Finish()
}

// ignore does not answer; it logs server-to-server commands.
func (s *Session) ignore(h protocol.Header) {
	row := protocol.Lookup(h.Command)
	if row == nil || row.Role != protocol.Peers {
		return
	}
	s.Group().Count.IgnoredPeers.Add(1)
	s.Group().PeerLog.Warn().Stringer("peer", s.Peer).Str("client", s.Name()).Stringer("command", h.Command).
		Msg("server-to-server command from a client ignored")
}
