package review

import (
	"context"
	"encoding/json" // our own records, which no peer has written
	"errors"
	"time"

	"confcenter/access"
	"confcenter/access/policy"
	"confcenter/codes"
	"confcenter/internal/clock"
	"confcenter/kv"
)

// ApproveAsk approves of a change.
type ApproveAsk struct {
	Number  int64  `json:"number" arg:"1" doc:"of the change"`
	Comment string `json:"comment,omitempty" doc:"why"`
}

// RejectAsk rejects a change.
type RejectAsk struct {
	Number  int64  `json:"number" arg:"1" doc:"of the change"`
	Comment string `json:"comment,omitempty" doc:"why"`
}

// WithdrawAsk takes a change back.
type WithdrawAsk struct {
	Number int64 `json:"number" arg:"1" doc:"of the change"`
}

// Decision is what has become of a change.
type Decision struct {
	Number   int64  `json:"number" doc:"of the change"`
	State    Status `json:"state" doc:"approved, rejected or withdrawn"`
	Decider  string `json:"decider" doc:"who decided"`
	Revision int64  `json:"revision,omitempty" doc:"that made it; absent if it was not made, or everything was so already"`
}

func (r *record) decision() *Decision {
	return &Decision{r.Number, r.State, r.Decider.Identity.Name, r.Revision}
}

// mostDecided is how many decisions are kept: the oldest make room.
const mostDecided = 1000

// mayDecide needs to see everything that is decided about, and to approve of it.
func mayDecide(c caller, things []thing) error {
	for _, v := range [...]policy.Verb{policy.Read, policy.Approve} {
		if err := each(c, v, things); err != nil {
			return err
		}
	}
	return nil
}

// Approve approves of a change and makes it. Who has approved can ask again, and is told the same; of
// several who approve at the same time one does, and the others are told who.
func (r *Reviews) Approve(ctx context.Context, by *access.Actor, q *ApproveAsk) (*Decision, error) {
	return r.decide(ctx, by, q.Number, q.Comment, Approved, func(c caller, rec *record, things []thing) error {
		if rec.By.Identity.Name == c.name {
			return codes.Errorf(codes.Forbidden, "you have asked for change %d yourself: another person has to approve of it", rec.Number)
		}
		return mayDecide(c, things)
	})
}

// Reject rejects a change.
func (r *Reviews) Reject(ctx context.Context, by *access.Actor, q *RejectAsk) (*Decision, error) {
	return r.decide(ctx, by, q.Number, q.Comment, Rejected, func(c caller, _ *record, things []thing) error { return mayDecide(c, things) })
}

// Withdraw takes back a change. To all but its author there is none.
func (r *Reviews) Withdraw(ctx context.Context, by *access.Actor, q *WithdrawAsk) (*Decision, error) {
	return r.decide(ctx, by, q.Number, "", Withdrawn, func(c caller, rec *record, _ []thing) error {
		if rec.By.Identity.Name != c.name {
			return gone(rec.Number)
		}
		return nil
	})
}

// verbs are what the audit calls decisions.
var verbs = map[Status]string{Approved: "approve", Rejected: "reject", Withdrawn: "withdraw"}

// decide brings a change into a state, if may allows.
func (r *Reviews) decide(ctx context.Context, by *access.Actor, number int64, comment string, as Status, may func(caller, *record, []thing) error) (*Decision, error) {
	c, err := r.caller(by)
	if err == nil && !(r.cfg.Tokens.Holds(by.Identity) && (*r.rules.Load()).Vouches(by.Identity)) { // no edge has noticed yet
		err = codes.Errorf(codes.NotIdentified, "the token, session or certificate has ended or was revoked; get a new one")
	}
	if err == nil {
		by, err = by.Says(access.Said{Comment: comment})
	}
	if err != nil {
		return nil, err
	}
	r.deciding.Lock()
	defer r.deciding.Unlock()
	for again := false; ; again = true {
		rec, things, err := r.find(c, number)
		if err == nil {
			err = may(c, rec, things)
		}
		switch {
		case err != nil:
		case rec.State == as && rec.Decider.Identity.Name == c.name: // who asks again, or what another server has finished
			if !again {
				return rec.decision(), nil
			}
		case rec.State == Approving && as != Approved, rec.State.decided():
			err = codes.Errorf(codes.Conflict, "change %d is %s already, by %s", number, rec.State, rec.Decider.Identity.Name)
		case as == Approved:
			err = r.approve(ctx, rec, things, by)
		default:
			_, err = r.conclude(ctx, rec, things, as, by, 0, &kv.Txn{Actor: by})
		}
		if errors.Is(err, errElsewhere) {
			continue
		}
		if rec != nil {
			r.note(by, verbs[as], codes.Of(err), number, things)
		}
		if err != nil {
			return nil, err
		}
		return rec.decision(), nil
	}
}

