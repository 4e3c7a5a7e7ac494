package gate

import (
	"confcenter/access"
	"confcenter/access/control"
	"confcenter/codes"
	"confcenter/protocol"
	"confcenter/server/tcp/loop"
)

// The names of the listeners, as the settings call them.
const (
	PlainListener = "listen"
	TLSListener   = "tls-listen"
)

// Prove finds out who the peer is, by the token that it has given, if any, and what else it has,
// and so what it may do. Without access control everyone may do everything. Who the peer is
// stays the same for as long as the connection lasts. codes.NotIdentified.
func (s *Session) Prove(token string) error {
	if s.LetIn == nil {
		return nil
	}
	p := control.Proof{Token: token, Certificate: loop.LeafOf(&s.Conn), Listener: PlainListener, Address: s.Peer.Addr()}
	if loop.Secure(&s.Conn) {
		p.Listener = TLSListener
	}
	rights, err := s.LetIn(&p)
	switch before := s.Rights.Identity(); {
	case err != nil:
		return err
	case before != nil && before.Name != rights.Who.Name:
		return codes.Errorf(codes.BadRequest, "this connection is %s's; open another connection to be someone else", before.Name)
	case before != nil && !rights.Covers(s.Rights): // what it watches and holds depends on them
		return codes.Errorf(codes.BadRequest, "this connection may do more than that token allows; open another one to do less")
	}
	if err := s.conn.Enter(s.Edge, rights.Who); err != nil {
		return err
	}
	s.Rights, s.Account = rights, s.conn.Account
	by := *s.peerActor()
	first := by.Identity == nil
	by.Identity = rights.Who
	s.peer.Store(&by)
	if first {
		s.Audit.Note(access.Event{Kind: access.EventLogin, By: &by, Do: protocol.Whoami.String()})
	}
	if s.Client != nil {
		s.Client.actor = nil // another proof may be worth less
	}
	return nil
}

// Tarry reports whether the refusal that err is has to wait, as that of a wrong token does: then the
// frame must not be taken, and comes again when it may be refused. Nothing that the peer sends is looked
// at meanwhile, and no one else waits.
func Tarry(s *Session, err error) bool {
	if s.tarry != nil { // it has waited
		s.tarry()
		return false
	}
	wait, done := s.Control.Delay(err)
	if wait == 0 {
		return false
	}
	if s.tarry = done; !loop.Delay(&s.Conn, wait) {
		done()
		return false
	}
	return true
}

// Follow has all sessions renew their rights whenever those may have changed, until cancel.
func (g *Gate) Follow() (cancel func()) {
	return g.cfg.Edge.Control.Follow(func() {
		for _, d := range g.Locals() {
			d.Loop.Post(loop.MailFunc(renew))
		}
	})
}

// renew ends the sessions of a loop whose rights are less than they were: what they watch, wait
// for and hold depends on them. They may come again.
func renew(l *loop.Loop) {
	l.Each(func(c *loop.Conn) {
		s, ok := SessionOf(c), false
		if s.Rights, ok = s.Rights.Renew(); !ok {
			s.Abort("its rights have ended or are less than they were")
		}
	})
}
