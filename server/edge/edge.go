// Package edge has the stages that every request passes on its way to a handler, however it came: who sends
// it, what it costs its sender, the right of its row, what it is about, the namespaces that pay for it, the
// values that are to be sealed, and its refusal. TCP and HTTP share one [Edge] and call the stages in this
// order, each when it has what a stage needs. No other handler knows rights, quotas or keys.
//
// What is known by the names in a request is decided here, and what hangs on contents in the stores. A
// concern that is new is one more [Stage].
package edge

import (
	"context"
	"time"

	"github.com/rs/zerolog"

	"confcenter/access"
	"confcenter/access/control"
	"confcenter/access/guard"
	"confcenter/access/quota"
	"confcenter/access/secret"
	"confcenter/codes"
	"confcenter/internal/admission"
	"confcenter/op"
)

// Edge is what all requests of a server share, by whichever way they come. Nothing of it changes once a
// request has come. Make one with [New].
type Edge struct {
	Control *control.Control                            // nil: there is no access control
	LetIn   func(*control.Proof) (*guard.Caller, error) // what a proof allows; nil: everyone may do everything
	Log     zerolog.Logger                              // of what goes wrong
	Quotas  *quota.Book                                 // nil: nothing is counted
	Audit   access.Notes                                // nil: no one takes notes
	Ring    func() *secret.Ring                         // the keys of sealed values, now; it may return nil: there are none
	Stages  []Stage                                     // further ones, in their order
}

// New is the edge of a server with access control, or of one without if c is nil. audit may be nil, and so may
// ring and what it returns.
func New(c *control.Control, audit access.Notes, ring func() *secret.Ring, log zerolog.Logger) *Edge {
	e := &Edge{Control: c, Quotas: c.Quotas(), Audit: audit, Ring: ring, Log: log}
	if c != nil {
		e.LetIn = c.Admit
	}
	if ring == nil {
		e.Ring = func() *secret.Ring { return nil }
	}
	return e
}

// Stage decides about the things that a request is about, after rights have been. It must not keep them.
type Stage func(by *access.Identity, things []op.Thing) error

// Request is the request that is being served on a connection, and who sends it. It is for one goroutine
// at a time.
type Request struct {
	*Edge                  // set at open
	Meter *admission.Meter // set at open: of the connection and its address; nil: they are not limited
	Room  *Room            // set at open

	Rights  *guard.Caller  // what the sender may do; nil: there is no access control
	Account *quota.Account // of the sender, see [Conn]; nil: not known, or no one is counted
	Size    int64          // in bytes, as far as it is charged
	paid    bool           // a request may pass again when it has waited
	spent   bool           // likewise, by its namespaces
}

// Room is what the requests that one goroutine serves are judged in. The zero value is ready to use.
type Room struct {
	things []op.Thing
	name   []byte // of a namespace
}

const mostThings = 64 // that a Room keeps the memory of

// Deny has the sender be no one in particular, who may do nothing.
func (r *Request) Deny() { r.Rights = new(guard.Caller) }

// Refused has the log know of a request, do, that is refused for a fault of the server, and the audit of one that
// lacks a right or a proof, or is beyond a quota. It may be called from any goroutine.
func (e *Edge) Refused(by *access.Actor, do string, err error) {
	if codes.Of(err) == codes.Internal {
		e.Log.Error().Err(err).Str("request", do).Str("peer", by.Address).Msg("request failed")
	}
	e.Audit.Refused(by, do, err)
}

// Next begins the next request.
func (r *Request) Next() { r.paid, r.spent = false, false }

// Metered reports whether anything limits what is sent.
func (r *Request) Metered() bool { return r.Meter != nil || r.Account.Metered() }

// Pay charges the request to its connection, its address and its sender, or refuses one beyond their rate.
// It does so once.
func (r *Request) Pay(now time.Time) error {
	if r.paid {
		return nil
	}
	r.paid = true
	switch {
	case r.Meter == nil:
	case r.Account.Administrator():
		r.Meter.Charge(now, 1, r.Size)
	default:
		if err := r.Meter.Take(now, r.Size); err != nil {
			return err
		}
	}
	return r.Account.Take(now, r.Size)
}

// Charge charges, whatever the rate, a request that is never refused, or bytes of a body alone.
func (r *Request) Charge(now time.Time, requests, bytes int64) {
	r.paid = r.paid || requests > 0
	if r.Meter != nil {
		r.Meter.Charge(now, requests, bytes)
	}
	r.Account.Charge(now, requests, bytes)
}

// Paid reports whether the request has been charged.
func (r *Request) Paid() bool { return r.paid }

// Judged reports whether anything is decided about what requests are about. If not, hot ones need not say it.
func (r *Request) Judged() bool {
	return r.Rights != nil || r.Stages != nil || r.Quotas.Limiting()
}

// Things is room for what a request is about, until Judge.
func (r *Request) Things() []op.Thing { return r.Room.things[:0] }

// Judge decides about all that the request reads, changes or learns of: whether its sender may, then whether
// the namespaces can pay, which they do once.
func (r *Request) Judge(now time.Time, things []op.Thing) error {
	defer r.Room.keep(things)
	if err := r.Rights.Needs(things...); err != nil {
		return err
	}
	for _, stage := range r.Stages {
		if err := stage(r.Rights.Identity(), things); err != nil {
			return err
		}
	}
	if r.spent || !r.Quotas.Limiting() || r.Account.Administrator() {
		return nil
	}
	for i := range things {
		if err := r.spend(now, things, i); err != nil {
			return err
		}
	}
	r.spent = true
	return nil
}

// spend charges the namespace of a thing, unless an earlier one has the same.
func (r *Request) spend(now time.Time, things []op.Thing, i int) error {
	for before := range things[:i] {
		if !things[before].Unpaid && things[i].SameNamespace(&things[before]) {
			return nil
		}
	}
	if things[i].Unpaid {
		return nil
	}
	name := things[i].AppendNamespace(r.Room.name[:0])
	if r.Room.name = name; len(name) == 0 {
		return nil
	}
	return r.Quotas.Spend(name, now, r.Size)
}

// keep has the memory of things used again, without what they refer to.
func (m *Room) keep(things []op.Thing) {
	clear(things)
	if cap(things) <= mostThings {
		m.things = things[:0]
	}
}

// Watch is a watch, a subscription or a stream that is counted, until End.
type Watch struct{ quota.Watch }

// Watch counts one of the sender, and of a namespace of keys unless ns is empty, or refuses it.
func (r *Request) Watch(ns string) (Watch, error) {
	counted, err := r.Quotas.Watch(r.Account, ns)
	return Watch{counted}, err
}

// May is what the sender may do.
func (r *Request) May() op.May { return r.Rights.May() }

// Ask has a model answer a question that has been read, as a JSON object, unless the sender may not ask it.
func (r *Request) Ask(ctx context.Context, now time.Time, m *op.Model, o *op.Operation, by *access.Actor, question any) ([]byte, error) {
	if err := r.Judge(now, o.Things(question, r.Things())); err != nil {
		return nil, err
	}
	return m.Answer(op.With(ctx, r.May()), o, by, question)
}

// Apart is the same request, for another goroutine.
func (r *Request) Apart() *Request {
	return &Request{Edge: r.Edge, Meter: r.Meter, Room: new(Room), Rights: r.Rights, Account: r.Account, Size: r.Size, paid: r.paid, spent: r.spent}
}
