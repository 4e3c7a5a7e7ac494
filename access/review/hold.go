package review

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json" // our own records, which no peer has written
	"errors"
	"strconv"
	"strings"

	"confcenter/access"
	"confcenter/access/policy"
	"confcenter/codes"
	"confcenter/confstore/change"
	"confcenter/confstore/log"
	"confcenter/kv"
)

// newRecord counts a change that is to be held, and returns what is to be written to keep it.
func (r *Reviews) newRecord(by *access.Actor, things []thing, b *body) (*record, []kv.Op, error) {
	encoded, err := json.Marshal(b)
	if err != nil {
		return nil, nil, err
	}
	now, keep := r.cfg.Clock.Now(), r.cfg.Keep
	rec := &record{
		State: Pending, By: actorOf(by), Made: now.UnixMilli(), Expires: now.Add(keep).UnixMilli(), Token: rand.Text(),
		ends: r.cfg.Clock.Steady().Add(keep).UnixMilli(), Bytes: int64(len(encoded)), Parts: (len(encoded) + partBytes - 1) / partBytes, Count: int64(len(things)),
	}
	if rec.Number, err = r.take(by.Identity.Name, rec.Bytes, rec.ends); err != nil {
		return nil, nil, err
	}
	ops, err := r.puts(rec, things, encoded)
	if err != nil {
		r.give(rec.Number)
	}
	return rec, ops, err
}

// numberOf is the number of the record that a transaction wrote first.
func numberOf(res *kv.Result) int64 {
	n, _ := strconv.ParseInt(strings.TrimPrefix(res.Ops[0].Entry.Key, changePrefix), 10, 64)
	return n
}

// kept says what became of the attempt to hold a change: codes.Held if it is held, with the number
// by which it is if it was asked for before, or else why not.
func (r *Reviews) kept(rec *record, by *access.Actor, things []thing, res *kv.Result, err error) error {
	if err != nil {
		if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
			r.give(rec.Number)
		}
		return err
	}
	number := numberOf(res)
	if number != rec.Number {
		r.give(rec.Number)
	} else {
		r.note(by, "hold", codes.Held, number, things)
	}
	return access.HeldAs(number)
}

// note has the audit told.
func (r *Reviews) note(by *access.Actor, do string, outcome codes.Code, number int64, things []thing) {
	what := []string{"review:" + strconv.FormatInt(number, 10)}
	for i := range things[:min(len(things), mostNoted)] {
		what = append(what, things[i].String())
	}
	r.cfg.Notes.Note(access.Event{Kind: access.EventReview, By: by, Do: do, What: what, Outcome: outcome})
}

// mostNoted is how many things the audit is told of.
const mostNoted = 10

// hold keeps a change, and waits until that is durable. asked identifies what was asked for.
func (r *Reviews) hold(ctx context.Context, by *access.Actor, things []thing, b *body, asked []byte) error {
	rec, ops, err := r.newRecord(by, things, b)
	if err != nil {
		return err
	}
	txn := &kv.Txn{Then: ops, System: true, Actor: by}
	if by.Token != "" {
		sum := sha256.Sum256([]byte(by.Identity.Name + "\x00" + by.Token))
		txn.Token, txn.TokenNS, txn.Asked = hex.EncodeToString(sum[:]), kv.ReviewNamespace, asked
	}
	res, err := r.store.Txn(ctx, txn)
	return r.kept(rec, by, things, res, err)
}

// Hold implements confstore.Approval.
func (r *Reviews) Hold(h *change.Held) error {
	b := &body{}
	var things []thing
	there := map[string]bool{}
	for _, d := range h.Documents {
		kept := document{Name: d.Name, File: d.File, Keep: d.Keep}
		if *d.Base != (log.Digest{}) {
			kept.Base = d.Base.String()
		}
		b.Documents = append(b.Documents, kept)
		if !d.Keep {
			things, there[d.Name] = append(things, thing{Name: d.Name, Delete: d.File == nil}), true
		}
	}
	for _, name := range h.Linked {
		things, there[name] = append(things, thing{Name: name, Link: true}), true
	}
	for _, name := range h.Marked {
		if !there[name] {
			things = append(things, thing{Name: name, Heir: true})
		}
	}
	return r.hold(context.Background(), h.Actor, things, b, h.Asked[:])
}

// HoldToken keeps a token until its making is approved, if that needs approval; put writes it.
// codes.Held: it is kept. nil: it needs no approval.
func (r *Reviews) HoldToken(ctx context.Context, by *access.Actor, put *kv.Op) error {
	if !asks(by) || !r.marks().Has(policy.Roles, nil) {
		return nil
	}
	op := *put
	t := thing{NS: op.NS, Name: op.Key, About: r.cfg.Tokens.Describe(op.Value.Data)}
	return r.hold(ctx, by, []thing{t}, &body{Token: &op}, nil)
}
