package flow

import (
	"context"
	"time"

	"confcenter/access"
	"confcenter/codes"
	"confcenter/kv"
)

// StageAsk is the question of Stage.
type StageAsk struct {
	Scope  string         `json:"scope,omitempty" doc:"the scope, cl if left out"`
	App    string         `json:"app" arg:"1" doc:"the application's id"`
	Fields map[string]Raw `json:"fields,omitempty" doc:"its fields, as name, rawcfg, sdkv"`
	TTL    int64          `json:"ttl,omitempty" doc:"milliseconds that the stage lasts after the last addition; left out: 30000"`
	Who    string         `json:"who,omitempty" doc:"who makes the change; left out: the connection's name"`
}

// StageAnswer is the answer of Stage.
type StageAnswer struct {
	Lease int64 `json:"lease" doc:"the lease that the stage lasts as long as"`
	TTL   int64 `json:"ttl" doc:"its time in milliseconds; every addition starts it again"`
}

// Stage begins an application that is too large for one question: add its members, then
// publish it. Until then no one sees it, and if it is not published in time, it is removed.
func (f *Flow) Stage(ctx context.Context, by *access.Actor, q *StageAsk) (*StageAnswer, error) {
	e, app, _, err := f.editParts(by, q.Scope, q.Who, "", q, q.App, q.Fields, nil)
	if err != nil {
		return nil, err
	}
	ttl, err := leaseTime(q.TTL, f.cfg.Stage)
	if err != nil {
		return nil, err
	}
	lease, err := e.stage(ctx, app, ttl)
	if err != nil {
		return nil, err
	}
	return &StageAnswer{int64(lease), ttl.Milliseconds()}, nil
}

// leaseTime is a lease's time that is given in milliseconds.
func leaseTime(ms int64, otherwise time.Duration) (time.Duration, error) {
	switch {
	case ms == 0:
		return otherwise, nil
	case ms < kv.MinLease.Milliseconds() || ms > kv.MaxLease.Milliseconds():
		return 0, codes.Errorf(codes.BadTTL, "ttl of %d ms is out of range: the limits are %d and %d", ms, kv.MinLease.Milliseconds(), kv.MaxLease.Milliseconds())
	}
	return time.Duration(ms) * time.Millisecond, nil
}

// AddAsk is the question of Add.
type AddAsk struct {
	Scope string `json:"scope,omitempty" doc:"the scope, cl if left out"`
	App   string `json:"app" arg:"1" doc:"the application that is staged"`
	Parts []Part `json:"parts,omitempty" doc:"what is below it, each behind the one it is below; none: the stage lasts longer"`
	Lease int64  `json:"lease,omitempty" doc:"what stage answered, so that it is that stage and no later one; left out: whichever there is"`
	Who   string `json:"who,omitempty" doc:"who makes the change; left out: the connection's name"`
}

// AddAnswer is the answer of Add.
type AddAnswer struct {
	Added int64 `json:"added" doc:"how many members were written"`
}

// Add adds members to a staged application. Repeating it does no harm.
func (f *Flow) Add(ctx context.Context, by *access.Actor, q *AddAsk) (*AddAnswer, error) {
	e, app, parts, err := f.editParts(by, q.Scope, q.Who, "", q, q.App, nil, q.Parts)
	if err != nil {
		return nil, err
	}
	_, live, err := e.lasts(dutyStage, app.Member, kv.LeaseID(q.Lease), false)
	if err != nil {
		return nil, err
	}
	return &AddAnswer{int64(len(q.Parts))}, e.add(ctx, app, parts, live.Lease)
}

// PublishAsk is the question of Publish.
type PublishAsk struct {
	Scope string `json:"scope,omitempty" doc:"the scope, cl if left out"`
	App   string `json:"app" arg:"1" doc:"the application that is staged"`
	Lease int64  `json:"lease,omitempty" doc:"what stage answered, so that it is that stage and no later one; left out: whichever there is"`
	Who   string `json:"who,omitempty" doc:"who makes the change; left out: the connection's name"`
	Token string `json:"token,omitempty" doc:"request token: a repetition has no further effect"`
}

// Publish lists a staged application: from then on every client sees all of it.
func (f *Flow) Publish(ctx context.Context, by *access.Actor, q *PublishAsk) (*WriteAnswer, error) {
	e, app, _, err := f.editParts(by, q.Scope, q.Who, q.Token, q, q.App, nil, nil)
	if err != nil {
		return nil, err
	}
	return written(e.publish(ctx, app, kv.LeaseID(q.Lease)))
}

// DiscardAsk is the question of Discard.
type DiscardAsk struct {
	Scope string `json:"scope,omitempty" doc:"the scope, cl if left out"`
	App   string `json:"app" arg:"1" doc:"the application that is staged"`
	Lease int64  `json:"lease,omitempty" doc:"what stage answered, so that it is that stage and no later one; left out: whichever there is"`
	Who   string `json:"who,omitempty" doc:"who makes the change; left out: the connection's name"`
}

// Discard takes a staged application away with everything that was added.
func (f *Flow) Discard(ctx context.Context, by *access.Actor, q *DiscardAsk) (*WriteAnswer, error) {
	e, app, _, err := f.editParts(by, q.Scope, q.Who, "", q, q.App, nil, nil)
	if err != nil {
		return nil, err
	}
	return written(e.drop(ctx, app.Member, kv.LeaseID(q.Lease), false))
}
