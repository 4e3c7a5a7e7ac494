package review

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"confcenter/access"
	"confcenter/access/policy"
	"confcenter/codes"
	"confcenter/confstore/log"
	"confcenter/internal/textdiff"
	"confcenter/kv"
	"confcenter/op"
)

// ShowAsk asks for a change.
type ShowAsk struct {
	Number int64 `json:"number" arg:"1" doc:"of the change"`
	Offset int64 `json:"offset,omitempty" doc:"how many of its parts to leave out"`
}

// Shown is a change with what it would do.
type Shown struct {
	Change
	Parts    []Part `json:"parts" doc:"what becomes of each thing; none of a change that is decided"`
	Next     int64  `json:"next,omitempty" doc:"the offset of the next part; absent: there are no more"`
	Outdated bool   `json:"outdated,omitempty" doc:"something of these parts is not as it was when the change was asked for: it cannot be approved any more"`
}

// Part is what a change does to one thing.
type Part struct {
	What     string `json:"what" doc:"the thing"`
	Kind     Kind   `json:"kind" doc:"created, changed, deleted, inherits, which only has a base that is changed, linked, a symlink to a file that is changed, or requires, which is not changed and must be so"`
	Diff     string `json:"diff,omitempty" doc:"of a document: the lines that differ from those that are there now"`
	Old      string `json:"old,omitempty" doc:"of a key: the value that is there now"`
	New      string `json:"new,omitempty" doc:"of a key: the value that it gets, or what is added to a number"`
	Type     string `json:"type,omitempty" doc:"of a key: the type of the new value; bytes are in base64"`
	TTL      int64  `json:"ttl,omitempty" doc:"of a key: how long it is there from the approval on, in ms; absent: this ends nothing"`
	Expires  int64  `json:"expires,omitempty" doc:"of a key or a token: when it ends, in ms since 1970"`
	If       string `json:"if,omitempty" doc:"what must be so then, besides that nothing that is changed was changed by others; else it cannot be approved"`
	Cut      bool   `json:"cut,omitempty" doc:"the values or lines are longer than what is shown"`
	Outdated bool   `json:"outdated,omitempty" doc:"it is not as it was when the change was asked for"`
}

// Kind is what becomes of a thing, in JSON as it is here.
type Kind string

// The kinds.
const (
	Created  Kind = "created"
	Changed  Kind = "changed"
	Deleted  Kind = "deleted"
	Inherits Kind = "inherits"
	Requires Kind = "requires"
	Linked   Kind = "linked"
)

// The limits of a page of parts.
const (
	mostParts    = 100
	mostText     = 512 << 10 // bytes of differences and values
	mostCompared = 4 << 20   // bytes of a document, before and after
	mostValue    = 4 << 10
	mostDiff     = 128 << 10
)

// Show shows a change, compared with what there is now.
func (r *Reviews) Show(ctx context.Context, by *access.Actor, q *ShowAsk) (*Shown, error) {
	c, err := r.caller(by)
	if err != nil {
		return nil, err
	}
	rec, things, err := r.find(c, q.Number)
	if err != nil {
		return nil, err
	}
	if err := each(c, policy.Read, things); err != nil {
		return nil, err
	}
	answer := &Shown{Change: *r.told(c, rec, things)}
	if rec.State.decided() {
		return answer, nil
	}
	b, err := r.body(rec)
	if codes.Of(err) == codes.NotFound && r.decidedNow(rec) {
		return r.Show(ctx, by, q)
	}
	if err != nil {
		return nil, err
	}
	if q.Offset < 0 {
		return nil, codes.Errorf(codes.BadRequest, "offset %d is negative", q.Offset)
	}
	size := 0
	for i, part := range r.parts(c, rec, b, things) {
		switch {
		case int64(i) < q.Offset:
			continue
		case len(answer.Parts) == mostParts, size > mostText:
			answer.Next = int64(i)
			return answer, nil
		}
		p, err := part()
		if err != nil {
			return nil, err
		}
		size += len(p.Diff) + len(p.Old) + len(p.New) + len(p.If)
		answer.Parts, answer.Outdated = append(answer.Parts, *p), answer.Outdated || p.Outdated
	}
	return answer, nil
}

// decidedNow reports whether the change was decided since the record was read, which removes what was
// to be done.
func (r *Reviews) decidedNow(rec *record) bool {
	now, err := r.record(rec.Number)
	return err == nil && (now == nil || now.State.decided())
}

// parts are the parts of a change that c is shown, each to be made when it is.
func (r *Reviews) parts(c caller, rec *record, b *body, things []thing) (list []func() (*Part, error)) {
	for i := range b.Documents {
		if d := &b.Documents[i]; !d.Keep { // others may not be told which else there are
			list = append(list, func() (*Part, error) { return r.documentPart(d) })
		}
	}
	if b.Txn != nil {
		for i := range b.Txn.Then {
			list = append(list, func() (*Part, error) { return r.keyPart(b.Txn, &b.Txn.Then[i]), nil })
		}
		for _, f := range b.Txn.Fences {
			list = append(list, func() (*Part, error) {
				return required(c, f.NS, f.Key, fmt.Sprintf("its lock is held, with the fencing token %d", f.Token)), nil
			})
		}
		for i := range b.Txn.If {
			list = append(list, func() (*Part, error) { return compared(c, &b.Txn.If[i]), nil })
		}
	}
	for i := range things {
		t := &things[i]
		if t.Heir || t.Link || t.About != "" {
			p := &Part{What: t.String(), Kind: Inherits}
			if t.Link {
				p.Kind = Linked
			} else if t.About != "" {
				p.Kind = Created
				if b.Token.Expires != 0 {
					p.Expires = r.clock.Now().Add(r.tokenLeft(rec, b.Token)).UnixMilli()
				}
			}
			list = append(list, func() (*Part, error) { return p, nil })
		}
	}
	return list
}

