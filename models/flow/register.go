package flow

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"confcenter/access"
	"confcenter/codes"
	"confcenter/kv"
)

// An application of any size appears whole or not at all: its members are written while it is
// in no list itself, where no listing of applications finds them, and one transaction lists it.
// Who reads the keys below a session or flow of it by name sees them before. As long as it is
// staged a duty says so, and a lease: when that ends first, the sweep takes all away again.

// The names of duties, which are keys of the index and say what is still to be finished. A process
// that finds one whose lease has ended, or that never has one, finishes it.
const (
	dutyStage = "stage" // an application is staged
	dutyCopy  = "copy"  // replicas of a node are
	dutyGone  = "gone"  // a member is in no list any more, and goes with all below it
	dutyBack  = "back"  // a worker's tasks go back
	dutyLive  = "duty"  // a worker or a scheduler has joined
)

// Part is a member of an application to be registered.
type Part struct {
	Key    string         `json:"key" doc:"the member: srvs.ID, sess.ID, flow.ID or node.ID"`
	Parent string         `json:"parent,omitempty" doc:"the member that it is below; left out: the application"`
	Fields map[string]Raw `json:"fields,omitempty" doc:"its fields; attributes of the layout have their types, others are free"`
}

// RegisterAsk is the question of Register.
type RegisterAsk struct {
	Scope  string         `json:"scope,omitempty" doc:"the scope, cl if left out"`
	App    string         `json:"app" arg:"1" doc:"the application's id"`
	Fields map[string]Raw `json:"fields,omitempty" doc:"its fields, as name, rawcfg, sdkv"`
	Parts  []Part         `json:"parts,omitempty" doc:"what is below it, each behind the one it is below"`
	Who    string         `json:"who,omitempty" doc:"who makes the change; left out: the connection's name"`
	Token  string         `json:"token,omitempty" doc:"request token: a repetition has no further effect"`
}

// WriteAnswer is the answer of operations that only say that they were done.
type WriteAnswer struct {
	Revision int64 `json:"revision" doc:"the store's revision that made the change"`
}

func written(res *kv.Result, err error) (*WriteAnswer, error) {
	if err != nil {
		return nil, err
	}
	return &WriteAnswer{int64(res.Revision)}, nil
}

// Register registers an application with everything in it, or not at all.
func (f *Flow) Register(ctx context.Context, by *access.Actor, q *RegisterAsk) (*WriteAnswer, error) {
	e, app, parts, err := f.editParts(by, q.Scope, q.Who, q.Token, q, q.App, q.Fields, q.Parts)
	if err != nil {
		return nil, err
	}
	if all := append([]part{*app}, parts...); e.chunk(all) < len(all) {
		return written(e.pieces(ctx, func(piece *edit) (*kv.Result, error) { return e.registerLarge(ctx, piece, app, parts) }))
	}
	return written(e.commit(ctx, func() error {
		if err := e.newApp(app); err != nil {
			return err
		}
		e.create(&app.record, app.values, true)
		return e.place(app, parts, 0)
	}))
}

// registerLarge stages an application in pieces, and publishes it.
func (e *edit) registerLarge(ctx context.Context, piece *edit, app *part, parts []part) (res *kv.Result, err error) {
	var lease kv.LeaseID
	if err = afresh(ctx, piece, dutyStage, app.Member, func() (err error) {
		lease, err = piece.stage(ctx, app, e.f.cfg.Stage)
		return err
	}); err != nil {
		return nil, err
	}
	if err = piece.add(ctx, app, parts, lease); err == nil {
		res, err = e.publish(ctx, app, lease)
	}
	if err != nil || res.Replayed {
		_, _ = piece.drop(ctx, app.Member, lease, false) // or else the sweep does
	}
	return res, err
}

// part is a Part that was checked.
type part struct {
	record
	values map[string]kv.Value
}

