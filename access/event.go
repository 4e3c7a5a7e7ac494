package access

import (
	"errors"

	"confcenter/codes"
)

// EventKind is what kind of thing the audit has a line about.
type EventKind string

// The kinds of events.
const (
	EventChange     EventKind = "change"     // of documents, keys, or anything else in the store
	EventPermission EventKind = "permission" // of roles
	EventToken      EventKind = "token"      // one was made or revoked
	EventLogin      EventKind = "login"      // a peer proved who it is, or failed to
	EventLogout     EventKind = "logout"     // a session was ended by its owner or an administrator
	EventDenied     EventKind = "denied"     // a request lacked a right
	EventReview     EventKind = "review"     // a pending change was approved or rejected
	EventRefused    EventKind = "refused"    // a peer was beyond a quota
	EventLost       EventKind = "lost"       // events came faster than they could be noted
	EventPruned     EventKind = "pruned"     // old lines were removed
)

// EventKinds are all kinds.
func EventKinds() []EventKind {
	return []EventKind{EventChange, EventPermission, EventToken, EventLogin, EventLogout, EventDenied, EventReview, EventRefused, EventLost, EventPruned}
}

// Event is something that the audit is to have a line about. It has names, never values, tokens or
// secrets. Texts may come from peers: they are cut and escaped where they are written.
type Event struct {
	Kind    EventKind
	By      *Actor     // who, and from where; nil: not known
	Do      string     // what was done or asked, in a word: "read", "put", "approve"
	What    []string   // to what, each with its class: "config:game/a.json", "kv:ns/key", "token:deploy"
	Outcome codes.Code // codes.OK: it was done; else why not
	More    int64      // further things, that What does not name
	Count   int64      // how often it happened, of several that were added up; 0: once
	Since   int64      // when the first of these was, in ms since 1970
	// Often is set of what may happen very often although it is allowed: it is added up.
	Often bool
}

// Notes takes down events that are no change of the store: changes have their lines by themselves.
// A nil Notes is none. It may be called from any goroutine, event loops included: it never waits.
// The events whose Outcome is not codes.OK, and those that may come Often, are added up if they are
// the same but for the port they come from. What it has not written after a second may be lost if the process is killed.
type Notes func(Event)

// Note takes e down.
func (n Notes) Note(e Event) {
	if n != nil {
		n(e)
	}
}

// Denial is the cause of a refusal for lack of a right.
type Denial struct {
	Do, What string // as in Event
}

func (d *Denial) Error() string { return d.Do + " " + d.What + " is not allowed" }

// Excess is the cause of a refusal by a quota.
type Excess struct {
	Do   string   // which one, as in Event: "quota of requests"
	What []string // what has it, as in Event: a namespace; empty: the caller
}

func (x *Excess) Error() string { return x.Do + " is used up" }

// Refused notes that a request was refused with err, if that is for lack of a right or of a proof
// of who asks, or by a quota. Do is the request's name, for an err that does not tell what was
// missing. Of refusals in a flood it allocates nothing.
func (n Notes) Refused(by *Actor, do string, err error) {
	if n == nil {
		return
	}
	e := Event{Kind: EventDenied, By: by, Do: do, Outcome: codes.Of(err)}
	x, isExcess := errors.AsType[*Excess](err)
	switch {
	case isExcess:
		e.Kind, e.Do, e.What = EventRefused, x.Do, x.What
	case e.Outcome == codes.Forbidden:
		if d, ok := errors.AsType[*Denial](err); ok {
			e.Do, e.What = d.Do, []string{d.What}
		}
	case e.Outcome == codes.NotIdentified:
		e.Kind = EventLogin
	default:
		return
	}
	n(e)
}
