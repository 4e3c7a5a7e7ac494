package review

import (
	"context"
	"errors"
	"slices"
	"strings"

	"confcenter/access"
	"confcenter/access/policy"
	"confcenter/access/token"
	"confcenter/codes"
	"confcenter/confstore/change"
	"confcenter/confstore/log"
	"confcenter/kv"
	"confcenter/op"
)

// approve makes a change of which by approves.
func (r *Reviews) approve(ctx context.Context, rec *record, things []thing, by *access.Actor) error {
	if rec.State == Approving { // what a stop or a disk has cut short
		return r.finish(ctx, rec, things)
	}
	unmade := r.cfg.Tokens.Unmade() // as of before it is judged by those that there are
	b, err := r.body(rec)
	if err != nil {
		return err
	}
	if err := r.stillMay(ctx, rec, b); err != nil {
		return err
	}
	decider := actorOf(by)
	next := *rec
	next.State, next.Decider = Approving, &decider
	if b.Documents == nil {
		err := r.commit(ctx, rec, things, b, by, unmade)
		if b.Token != nil && codes.Of(err) == codes.Conflict && r.cfg.Tokens.Unmade().Number != unmade.Number {
			err = errElsewhere
		}
		return err
	}
	if _, err := r.write(ctx, rec, &next, &kv.Txn{Then: []kv.Op{r.put(&next)}, Actor: by}); err != nil {
		return err
	}
	return r.finish(ctx, rec, things)
}

// commit makes a change of keys, or a token if none was made meanwhile, in the transaction that says that it
// is approved.
func (r *Reviews) commit(ctx context.Context, rec *record, things []thing, b *body, by *access.Actor, unmade kv.Compare) error {
	decider := actorOf(by)
	as := *rec
	as.Decider = &decider
	actor := as.approved()
	actor.Token = ""
	txn := &kv.Txn{Actor: actor}
	if b.Token != nil {
		put, err := r.token(rec, b)
		if err != nil {
			return err
		}
		txn.If, txn.Then = []kv.Compare{kv.Absent(put.NS, put.Key), unmade}, r.cfg.Tokens.Ops(put)
	} else {
		if err := r.sameKeys(rec, b.Txn); err != nil {
			return err
		}
		txn.Fences, txn.If, txn.Then = b.Txn.Fences, b.Txn.If, b.Txn.Then
		for _, w := range b.Txn.Was {
			txn.If = append(txn.If, kv.Compare{NS: w.NS, Key: w.Key, Target: kv.CompareMod, Relation: kv.Equal, Number: int64(w.Mod)})
		}
	}
	rev, err := r.conclude(ctx, rec, things, Approved, by, 0, txn)
	switch {
	case errors.Is(err, errElsewhere):
	case codes.Of(err) == codes.Conflict:
		return outdated(rec)
	case err == nil:
		rec.Revision = int64(rev)
	}
	return err
}

func outdated(rec *record) error {
	return codes.Errorf(codes.Conflict, "change %d cannot be made any more, because what it was compared with has changed since; nothing was changed: reject or withdraw it, and ask for it again", rec.Number)
}

// sameKeys refuses to delete prefixes that by now have keys that no one has asked to delete.
func (r *shelf) sameKeys(rec *record, t *transaction) error {
	asked := make(map[[2]string]bool, len(t.Then))
	for i := range t.Then {
		asked[[2]string{t.Then[i].NS, t.Then[i].Key}] = true
	}
	for _, p := range t.Prefixes {
		keys, err := r.keysOf(&kv.Op{NS: p.NS, Key: string(p.Text)})
		if err != nil {
			return err
		}
		for _, key := range keys {
			if !asked[[2]string{p.NS, key}] {
				return outdated(rec)
			}
		}
	}
	return nil
}

// finish changes documents as has been approved, and says that it is done. If it is not known
// whether they are changed the record stays as it is, and it can be asked again: the token sees to
// it that it happens once. If they cannot be changed, the change is pending again.
func (r *Reviews) finish(ctx context.Context, rec *record, things []thing) error {
	b, err := r.body(rec)
	if err != nil {
		return err
	}
	revision, err := r.change(ctx, rec, things, b)
	switch {
	case err == nil:
		_, err = r.conclude(ctx, rec, things, Approved, nil, revision, &kv.Txn{})
		return err
	case unknown(err):
		return codes.Errorf(codes.Timeout, "change %d is approved, but the server's disk does not answer, so it is not known yet whether it is made; ask again, or read the log later", rec.Number)
	}
	next := *rec
	next.State, next.Decider = Pending, nil
	if _, failed := r.write(ctx, rec, &next, &kv.Txn{Then: []kv.Op{r.put(&next)}}); failed != nil {
		return failed
	}
	if broken := (*change.Broken)(nil); errors.As(err, &broken) {
		return codes.Errorf(codes.Conflict, "change %d cannot be made: %w; nothing was changed: mend the file, or move it away, and approve again", rec.Number, broken)
	}
	switch codes.Of(err) {
	case codes.Conflict:
		return outdated(rec)
	case codes.Forbidden: // to its author, of whom the text speaks as "you" to the one who approves
		return mayNot(rec)
	}
	return err
}

