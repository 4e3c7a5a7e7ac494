package flow

import (
	"context"
	"fmt"
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

// The names of duties, which are keys of the index: what somebody has to finish. Those who find
// one whose lease has ended, or that never has one, do.
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
	e, err := f.edit(by, q.Scope, q.Who, q.Token, q)
	if err != nil {
		return nil, err
	}
	app, parts, err := checkParts(q.App, q.Fields, q.Parts)
	if err != nil {
		return nil, err
	}
	if res, err := e.known(ctx); res != nil || err != nil {
		return written(res, err)
	}
	if e.size(parts) > 1 {
		staged := *e
		staged.token = ""
		lease, err := staged.stage(ctx, app, f.cfg.Stage)
		if err != nil {
			return nil, err
		}
		if err := staged.add(ctx, app, parts[1:], lease); err != nil {
			staged.discard(ctx, app)
			return nil, err
		}
		return written(e.publish(ctx, app))
	}
	return written(e.apply(ctx, func() error {
		if err := e.newApp(ctx, app); err != nil {
			return err
		}
		e.create(&app.record, app.values, true)
		return e.place(ctx, app, parts[1:])
	}))
}

// part is a Part that was checked.
type part struct {
	record
	values map[string]kv.Value
}

// checkParts checks an application and what is below it; all faults are told at once.
func checkParts(id string, own map[string]Raw, list []Part) (*part, []part, error) {
	if len(list) > MaxParts {
		return nil, nil, codes.Errorf(codes.TooManyOps, "there are %d members, the limit of one question is %d: stage the application and add them in pieces", len(list), MaxParts)
	}
	app, err := ParseMember(string(App) + "." + id)
	if err != nil {
		return nil, nil, err
	}
	var wrong []string
	parts := make([]part, len(list)+1)
	parts[0].record = record{Member: app, listed: kinds[App].list}
	parts[0].values, wrong = fields(app, own, nil)
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
		parts[i+1].record = p
		if err == nil {
			parts[i+1].values, wrong = fields(p.Member, list[i].Fields, wrong)
		}
	}
	if len(wrong) > 0 {
		return nil, nil, faults(wrong)
	}
	return &parts[0], parts, nil
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
	return record{Member: m, parent: above, listed: above.list(m.Kind), app: app.ID}, nil
}

// Limits of one transaction of an edit: those of any store.
const (
	mostOps   = 4000 // the default of Flow.mostOps
	mostConds = 240
	mostBytes = 4 << 20
	perPart   = 16 // operations for a new member besides its fields, at most
)

// size is how many transactions it takes to write the parts.
func (e *edit) size(parts []part) int {
	n := 0
	for len(parts) > 0 {
		parts = parts[e.chunk(parts):]
		n++
	}
	return n
}

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
func (e *edit) newApp(ctx context.Context, app *part) error {
	keys := []string{e.f.indexKey(dutyStage, e.ns, app.Member), e.f.indexKey(dutyGone, e.ns, app.Member)}
	duties, err := e.f.store.GetMany(ctx, e.f.index(), keys...)
	if err != nil {
		return err
	}
	listed, err := e.f.store.Get(ctx, e.ns, app.listKey())
	switch {
	case err != nil:
		return err
	case listed != nil:
		return codes.Errorf(codes.AlreadyExists, "%s is registered already", app.Member)
	case duties[0] != nil:
		return codes.Errorf(codes.Conflict, "%s is being staged; publish or discard it, or wait until its lease ends", app.Member)
	case duties[1] != nil:
		return codes.Errorf(codes.Conflict, "%s is being removed; try again when that is done", app.Member)
	}
	for _, key := range keys {
		e.when(kv.Absent(e.f.index(), key))
	}
	e.whenAbsent(app.listKey())
	return nil
}