// editParts is edit of an application and what is below it; all their faults are told at once.
func (f *Flow) editParts(by *access.Actor, scope, who, token string, question any, id string, own map[string]Raw, list []Part) (*edit, *part, []part, error) {
	e, err := f.edit(by, scope, who, token, question)
	if err != nil {
		return nil, nil, nil, err
	}
	app, parts, err := checkParts(id, own, list)
	return e, app, parts, err
}

func checkParts(id string, own map[string]Raw, list []Part) (*part, []part, error) {
	if len(list) > MaxParts {
		return nil, nil, codes.Errorf(codes.TooManyOps, "there are %d members, the limit of one question is %d: stage the application and add them in pieces", len(list), MaxParts)
	}
	app, err := ParseMember(string(App) + "." + id)
	if err != nil {
		return nil, nil, err
	}
	var wrong []string
	top, parts := &part{record: newRecord(app, nil)}, make([]part, len(list))
	top.values, wrong = fields(app, own, nil)
	seen := map[Member]bool{}
	for i := range list {
		p, err := list[i].record(app)
		switch {
		case err != nil:
			wrong = append(wrong, err.Error())
		case seen[p.Member]:
			wrong = append(wrong, fmt.Sprintf("%s is there twice", p.Member))
		}
		seen[p.Member] = true
		parts[i].record = p
		if err == nil {
			parts[i].values, wrong = fields(p.Member, list[i].Fields, wrong)
		}
	}
	if len(wrong) > 0 {
		return nil, nil, faults(wrong)
	}
	return top, parts, nil
}

// faults is the error that lists them all, or the first of very many.
func faults(wrong []string) error {
	const most = 50
	if n := len(wrong); n > most {
		wrong = append(wrong[:most], fmt.Sprintf("and %d more", n-most))
	}
	return codes.Errorf(codes.BadRequest, "%s", strings.Join(wrong, "; "))
}

func (p *Part) record(app Member) (record, error) {
	m, err := ParseMember(p.Key)
	if err != nil {
		return record{}, err
	}
	above := app
	if p.Parent != "" {
		if above, err = ParseMember(p.Parent); err != nil {
			return record{}, err
		}
	}
	if want := kinds[m.Kind].parent; want == "" || want != above.Kind {
		return record{}, codes.Errorf(codes.BadRequest, "%s cannot be below %s: a %s is below a %q", m, above, m.Kind, want)
	}
	return newRecord(m, []Member{above}), nil // place adds those above that
}

// Limits of one transaction of an edit: those of any store.
const (
	mostOps   = 4000 // the default of Flow.mostOps
	mostConds = 240
	mostBytes = 4 << 20
	perPart   = 16 // operations for a new member besides its fields, at most
)

// chunk is how many of the parts fit into one transaction.
func (e *edit) chunk(parts []part) (n int) {
	ops, bytes := 0, 0
	for i := range parts {
		ops += len(parts[i].values) + perPart
		for _, v := range parts[i].values {
			bytes += len(v.Data)
		}
		bytes += (len(parts[i].values) + perPart) * 2 * MaxField
		if i > 0 && (i >= mostConds || ops > e.f.mostOps || bytes > mostBytes) {
			return i
		}
	}
	return len(parts)
}

// newApp has the conditions that the application is neither there, nor staged, nor going.
func (e *edit) newApp(app *part) error {
	keys := []string{indexKey(dutyStage, e.ns, app.Member), indexKey(dutyGone, e.ns, app.Member)}
	duties := e.f.store.GetMany(index, keys...)
	switch {
	case e.f.store.Get(e.ns, app.listKey()) != nil:
		return codes.Errorf(codes.AlreadyExists, "%s is registered already", app.Member)
	case duties[0] != nil:
		return underWay(e, duties[0], "%s is being staged; publish or discard it, or wait until its lease ends", app.Member)
	case duties[1] != nil:
		return codes.Errorf(codes.Conflict, "%s is being removed; try again when that is done", app.Member)
	}
	for _, key := range keys {
		e.when(kv.Absent(index, key))
	}
	e.whenSame(app.listKey(), nil)
	return nil
}