// errElsewhere is why a decision was not written down: another server has written something meanwhile by which
// it was judged. It has to be judged again.
var errElsewhere error = codes.Errorf(codes.Conflict, "another server has decided meanwhile")

// conclude writes down a decision, together with what else is in txn, if the record is as it was
// read. It returns the revision. errElsewhere.
func (r *Reviews) conclude(ctx context.Context, rec *record, things []thing, as Status, by *access.Actor, made kv.Revision, txn *kv.Txn) (kv.Revision, error) {
	if err := r.makeRoom(txn); err != nil {
		return 0, err
	}
	next, now := *rec, r.cfg.Clock.Now()
	next.State, next.Decided, next.Expires, next.Revision = as, now.UnixMilli(), now.Add(r.cfg.Keep).UnixMilli(), int64(made)
	next.ends = r.cfg.Clock.Steady().Add(r.cfg.Keep).UnixMilli()
	if by != nil {
		decider := actorOf(by)
		next.Decider = &decider
	}
	list, err := json.Marshal(things)
	if err != nil {
		return 0, err
	}
	txn.Then = append(txn.Then, r.put(&next), putText(keyOf(thingsPrefix, rec.Number), list, r.cfg.Keep))
	txn.Then = append(txn.Then, rec.drops()...)
	rev, err := r.write(ctx, rec, &next, txn)
	if err == nil {
		rec.Revision = int64(max(made, 0))
	}
	return rev, err
}

// write applies a transaction that turns a record into next, which it then is, unless it is not as it was read
// any more: errElsewhere. codes.Conflict: something else that the transaction requires does not hold.
func (r *shelf) write(ctx context.Context, rec, next *record, txn *kv.Txn) (kv.Revision, error) {
	key := keyOf(changePrefix, rec.Number)
	txn.If = append(txn.If, kv.Compare{NS: kv.ReviewNamespace, Key: key, Target: kv.CompareMod, Relation: kv.Equal, Number: int64(rec.mod)})
	txn.Must, txn.System = true, true
	res, err := r.store.Txn(ctx, txn)
	if err == nil {
		*rec = *next
		rec.mod = res.Revision
		return res.Revision, nil
	}
	if codes.Of(err) == codes.Conflict && r.written(kv.ReviewNamespace, key) != rec.mod {
		err = errElsewhere
	}
	return 0, err
}

// makeRoom has a transaction remove the oldest decisions beyond those that are kept.
func (r *shelf) makeRoom(txn *kv.Txn) error {
	var decided []int64
	err := r.eachRecord(0, func(rec *record) bool {
		if rec.State.decided() {
			decided = append(decided, rec.Number)
		}
		return true
	})
	for _, number := range decided[:max(0, len(decided)-mostDecided+1)] {
		for _, prefix := range [...]string{changePrefix, thingsPrefix} {
			txn.Then = append(txn.Then, kv.Op{Kind: kv.OpDelete, NS: kv.ReviewNamespace, Key: keyOf(prefix, number)})
		}
	}
	return err
}

// tidyEvery is how often Run looks for what a stop or a disk has cut short.
const tidyEvery = time.Minute

// Run finishes what was approved and not made, until the context ends.
func (r *Reviews) Run(ctx context.Context) error {
	for {
		if err := r.finishAll(ctx); err != nil && ctx.Err() == nil {
			return err
		}
		if clock.Within(r.cfg.Clock, tidyEvery, ctx.Done()) {
			return ctx.Err()
		}
	}
}

func (r *Reviews) finishAll(ctx context.Context) error {
	r.deciding.Lock()
	defer r.deciding.Unlock()
	var begun []*record
	err := r.eachRecord(0, func(rec *record) bool {
		if rec.State == Approving {
			begun = append(begun, rec)
		}
		return true
	})
	for _, rec := range begun {
		things, err := r.things(rec)
		if err != nil {
			return err
		}
		if err := r.finish(ctx, rec, things); err != nil && unknown(err) {
			return err
		}
	}
	return err
}