// stage begins a stage with the application's own fields.
func (e *edit) stage(ctx context.Context, app *part, ttl time.Duration) (kv.LeaseID, error) {
	lease, err := e.grant(ctx, ttl)
	if err != nil {
		return 0, err
	}
	_, err = e.apply(ctx, func() error {
		e.putIn(e.f.index(), e.f.indexKey(dutyStage, e.ns, app.Member), kv.StringValue(e.who), 0)
		e.putIn(e.f.index(), e.f.indexKey(liveKey, e.ns, app.Member), kv.IntValue(int64(lease)), lease)
		e.create(&app.record, app.values, false)
		return e.newApp(ctx, app)
	})
	if err != nil {
		e.revoke(ctx, lease)
	}
	return lease, err
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

// add writes members into a stage. One that is there already is written again.
func (e *edit) add(ctx context.Context, app *part, parts []part, lease kv.LeaseID) error {
	for len(parts) > 0 {
		n := e.chunk(parts)
		piece := parts[:n]
		parts = parts[n:]
		if lease != 0 {
			if _, err := e.f.store.KeepLease(ctx, lease); err != nil {
				return errNotStaged(app.Member)
			}
		}
		if _, err := e.apply(ctx, func() error { return e.addPiece(ctx, app, piece) }); err != nil {
			return err
		}
	}
	return nil
}

func errNotStaged(app Member) error {
	return codes.Errorf(codes.NotFound, "%s is not being staged: it was published or discarded, or its lease has ended; begin again", app)
}

func (e *edit) addPiece(ctx context.Context, app *part, parts []part) error {
	live := e.f.indexKey(liveKey, e.ns, app.Member)
	if got, err := e.f.store.Get(ctx, e.f.index(), live); err != nil {
		return err
	} else if got == nil {
		return errNotStaged(app.Member)
	}
	e.when(exists(e.f.index(), live), exists(e.f.index(), e.f.indexKey(dutyStage, e.ns, app.Member)))
	return e.place(ctx, app, parts)
}

// place writes members of an application into their lists. They must be nobody else's, and what
// they are below must be there, or among them.
func (e *edit) place(ctx context.Context, app *part, parts []part) error {
	if len(parts) == 0 {
		return nil
	}
	keys := make([]string, 0, 3*len(parts))
	for i := range parts {
		p := &parts[i].record
		keys = append(keys, p.field("appuid"), p.field("atime"), p.parent.field("appuid"))
	}
	var wrong []string
	here := map[Member]bool{app.Member: true}
	got, err := e.f.store.GetMany(ctx, e.ns, keys...)
	if err != nil {
		return err
	}
	for i := range parts {
		p := &parts[i].record
		owner, above := text(got[3*i]), text(got[3*i+2])
		p.atime = got[3*i+1]
		switch {
		case owner != "" && owner != app.ID:
			wrong = append(wrong, fmt.Sprintf("%s belongs to %s already", p.Member, Member{App, owner}))
		case !here[p.parent] && above != app.ID:
			wrong = append(wrong, fmt.Sprintf("%s is below %s, which is not there; put it before", p.Member, p.parent))
		}
		here[p.Member] = true
		e.create(p, parts[i].values, true)
	}
	if len(wrong) > 0 {
		return codes.Errorf(codes.Conflict, "%w", faults(wrong))
	}
	return nil
}

// publish lists a staged application.
func (e *edit) publish(ctx context.Context, app *part) (*kv.Result, error) {
	live, duty := e.f.indexKey(liveKey, e.ns, app.Member), e.f.indexKey(dutyStage, e.ns, app.Member)
	return e.commit(ctx, func() error {
		got, err := e.f.store.GetMany(ctx, e.f.index(), live, duty)
		if err != nil {
			return err
		}
		if got[0] == nil || got[1] == nil {
			return errNotStaged(app.Member)
		}
		e.when(exists(e.f.index(), live), exists(e.f.index(), duty))
		e.removeIn(e.f.index(), live)
		e.removeIn(e.f.index(), duty)
		e.putStatus(app.listKey(), initial(App))
		return nil
	})
}

// discard takes a stage away. What it cannot do is left to the sweep.
func (e *edit) discard(ctx context.Context, app *part) {
	_, _ = e.drop(ctx, app.Member, dutyStage)
}