// stage begins a stage with the application's own fields.
func (e *edit) stage(ctx context.Context, app *part, ttl time.Duration) (kv.LeaseID, error) {
	res, err := e.commitLeased(ctx, ttl, func(lease kv.LeaseID) error {
		e.last(dutyStage, app.Member, kv.StringValue(e.who+e.mark()), lease)
		e.create(&app.record, app.values, false)
		return e.newApp(app)
	})
	if err != nil {
		return 0, err
	}
	return res.Ops[1].Entry.Lease, nil
}

func (e *edit) grant(ctx context.Context, ttl time.Duration) (kv.LeaseID, error) {
	res, err := e.f.store.Txn(ctx, &kv.Txn{Actor: e.by, Then: []kv.Op{{Kind: kv.OpGrant, TTL: ttl}}})
	if err != nil {
		return 0, err
	}
	return res.Ops[0].Lease.ID, nil
}

// revokeTime is how long it is tried to end a lease.
const revokeTime = time.Second

// revoke ends a lease that is not used, also if ctx has ended. If it fails, the lease ends by
// itself.
func (e *edit) revoke(ctx context.Context, lease kv.LeaseID) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), revokeTime)
	defer cancel()
	_, _ = e.f.store.Txn(ctx, &kv.Txn{Actor: e.by, Then: []kv.Op{{Kind: kv.OpRevoke, Lease: lease}}})
}

// last notes a duty that only its holder may carry out as long as a lease lasts.
func (e *edit) last(what string, m Member, v kv.Value, lease kv.LeaseID) {
	e.putIn(index, indexKey(what, e.ns, m), v, 0)
	e.putIn(index, indexKey(liveKey, e.ns, m), kv.IntValue(int64(lease)), lease)
}

// lasts finds a duty that was noted so, and has the conditions that it stays the same and that
// its lease does, to which live is attached: the given one, whichever there is if that is 0, or
// none if it must have ended.
func (e *edit) lasts(what string, m Member, lease kv.LeaseID, ended bool) (duty, live *kv.Entry, err error) {
	keys := []string{indexKey(what, e.ns, m), indexKey(liveKey, e.ns, m)}
	got := e.f.store.GetMany(index, keys...)
	duty, live = got[0], got[1]
	switch {
	case duty == nil || (live == nil) != ended:
		return nil, nil, errNotStaged(m)
	case ended:
		e.when(still(duty), kv.Absent(index, keys[1]))
	case lease != 0 && lease != live.Lease:
		return nil, nil, errNotStaged(m)
	default:
		e.when(still(duty), still(live))
	}
	return duty, live, nil
}

// done ends such a duty.
func (e *edit) done(duty, live *kv.Entry) {
	e.removeIn(duty.NS, duty.Key)
	if live != nil {
		e.endLease(live)
	}
}

func errNotStaged(m Member) error {
	return codes.Errorf(codes.NotFound, "%s is not being staged, or not by that lease: it was published or discarded, or its lease has ended; begin again", m)
}

// add writes members into a stage, whose time begins anew. One that is there already is written
// again.
func (e *edit) add(ctx context.Context, app *part, parts []part, lease kv.LeaseID) error {
	for {
		if _, err := e.f.store.KeepLease(ctx, lease); codes.Of(err) == codes.LeaseGone {
			return errNotStaged(app.Member)
		} else if err != nil || len(parts) == 0 {
			return err
		}
		n := e.chunk(parts)
		if _, err := e.apply(ctx, func() error {
			duty, _, err := e.lasts(dutyStage, app.Member, lease, false)
			if err != nil {
				return err
			}
			return e.place(app, parts[:n], duty.Create)
		}); err != nil {
			return err
		}
		parts = parts[n:]
	}
}

