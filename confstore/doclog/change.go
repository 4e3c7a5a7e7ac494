package doclog

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"confcenter/codes"
	"confcenter/kv"
)

// By is who made a change, and why.
type By struct {
	Author  string `json:"author,omitempty"`
	Origin  string `json:"origin,omitempty"` // see access.Actor
	Peer    string `json:"peer,omitempty"`   // address, with its port
	Comment string `json:"comment,omitempty"`
	Commit  string `json:"commit,omitempty"` // of git, if the file came with one
	Token   string `json:"token,omitempty"`  // of the request
	Time    int64  `json:"time"`             // ms since 1970
}

// Kind is what a change did to a document.
type Kind string

// The kinds.
const (
	Created Kind = "created" // also one that had been deleted
	Changed Kind = "changed"
	Deleted Kind = "deleted"
)

// Touch is a document in a change.
type Touch struct {
	Name string `json:"name"`
	N    int64  `json:"n"` // the version that the change made
	Kind Kind   `json:"kind"`
}

// Made is a change as the log remembers it.
type Made struct {
	By                   // what all its versions have in common; see Log.Who
	Seq      uint64      `json:"-"`
	Revision kv.Revision `json:"-"`
	Count    int         `json:"count"`           // of the documents it touched
	First    []Touch     `json:"documents"`       // of them, at most MaxTouches
	Parts    int         `json:"parts,omitempty"` // that have all of them, if First has not
}

// Several reports whether the versions of the change may have been made by several, so that it
// does not say who: see Change.Sign.
func (m *Made) Several() bool {
	return m.Count > 1 && m.By == By{Origin: m.Origin, Time: m.Time}
}

// MaxTouches is how many documents are kept with a change itself.
const MaxTouches = 100

// touchesInPart is how many documents each of its parts has.
const touchesInPart = 1000

// made is what is remembered of a change, with what it takes besides.
func (p *planned) made(c *Change, seq uint64) (m Made, parts []kv.Op) {
	m = Made{By: c.By, Count: len(p.touches), First: p.touches[:min(MaxTouches, len(p.touches))]}
	if m.Count > len(m.First) {
		for part := range slices.Chunk(p.touches, touchesInPart) {
			parts = append(parts, put(touched, touchedKey(seq, m.Parts), encode(part)))
			m.Parts++
		}
	}
	return m, parts
}

func touchedKey(seq uint64, part int) string { return fmt.Sprintf("%s/%06d", changeKey(seq), part) }

func decodeMade(e *kv.Entry) (m Made, err error) {
	if m.Seq, err = strconv.ParseUint(e.Key, 16, 64); err != nil {
		return m, damaged(e.Key, err)
	}
	m.Seq, m.Revision = ^m.Seq, e.Mod
	return m, decode(e.Key, e.Value.Data, &m)
}

// Change returns a change by its sequence.
func (l *Log) Change(ctx context.Context, seq uint64) (m Made, err error) {
	e, err := l.archived(ctx, changes, changeKey(seq))
	if err != nil {
		return m, err
	}
	return decodeMade(e)
}

// ChangesOf returns the changes that made versions of one document, which are in the order of
// Versions. Between them are changes of others: reading a few of those in vain is quicker than
// asking for each by itself.
func (l *Log) ChangesOf(ctx context.Context, list []Version) (made []Made, err error) {
	const most, vain = 512, 32
	for ahead := vain; len(made) < len(list); {
		next := list[len(made)].Seq
		page, err := l.changesTo(ctx, next, ahead)
		if err != nil {
			return nil, err
		}
		used := 0
		for i := range page {
			if len(made) < len(list) && page[i].Seq == list[len(made)].Seq {
				made = append(made, page[i])
				used++
			}
		}
		switch {
		case used == 0:
			return nil, damaged(changeKey(next), errMissing)
		case used*vain < len(page)*2:
			ahead = max(1, ahead/2)
		default:
			ahead = min(2*ahead, most)
		}
	}
	return made, nil
}

// Changes lists at most limit changes whose revision is below before, newest first; before 0: from
// the newest on.
func (l *Log) Changes(ctx context.Context, before kv.Revision, limit int) ([]Made, error) {
	if before == 0 {
		return l.changesTo(ctx, newestSeq, limit)
	}
	m, err := l.LastChange(ctx, func(m *Made) bool { return m.Revision < before })
	if err != nil || m.Revision == 0 {
		return nil, err
	}
	return l.changesTo(ctx, m.Seq, limit)
}

// newestSeq is above that of any change.
const newestSeq = 1<<63 - 1

// changesTo lists changes from one with the sequence seq or the one before it, newest first.
func (l *Log) changesTo(ctx context.Context, seq uint64, limit int) (list []Made, err error) {
	after := changeKey(seq + 1)
	for len(list) < limit {
		page, err := l.store.ListArchive(ctx, kv.List{NS: changes, After: after, Limit: limit - len(list)})
		if err != nil {
			return nil, err
		}
		for _, e := range page.Entries {
			m, err := decodeMade(e)
			if err != nil {
				return nil, err
			}
			list, after = append(list, m), e.Key
		}
		if !page.More {
			break
		}
	}
	return list, nil
}

// LastChange returns the newest change for which counts is true, which is false for all that are
// newer and true for all that are older. Its revision is 0 if there is none.
func (l *Log) LastChange(ctx context.Context, counts func(*Made) bool) (last Made, err error) {
	now, _, err := l.state()
	if err != nil {
		return last, err
	}
	for low, high := uint64(0), now.Seq; low < high; {
		middle := high - (high-low)/2
		list, err := l.changesTo(ctx, middle, 1)
		switch {
		case err != nil:
			return last, err
		case len(list) == 0 || list[0].Seq <= low: // nothing is left in between
			if middle == high {
				return last, nil
			}
			low = middle
		case counts(&list[0]):
			last, low = list[0], middle
		default:
			high = list[0].Seq - 1
		}
	}
	return last, nil
}

// Touched returns all documents that a change touched.
func (l *Log) Touched(ctx context.Context, m *Made) ([]Touch, error) {
	if m.Parts == 0 {
		return m.First, nil
	}
	list := make([]Touch, 0, m.Count)
	for i := range m.Parts {
		e, err := l.archived(ctx, touched, touchedKey(m.Seq, i))
		if err != nil {
			return nil, err
		}
		var part []Touch
		if err := decode(e.Key, e.Value.Data, &part); err != nil {
			return nil, err
		}
		list = append(list, part...)
	}
	if len(list) != m.Count {
		return nil, damaged(changeKey(m.Seq), codes.Errorf(codes.Storage, "%d documents of %d", len(list), m.Count))
	}
	return list, nil
}