// documentPart compares a document with the file that there is.
func (r *Reviews) documentPart(d *document) (*Part, error) {
	p := &Part{What: (&thing{Name: d.Name}).String(), Kind: Changed}
	taken := int64(len(d.File)) * 4
	defer func() { r.cfg.Memory.Give(taken) }()
	if !r.cfg.Memory.Take(taken) {
		taken = 0
		return nil, errMemory()
	}
	long := false
	now, _, err := r.cfg.Documents.Look(d.Name, func(size int64) error {
		if long = size > mostCompared; long {
			return codes.Errorf(codes.TooLarge, "the file is too long to be compared")
		}
		if !r.cfg.Memory.Take(4 * size) {
			return errMemory()
		}
		taken += 4 * size
		return nil
	})
	switch {
	case codes.Of(err) == codes.NotFound:
		now = nil
	case err != nil && !long:
		return nil, err
	}
	there := ""
	if now != nil {
		there = log.DigestOf(now).String()
	}
	p.Outdated = !long && there != d.Base
	old, new := "/dev/null", "/dev/null"
	if now != nil {
		old = d.Name
	}
	switch {
	case d.File == nil:
		p.Kind = Deleted
	case now == nil && !long:
		p.Kind, new = Created, d.Name
	default:
		new = d.Name
	}
	if p.Cut = long || len(d.File) > mostCompared; p.Cut {
		return p, nil
	}
	text, err := textdiff.Between(now, d.File).Unified(old, new)
	if err != nil {
		return nil, err
	}
	p.Diff, p.Cut = cut(string(text), mostDiff)
	return p, nil
}

func errMemory() error {
	return &codes.Error{Code: codes.Busy, After: time.Second, Text: "there is no memory to compare documents now; try again later"}
}

// cut is the beginning of a text that is too long.
func cut(text string, most int) (string, bool) {
	if len(text) <= most {
		return text, false
	}
	for !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most], true
}

// keyPart compares a key with what there is.
func (r *shelf) keyPart(t *transaction, op *kv.Op) *Part {
	p := &Part{What: (&thing{NS: op.NS, Name: op.Key}).String(), Kind: Changed}
	now := r.store.Get(op.NS, op.Key)
	var mod kv.Revision
	if now != nil {
		mod = now.Mod
		p.Old, p.Cut = cut(textOf(now.Value), mostValue)
	}
	for i := range t.Was {
		if w := &t.Was[i]; w.NS == op.NS && w.Key == op.Key {
			p.Outdated = w.Mod != mod
		}
	}
	value := op.Value
	switch {
	case !op.Kind.Sets():
		p.Kind = Deleted
		return p
	case now == nil:
		p.Kind = Created
	}
	if op.Kind.Has(kv.MemberBy) {
		value = kv.IntValue(op.Delta)
	}
	long := false
	p.New, long = cut(textOf(value), mostValue)
	p.Cut, p.Type = p.Cut || long, value.Type.String()
	p.TTL, p.Expires = op.TTL.Milliseconds(), op.Expires
	switch {
	case op.Kind.Has(kv.MemberBy):
		p.New, p.If = "+ "+p.New, bounds(op)
	case op.Kind.Updates():
		p.New = op.Kind.String() + " " + p.New
	}
	return p
}

// bounds is what an increment requires of its result, and begins with.
func bounds(op *kv.Op) string {
	var list []string
	if op.Initial != 0 {
		list = append(list, fmt.Sprintf("begins with %d where there is none", op.Initial))
	}
	if op.Min != nil {
		list = append(list, fmt.Sprintf("is then at least %d", *op.Min))
	}
	if op.Max != nil {
		list = append(list, fmt.Sprintf("is then at most %d", *op.Max))
	}
	return strings.Join(list, ", ")
}

// compared is a condition.
func compared(c caller, one *kv.Compare) *Part {
	with, long := strconv.FormatInt(one.Number, 10), false
	if one.Target == kv.CompareValue {
		with, long = cut(textOf(one.Value), mostValue)
	}
	p := required(c, one.NS, one.Key, kv.TargetNames[one.Target]+" "+kv.RelationNames[one.Relation]+" "+with)
	p.Cut = long
	return p
}

// required is what must be so of a key, which others than its readers are not told.
func required(c caller, ns, key, what string) *Part {
	if !c.Sees(op.Key(policy.Read, ns, key)) {
		return &Part{What: policy.KV.String(), Kind: Requires, If: "something about a key that you may not read"}
	}
	return &Part{What: (&thing{NS: ns, Name: key}).String(), Kind: Requires, If: what}
}

// textOf is a value as people are shown.
func textOf(v kv.Value) string {
	if v.Type.Octets() {
		return base64.StdEncoding.EncodeToString(v.Data)
	}
	return string(bytes.ToValidUTF8(v.Data, []byte("\uFFFD")))
}
