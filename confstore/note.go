package confstore

import (
	"strings"

	"confcenter/access"
	"confcenter/access/policy"
	"confcenter/access/trail"
)

// note is what the audit says of a plan: an event for each who has a part in it, and for roles one
// of their own.
func (pl *plan) note() (events []access.Event) {
	for _, e := range pl.edits {
		noteDocument(&events, e.actor, e.name, e.text == nil)
	}
	return events
}

// noteDocument adds a document to the event that it belongs to.
func noteDocument(events *[]access.Event, by *access.Actor, name string, deleted bool) {
	kind, do := access.EventChange, "write"
	if isRole(name) {
		kind = access.EventPermission
	}
	if deleted {
		do = "delete"
	}
	what := "config:" + name
	for i := range *events {
		e := &(*events)[i]
		switch {
		case e.Kind != kind || e.Do != do || !sameActor(e.By, by):
			continue
		case len(e.What) == trail.MostNames:
			e.More++
		default:
			e.What = append(e.What, what)
		}
		return
	}
	*events = append(*events, access.Event{Kind: kind, By: by, Do: do, What: []string{what}})
}

func sameActor(a, b *access.Actor) bool { return a == b || a != nil && b != nil && *a == *b }

func isRole(name string) bool { return strings.HasPrefix(name, policy.RolePrefix) }