// unknown reports whether a change may have been made though it failed with err, or can be tried
// again as it is.
func unknown(err error) bool {
	switch codes.Of(err) {
	case codes.Timeout, codes.Storage, codes.Busy, codes.Closed, codes.Internal:
		return true
	}
	return false
}

// change changes documents.
func (r *Reviews) change(ctx context.Context, rec *record, things []thing, b *body) (kv.Revision, error) {
	req := change.Request{Actor: rec.approved()}
	for i := range things {
		req.Approved = append(req.Approved, things[i].Name)
	}
	for i := range b.Documents {
		d := &b.Documents[i]
		base := new(log.Digest)
		if d.Base != "" {
			if err := base.UnmarshalText([]byte(d.Base)); err != nil {
				return 0, err
			}
		}
		req.Documents = append(req.Documents, change.Document{Name: d.Name, File: d.File, Keep: d.Keep, Base: base})
	}
	res, err := kv.Await(ctx, nil, func(done func(change.Result, error)) error { return r.cfg.Documents.Change(req, done) })
	if err != nil && err == ctx.Err() {
		err = codes.Errorf(codes.Timeout, "%w", err)
	}
	return res.Revision, err
}

// stillMay refuses a change whose author may not make it any more: what proved who asked for it has ended
// or was revoked, whatever else proves the same by now, the groups of a person are others, or the roles
// and the settings allow less.
func (r *Reviews) stillMay(ctx context.Context, rec *record, b *body) error {
	id := &rec.By.Identity
	now := r.cfg.Tokens.Renewed(id)
	if now == nil || !(*r.rules.Load()).Vouches(id) {
		return codes.Errorf(codes.Forbidden, "the token, session or certificate by which change %d was asked for has ended or was revoked since, and nothing was changed: reject it; it can be asked for again", rec.Number)
	}
	given := *id // the settings may have made an administrator of them, and may not any more
	given.Groups = slices.DeleteFunc(slices.Clone(id.Groups), func(g string) bool { return g == policy.Administrators })
	switch {
	case id.Token != "":
		*id = *now
	case strings.HasPrefix(id.Name, policy.ByToken): // a record of before, which names no token
		valid, err := r.cfg.Tokens.Identities(ctx)
		switch {
		case err != nil:
			return err
		case valid[token.KeyOf(&given)]:
			*id = given
		case !valid[token.KeyOf(id)]:
			return mayNot(rec)
		}
	case strings.HasPrefix(id.Name, policy.AsPerson):
		sessions, err := r.cfg.Tokens.Sessions(ctx, nil, &token.SessionsAsk{Who: id.Name})
		if err != nil {
			return err
		}
		for i, made := 0, int64(0); i < len(sessions.Sessions); i++ { // the provider may have them in others by now
			if s := &sessions.Sessions[i]; s.Made >= made {
				made, given.Groups = s.Made, s.Groups
			}
		}
		*id = given
	default:
		id.Groups = nil // only the settings give them any
	}
	if r.mayMake(rec, b) != nil {
		return mayNot(rec)
	}
	return nil
}

func mayNot(rec *record) error {
	return codes.Errorf(codes.Forbidden, "the one who asked for change %d may not make it any more, and nothing was changed: reject it", rec.Number)
}

// mayMake needs all that its author needs to make a change.
func (r *Reviews) mayMake(rec *record, b *body) error {
	id := &rec.By.Identity
	author := (*r.rules.Load()).MayOf(id)
	for i := range b.Documents {
		if d := &b.Documents[i]; !d.Keep {
			if err := author.Needs(op.Change(nil, d.Name, d.File == nil)...); err != nil {
				return err
			}
		}
	}
	if b.Token != nil {
		if err := author.Needs(op.Whole(policy.Grant, policy.Roles)); err != nil {
			return err
		}
		return r.cfg.Tokens.MayMake(&access.Actor{Identity: id}, b.Token.Value.Data)
	}
	if b.Txn == nil {
		return nil
	}
	return author.Needs(op.Txn(nil, &kv.Txn{Fences: b.Txn.Fences, If: b.Txn.If, Then: b.Txn.Then})...)
}
