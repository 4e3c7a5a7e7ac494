package log

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"confcenter/access"
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

// ByOf is an actor to the log, which may be nil.
func ByOf(a *access.Actor, now time.Time) By {
	b := By{Time: now.UnixMilli()}
	if a != nil {
		b.Author, b.Origin, b.Peer, b.Comment, b.Commit, b.Token = a.By(), a.Origin, a.Address, a.Comment, a.Commit, a.Token
	}
	return b
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
	err = decode(e.Key, e.Value.Data, &m)
	return m, err
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

// token is the change that was asked for with a request token.
type token struct {
	Seq   uint64 `json:"seq"`
	Asked Digest `json:"asked"`
	Who   string `json:"who,omitempty"` // was proved to ask
}

// names are the entries by which a change is found.
func (c *Change) names(seq uint64, made Made) []kv.Op {
	ops := []kv.Op{put(changes, changeKey(seq), encode(made))}
	if c.By.Token != "" && c.Asked != (Digest{}) {
		ops = append(ops, put(tokens, c.By.Token, encode(token{seq, c.Asked, c.Who})))
	}
	if c.Source != "" {
		ops = append(ops, put(applied, c.Source, []byte("{}")))
	}
	return ops
}

// Applied is the revision as of which documents were last brought from a source; 0: never.
func Applied(ctx context.Context, l *Log, source string) (kv.Revision, error) {
	e, err := lookUp(ctx, l.store, applied, source)
	if e == nil {
		return 0, err
	}
	return e.Mod, nil
}

// NoteApplied notes that all documents that a source brings are what they are to be.
func NoteApplied(ctx context.Context, l *Log, source string) error {
	_, err := l.write(ctx, &kv.Txn{System: true, Then: []kv.Op{put(applied, source, []byte("{}"))}})
	return err
}

// Asked returns the change that who asked for with a token; nil: there is none. codes.TokenReused:
// something other than asked was asked for (if asked is not zero), or by someone other than who.
func (l *Log) Asked(ctx context.Context, text, who string, asked Digest) (*Made, error) {
	e, err := lookUp(ctx, l.store, tokens, text)
	if e == nil {
		return nil, err
	}
	var t token
	if err := decode(text, e.Value.Data, &t); err != nil {
		return nil, err
	}
	if asked != (Digest{}) && asked != t.Asked || who != t.Who {
		return nil, codes.Errorf(codes.TokenReused, "the token %q was used for another change; use a new one", text)
	}
	made, err := l.Change(ctx, t.Seq)
	return &made, err
}

// Completion says who made a version that was found on disk, and why, as it became known when the
// version was in the log.
type Completion struct {
	Name string
	N    int64
	By   By
}

// A version has at most one completion of each kind. They are never replaced, so that a store which
// is taken back to an earlier revision has those that it had then.
const (
	completeOwner  = "/1" // nothing but the comment is new
	completeCommit = "/2" // it came with a commit, which counts before the other
)

func (c *Completion) key() string {
	if c.By.Commit == "" {
		return versionKey(c.Name, c.N) + completeOwner
	}
	return versionKey(c.Name, c.N) + completeCommit
}

// Complete adds completions. They are records of their own: the versions keep their revisions, and
// programs are told nothing. Those of versions that are no longer kept are left out.
func (l *Log) Complete(ctx context.Context, list []Completion) error {
	for part := range slices.Chunk(list, mostOps) {
		for tries := 0; ; tries++ {
			err := l.complete(ctx, part)
			if codes.Of(err) != codes.Conflict || tries == mostTries { // versions were removed meanwhile
				if err != nil {
					return err
				}
				break
			}
		}
	}
	return nil
}

func (l *Log) complete(ctx context.Context, list []Completion) error {
	var removed retention
	kept, err := l.current(retentionKey, &removed)
	if err != nil {
		return err
	}
	txn := &kv.Txn{System: true, Must: true, If: []kv.Compare{unchanged(retentionKey, kept)}}
	for i := range list {
		c := &list[i]
		if _, err := l.Find(ctx, &Document{Name: c.Name, N: c.N}, c.N); codes.Of(err) == codes.Compacted {
			continue
		} else if err != nil {
			return err
		}
		txn.Then = append(txn.Then, put(completed, c.key(), encode(c.By)))
	}
	if len(txn.Then) == 0 {
		return nil
	}
	_, err = l.write(ctx, txn)
	return err
}

// Who says who made a version, and why, given its change.
func (l *Log) Who(ctx context.Context, v *Version, change *Made) (By, error) {
	by := change.By
	if v.By != nil {
		by = *v.By
	}
	if by.Origin != access.OnDisk || by.Commit != "" {
		return by, nil
	}
	list, err := l.completions(ctx, v.Name, v.N)
	if err != nil || len(list) == 0 {
		return by, err
	}
	last := list[len(list)-1]
	err = decode(last.Key, last.Value.Data, &by)
	return by, err
}

// completions are those of a version, the one that counts last.
func (l *Log) completions(ctx context.Context, name string, n int64) ([]*kv.Entry, error) {
	page, err := l.store.ListArchive(ctx, kv.List{NS: completed, Prefix: versionKey(name, n) + "/"})
	return page.Entries, err
}
