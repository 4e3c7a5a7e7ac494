package review

import (
	"cmp"
	"context"

	"confcenter/access"
	"confcenter/access/policy"
	"confcenter/codes"
	"confcenter/op"
)

// ListAsk asks for changes.
type ListAsk struct {
	All   bool  `json:"all,omitempty" doc:"those that were decided lately as well"`
	After int64 `json:"after,omitempty" doc:"the number of the last one before"`
	Limit int64 `json:"limit,omitempty" doc:"how many at most: 100, and no more than 1000"`
}

// Listed are changes, by their numbers.
type Listed struct {
	Changes []Change `json:"changes" doc:"a line for each"`
	Next    int64    `json:"next,omitempty" doc:"ask again after this one; absent: there are no more"`
}

// Change is a change that waits for approval, or did.
type Change struct {
	Number   int64    `json:"number" doc:"by which it is shown and decided"`
	State    Status   `json:"state" doc:"pending, approving while it is being made, approved, rejected or withdrawn"`
	By       string   `json:"by" doc:"who asked for it, as it was proved"`
	Author   string   `json:"author,omitempty" doc:"who that said to be"`
	Comment  string   `json:"comment,omitempty" doc:"why"`
	Made     int64    `json:"made" doc:"when, in ms since 1970"`
	Expires  int64    `json:"expires" doc:"when it is forgotten, in ms since 1970"`
	Count    int64    `json:"count" doc:"how many things it is about"`
	Things   []string `json:"things" doc:"the first ten of them"`
	Decider  string   `json:"decider,omitempty" doc:"who decided"`
	Reason   string   `json:"reason,omitempty" doc:"why"`
	Decided  int64    `json:"decided,omitempty" doc:"when, in ms since 1970"`
	Revision int64    `json:"revision,omitempty" doc:"that made it"`
}

// The limits of a page.
const (
	shortPage = 100
	mostPage  = 1000
	mostNamed = 10
)

// told is a change as the ones who may are told of it.
func (r *shelf) told(c caller, rec *record, things []thing) *Change {
	change := &Change{
		Number: rec.Number, State: rec.State, By: rec.By.Identity.Name, Author: rec.By.Author, Comment: rec.By.Comment,
		Made: rec.Made, Expires: r.until(rec), Count: rec.Count, Decided: rec.Decided, Revision: rec.Revision,
	}
	if rec.Decider != nil {
		change.Decider, change.Reason = rec.Decider.Identity.Name, rec.Decider.Comment
	}
	for i := range things {
		t := &things[i]
		if len(change.Things) < mostNamed && (!t.Heir && !t.Link || c.Names(t.Name)) { // nor may its author know who inherits, or which links there are
			change.Things = append(change.Things, t.String())
		}
	}
	return change
}

// each needs v with all things.
func each(c caller, v policy.Verb, things []thing) error {
	for i := range things {
		t := &things[i]
		var err error
		if t.NS == "" {
			err = c.Needs(op.Document(v, t.Name))
		} else {
			err = c.Needs(op.Key(v, t.NS, t.Name))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// sees reports whether c may know of a change.
func sees(c caller, rec *record, things []thing) bool {
	return rec.By.Identity.Name == c.name || each(c, policy.Read, things) == nil || each(c, policy.Approve, things) == nil
}

// find returns a change that c may know of. If there is none: codes.NotFound, no matter why.
func (r *Reviews) find(c caller, number int64) (*record, []thing, error) {
	rec, err := r.record(number)
	if err != nil {
		return nil, nil, err
	}
	if rec == nil {
		return nil, nil, gone(number)
	}
	things, err := r.things(rec)
	if err == nil && !sees(c, rec, things) {
		err = gone(number)
	}
	return rec, things, err
}

// List lists the changes that by may know of.
func (r *Reviews) List(_ context.Context, by *access.Actor, q *ListAsk) (*Listed, error) {
	c, err := r.caller(by)
	if err != nil {
		return nil, err
	}
	if q.Limit < 0 || q.Limit > mostPage {
		return nil, codes.Errorf(codes.BadRequest, "limit %d is out of range: the limits are 0 and %d", q.Limit, mostPage)
	}
	limit := cmp.Or(int(q.Limit), shortPage)
	answer := new(Listed)
	return answer, r.eachRecord(max(q.After, 0), func(rec *record) bool {
		if rec.State.decided() && !q.All {
			return true
		}
		things, err := r.things(rec)
		if err != nil || !sees(c, rec, things) { // it has just expired, or is none of theirs
			return true
		}
		if len(answer.Changes) == limit {
			answer.Next = answer.Changes[limit-1].Number
			return false
		}
		answer.Changes = append(answer.Changes, *r.told(c, rec, things))
		return true
	})
}