// place writes members of an application into their lists. They, and what they are below, must
// be among them, or new, or written since the stage began: what is older is another's, or is
// going with a predecessor.
func (e *edit) place(app *part, parts []part, since kv.Revision) error {
	there := e.placed(parts)
	var wrong []string
	here := map[Member][]Member{app.Member: nil} // with those above them
	for i := range parts {
		p, parent := &parts[i].record, parts[i].above[0]
		was, above := there[p.Member], there[parent]
		chain, ok := here[parent]
		if !ok && above.by(app.Member, since) {
			chain, ok = []Member{app.Member}, true
			if above.parent != app.Member {
				chain = []Member{above.parent, app.Member}
			}
		}
		switch {
		case !ok:
			wrong = append(wrong, fmt.Sprintf("%s is below %s, which is not there; put it before", p.Member, parent))
		case was.atime == nil:
		case was.app != app.Member:
			wrong = append(wrong, fmt.Sprintf("%s belongs to %s already", p.Member, was.app))
		case !was.by(app.Member, since):
			wrong = append(wrong, fmt.Sprintf("%s of a former %s is still being removed; try again when that is done", p.Member, app.Member))
		case was.parent != parent:
			wrong = append(wrong, fmt.Sprintf("%s is below %s already", p.Member, was.parent))
		}
		p.above, p.atime = append([]Member{parent}, chain...), was.atime
		here[p.Member] = p.above
		if len(wrong) == 0 {
			e.create(p, parts[i].values, true)
		}
	}
	if len(wrong) > 0 {
		return codes.Errorf(codes.Conflict, "%w", faults(wrong))
	}
	return nil
}

// placed is what is known of a member that may be there.
type placed struct {
	atime       *kv.Entry // nil: it is not
	parent, app Member
}

// by reports whether it was written for an application since then.
func (p placed) by(app Member, since kv.Revision) bool {
	return p.atime != nil && p.app == app && since > 0 && p.atime.Create > since
}

// placed looks for members and what they are below.
func (e *edit) placed(parts []part) map[Member]placed {
	there := make(map[Member]placed, len(parts))
	var list []Member
	for i := range parts {
		for _, m := range [...]Member{parts[i].above[0], parts[i].Member} {
			if _, again := there[m]; !again {
				there[m] = placed{}
				list = append(list, m)
			}
		}
	}
	for piece := range slices.Chunk(list, mostConds) {
		var keys []string
		for _, m := range piece {
			keys = append(keys, m.field("atime"), m.field("parent"), m.field("appuid"))
		}
		got := e.f.store.GetMany(e.ns, keys...)
		for i, m := range piece {
			parent, _ := ParseMember(text(got[3*i+1]))
			there[m] = placed{got[3*i], parent, Member{App, text(got[3*i+2])}}
		}
	}
	return there
}

// publish lists a staged application.
func (e *edit) publish(ctx context.Context, app *part, lease kv.LeaseID) (*kv.Result, error) {
	return e.commit(ctx, func() error {
		duty, live, err := e.lasts(dutyStage, app.Member, lease, false)
		if err != nil {
			return err
		}
		e.done(duty, live)
		e.putStatus(app.listKey(), initial(App))
		return nil
	})
}

// drop turns a stage into something that goes.
func (e *edit) drop(ctx context.Context, app Member, lease kv.LeaseID, ended bool) (*kv.Result, error) {
	defer e.f.undertake(indexKey(dutyGone, e.ns, app))()
	res, err := e.apply(ctx, func() error {
		duty, live, err := e.lasts(dutyStage, app, lease, ended)
		if err != nil {
			return err
		}
		e.done(duty, live)
		e.putIn(index, indexKey(dutyGone, e.ns, app), kv.StringValue(""), 0)
		return nil
	})
	if err != nil {
		return nil, err
	}
	_ = e.f.finishGone(ctx, e.ns, app) // what is left of it, the sweep takes
	return res, nil
}
