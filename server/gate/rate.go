package gate

import (
	"time"

	"confcenter/access"
	"confcenter/access/quota"
	"confcenter/codes"
	"confcenter/internal/admission"
	"confcenter/internal/memory"
	"confcenter/kv"
	"confcenter/protocol"
	"confcenter/server/loop"
)

// toll is what a session pays for its requests.
type toll struct {
	meter *admission.Meter // set at open; nil: the connection and its address are not limited

	// loop only
	account   *quota.Account // of who the peer is; nil: not known, or nobody is
	connected bool           // it is counted among the account's connections
	refusals  quota.Refusals
	size      int64 // of the current frame, in bytes
	paid      bool  // the current frame is, which may pass the gate again
	spent     bool  // likewise, by the namespaces in it
	turn      int   // what this turn's frames count as beyond their bytes
}

// shortTurn makes the turns of who has a quota end after 32 requests: others who have come meanwhile are
// served in between.
const shortTurn = 2 << 10

// due reports whether anything limits what is sent.
func (t *toll) due() bool { return t.meter != nil || t.account.Metered() }

// Taker is who memory for the peer's requests is taken for. It is asked for on the loop, and may then be used
// on any goroutine.
func (s *Session) Taker() memory.Taker { return s.toll.account }

// next begins the next frame.
func (t *toll) next() { t.paid, t.spent = false, false }

func (t *toll) take(now time.Time, size int64) error {
	switch {
	case t.meter == nil:
	case t.account.Administrator():
		t.meter.Charge(now, 1, size)
	default:
		if err := t.meter.Take(now, size); err != nil {
			return err
		}
	}
	return t.account.Take(now, size)
}

func (t *toll) charge(now time.Time, size int64) {
	if t.meter != nil {
		t.meter.Charge(now, 1, size)
	}
	t.account.Charge(now, 1, size)
}

// pays charges the frame. If it is beyond the rate, it answers instead and returns false.
func (s *Session) pays(f *frame) bool {
	if s.toll.paid {
		return true
	}
	s.toll.paid = true
	s.toll.turn += shortTurn
	now, h, size := s.Loop.Moment(), f.Header, int64(f.size)
	switch {
	case h.Command.IsReply():
		// A routed reply has no answer: one too many is dropped.
		if f.row.PassOn == nil {
			return true
		}
		err := s.toll.take(now, size)
		s.noteRefusal(h, err)
		return err == nil
	case f.row.Handle == nil, f.row.anonymous(), h.Command == protocol.KeepAlive, h.Command == protocol.KVAlive, h.Command == protocol.KVUnwatch:
		s.toll.charge(now, size) // these have no refusal, or nobody could do without them
		return true
	}
	err := s.toll.take(now, size)
	if err == nil {
		return true
	}
	s.Touch()
	s.Count(h.Command)
	s.End(s.AppendRefusal(s.Begin(h.Command.Reply(), h.Seq), h, err))
	s.tire(now)
	return false
}

// tire has the session rest if its peer sends far more than it may.
func (s *Session) tire(now time.Time) {
	if wait := s.toll.refusals.Tire(s.toll.account, now); wait > 0 {
		loop.Rest(&s.Conn, wait)
	}
}

// Spend charges the current request to a namespace that it names, or returns a refusal.
func (s *Session) Spend(ns []byte) error {
	book := s.Gate.quotas
	if book == nil || s.toll.spent || s.toll.account.Administrator() {
		return nil
	}
	now := s.Loop.Moment()
	err := book.Spend(ns, now, s.toll.size)
	if s.toll.spent = err == nil; err != nil {
		s.tire(now)
	}
	return err
}

// Limiting reports whether any namespace has to pay for requests.
func (g *Gate) Limiting() bool { return g.quotas.Limiting() }

// Payer is Spend for the current request, once another goroutine knows what it is about; an empty
// name pays nothing.
func (s *Session) Payer() func(ns string) error {
	book, now, size := s.Gate.quotas, s.Loop.Moment(), s.toll.size
	if !book.Limiting() || s.toll.account.Administrator() {
		return func(string) error { return nil }
	}
	return func(ns string) error {
		if ns == "" {
			return nil
		}
		return book.Spend([]byte(ns), now, size)
	}
}

// SpendTxn charges the current request to each namespace that a transaction writes or reads, or
// returns a refusal.
func (s *Session) SpendTxn(txn *kv.Txn) error {
	if s.Gate.quotas == nil || s.toll.spent {
		return nil
	}
	return txn.EachNamespace(func(ns string) error {
		s.toll.spent = false
		return s.Spend([]byte(ns))
	})
}

// CountWatch counts a watch on a namespace, which is empty for what is not in one, or refuses it.
func (s *Session) CountWatch(ns string) (quota.Watch, error) {
	return s.Gate.quotas.Watch(s.toll.account, ns)
}

// enter has the session count as who its peer has proved to be.
func (s *Session) enter(who *access.Identity) error {
	t := &s.toll
	if t.account.Is(who) {
		return nil
	}
	account := s.Gate.quotas.Enter(who)
	if t.connected {
		if err := account.Connect(); err != nil {
			account.Leave()
			return err
		}
		t.account.Disconnect()
	}
	t.account.Leave()
	t.account = account
	return nil
}

// settle takes a place for a client, as one of its account's connections.
func (s *Session) settle(name string) error {
	t := &s.toll
	if err := t.account.Connect(); err != nil {
		return err
	}
	settle := s.place.Settle
	if t.account.Administrator() {
		settle = s.place.SettleAdministrator
	}
	if err := settle(name); err != nil {
		t.account.Disconnect()
		return &codes.Error{Code: codes.Of(err), Text: codes.Message(err), After: time.Second}
	}
	t.connected = true
	return nil
}

// leave ends what enter and settle began.
func (t *toll) leave() {
	if t.connected {
		t.account.Disconnect()
	}
	t.account.Leave()
	t.account, t.connected = nil, false
}
