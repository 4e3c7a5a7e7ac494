package review

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json" // our own records, which no peer has written
	"strconv"
	"strings"

	"confcenter/access"
	"confcenter/access/policy"
	"confcenter/codes"
	"confcenter/confstore/change"
	"confcenter/confstore/log"
	"confcenter/kv"
)

// draft is a change that is to be held.
type draft struct {
	*record
	by      *access.Actor
	things  []thing
	encoded []byte // what is to be done
}

// newDraft makes the record of a change that is to be held, but for its number.
func (r *Reviews) newDraft(by *access.Actor, things []thing, b *body) (*draft, error) {
	encoded, err := json.Marshal(b)
	if err != nil {
		return nil, err
	}
	now, keep := r.cfg.Clock.Now(), r.cfg.Keep
	rec := &record{
		State: Pending, By: actorOf(by), Made: now.UnixMilli(), Expires: now.Add(keep).UnixMilli(), Token: rand.Text(),
		ends: r.cfg.Clock.Steady().Add(keep).UnixMilli(), Bytes: int64(len(encoded)), Parts: (len(encoded) + partBytes - 1) / partBytes, Count: int64(len(things)),
	}
	return &draft{rec, by, things, encoded}, nil
}

// number counts a change that is to be held under the next number, and returns what is to be written to keep
// it: what then comes of it kept is to be told, unless it is overtaken.
func (r *Reviews) number(d *draft) ([]kv.Op, error) {
	if err := r.take(d.record); err != nil {
		return nil, err
	}
	ops, err := r.puts(d.record, d.things, d.encoded)
	if err != nil {
		r.give(d.Number)
	}
	return ops, err
}

// numberOf is the number of the record that a transaction wrote first.
func numberOf(res *kv.Result) int64 {
	n, _ := strconv.ParseInt(strings.TrimPrefix(res.Ops[0].Entry.Key, changePrefix), 10, 64)
	return n
}

// kept says what became of the attempt to hold a change: codes.Held if it is held, with the number
// by which it is if it was asked for before, or else why not.
func (r *Reviews) kept(d *draft, res *kv.Result, err error) error {
	r.give(d.Number)
	if err != nil {
		return err
	}
	number := numberOf(res)
	if number == d.Number {
		r.note(d.by, "hold", codes.Held, number, d.things)
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
	d, err := r.newDraft(by, things, b)
	if err != nil {
		return err
	}
	txn := kv.Txn{System: true, Actor: by}
	if by.Token != "" {
		sum := sha256.Sum256([]byte(by.Identity.Name + "\x00" + by.Token))
		txn.Token, txn.TokenNS, txn.Asked = hex.EncodeToString(sum[:]), kv.ReviewNamespace, asked
	}
	for {
		keeps := txn // the store keeps it
		if keeps.Then, err = r.number(d); err != nil {
			return err
		}
		res, err := r.store.Txn(ctx, &keeps)
		if !r.overtaken(d.Number, err) {
			return r.kept(d, res, err)
		}
	}
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
