package history

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"confcenter/access"
	"confcenter/codes"
	"confcenter/confstore/change"
	"confcenter/confstore/log"
	"confcenter/internal/jsonpath"
	"confcenter/kv"
	"confcenter/meta"
	"confcenter/op"
)

// Undone is a document of which a change would be undone.
type Undone struct {
	Name     string `json:"name" doc:"of the document"`
	Revision int64  `json:"revision" doc:"of the newest change of it"`
	Count    int64  `json:"count" doc:"how many changes of it there were since the last apply"`
	By       *By    `json:"by,omitempty" doc:"who made the newest; absent if you may not read the history of the document"`
}

// from is the actor of an apply that is guarded, with its source. A source that is named is another
// than who is proved, or said, to ask by that name.
func (q *ApplyAsk) from(by *access.Actor) (*access.Actor, error) {
	if !q.Guard {
		return by, nil
	}
	kind, name := "named", q.Source
	if name == "" {
		kind, name = "proved", by.Who()
	}
	if name == "" && by != nil {
		kind, name = "author", by.Author
	}
	if name == "" {
		return nil, codes.Errorf(codes.BadRequest, "source is missing: guard asks for the last apply of the same source, and nothing says who asks")
	}
	if _, err := by.Says(access.Said{Author: name}); err != nil { // the same is shown of it
		return nil, err
	}
	from := access.Actor{}
	if by != nil {
		from = *by
	}
	from.Source = kind + " " + name
	return &from, nil
}

// guarded is an apply that may have to leave alone what others have changed since the last one of the
// same source.
type guarded struct {
	*History
	room *room
	ask  *ApplyAsk
}

// change makes the change, unless it would undo one.
func (g *guarded) change(ctx context.Context, req change.Request) (*ChangeAnswer, error) {
	if !g.ask.Guard {
		return g.History.change(ctx, req)
	}
	before, err := g.replayOf(ctx, req.Actor, log.Digest{}, g.ask.DryRun)
	if before != nil || err != nil { // it is asked for again, and nothing is undone
		return g.History.change(ctx, req)
	}
	since, err := log.Applied(ctx, g.log, req.Actor.Source)
	if err != nil {
		return nil, err
	}
	var undone []Undone
	if since > 0 && !g.ask.ReplaceAll {
		if undone, err = g.undone(ctx, req.Documents, since); err != nil {
			return nil, err
		}
	}
	if len(undone) > 0 && !g.ask.DryRun {
		return nil, Undoes(undone)
	}
	answer, err := g.History.change(ctx, req)
	if err != nil {
		return nil, err
	}
	answer.Undone = undone
	if !g.ask.DryRun && answer.Revision == 0 {
		err = g.remember(ctx, req.Actor.Source, since)
	}
	return answer, err
}

// remember notes an apply that had nothing to change.
func (g *guarded) remember(ctx context.Context, source string, since kv.Revision) error {
	newest, err := g.log.Changes(ctx, 0, 1)
	if err != nil || since > 0 && (len(newest) == 0 || newest[0].Revision <= since) {
		return err // there is nothing that the next one could undo
	}
	return log.NoteApplied(ctx, g.log, source)
}

// Undoes is the error for a change that would undo others.
func Undoes(list []Undone) error {
	var text strings.Builder
	fmt.Fprintf(&text, "nothing was changed, because what was changed since the last apply would be undone in %d documents:", len(list))
	for i, u := range list[:min(len(list), mostNamed)] {
		if i > 0 {
			text.WriteByte(';')
		}
		fmt.Fprintf(&text, " %s by revision %d", u.Name, u.Revision)
		if u.By != nil {
			who := cmp.Or(u.By.Author, strings.TrimSpace(u.By.Origin+" "+u.By.Peer))
			fmt.Fprintf(&text, " of %s", who)
			if u.By.Comment != "" {
				fmt.Fprintf(&text, " (%.80s)", u.By.Comment)
			}
		}
		if u.Count > 1 {
			fmt.Fprintf(&text, ", the last of %d", u.Count)
		}
	}
	if more := len(list) - mostNamed; more > 0 {
		fmt.Fprintf(&text, "; and %d more", more)
	}
	text.WriteString(". Take the changes over into what you apply, or give --replace NAME, or --replace-all, to undo them")
	return codes.Errorf(codes.Conflict, "%s", text.String())
}

// mostNamed is how many documents an error names.
const mostNamed = 20

// undone are the documents of which a change would undo what was changed since a revision.
func (g *guarded) undone(ctx context.Context, list []change.Document, since kv.Revision) (undone []Undone, err error) {
	replaced := map[string]bool{}
	for _, name := range g.ask.Replace {
		replaced[meta.Complete(name)] = true
	}
	for i := range list {
		next := &list[i]
		d, err := g.log.Document(next.Name)
		if err != nil {
			return nil, err
		}
		if next.Keep || replaced[next.Name] || d.N == 0 || d.Revision <= since {
			continue
		}
		lost, count, err := g.undoes(ctx, &d, next.File, since)
		if err != nil {
			return nil, err
		}
		if !lost || len(undone) == mostRefused {
			continue
		}
		u := Undone{Name: d.Name, Revision: int64(d.Revision), Count: count}
		if recalls(op.MayOf(ctx), d.Name) {
			v, err := g.log.Find(ctx, &d, d.N)
			if err != nil {
				return nil, err
			}
			c, err := g.changeTo(ctx, &v)
			if err != nil {
				return nil, err
			}
			u.By = &c.By
		}
		undone = append(undone, u)
	}
	slices.SortFunc(undone, func(a, b Undone) int { return strings.Compare(a.Name, b.Name) })
	return undone, nil
}

// undoes reports whether a document that is made next loses what was changed in it since a revision, and
// how many changes that were. A value that was changed since has to be in next as it is now; layout does
// not matter. If what it was is no longer kept, everything has to be.
func (g *guarded) undoes(ctx context.Context, d *log.Document, next []byte, since kv.Revision) (lost bool, count int64, err error) {
	if next == nil && d.Deleted || next != nil && !d.Deleted && log.DigestOf(next) == d.Hash {
		return false, 0, nil
	}
	r := g.room
	held := r.held
	defer func() { r.returns(int(r.held - held)) }()
	was, err := g.find(ctx, d, since)
	if codes.Of(err) == codes.Compacted {
		return true, d.N, nil
	}
	if err != nil {
		return false, 0, err
	}
	count = d.N - was.N
	now, err := g.log.Find(ctx, d, d.N)
	if err == nil {
		err = g.fill(ctx, r, &was)
	}
	if err == nil {
		err = g.fill(ctx, r, &now)
	}
	if err != nil {
		return false, 0, err
	}
	if there(&was) != there(&now) {
		return !same(r, now.File, next), count, nil
	}
	changed, err := differences(r, was.File, now.File)
	if err != nil || len(changed) == 0 || next == nil {
		return err == nil && len(changed) > 0, count, err
	}
	touched := jsonpath.SetOf(changed)
	err = compare(r, now.File, next, func(path string, _ Difference, _, _ []byte) {
		lost = lost || touched.Touches(path)
	})
	return lost, count, err
}

// same reports whether two files have the same values.
func same(r *room, a, b []byte) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	list, err := differences(r, a, b)
	return err == nil && len(list) == 0
}
