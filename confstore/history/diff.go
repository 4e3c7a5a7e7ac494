package history

import (
	"bytes"
	"context"
	"encoding/json" // for the type of a value that is JSON already
	"errors"
	"fmt"

	"confcenter/access"
	"confcenter/codes"
	"confcenter/confstore/log"
	"confcenter/internal/jsonpath"
	"confcenter/internal/jsontext"
	"confcenter/internal/textdiff"
)

// DiffAsk asks what differs between two revisions of a document.
type DiffAsk struct {
	Name     string `json:"name" doc:"of the document; NAME@REV: what the change did that was the last until then" arg:"1"`
	From     string `json:"from,omitempty" doc:"the older revision: its number, ~N or a time; empty: the version before; 0: before everything" arg:"2"`
	To       string `json:"to,omitempty" doc:"the newer one; empty: the newest" arg:"3"`
	Resolved bool   `json:"resolved,omitempty" doc:"compare what programs got, with what the document inherited"`
	Paths    bool   `json:"paths,omitempty" doc:"tell by key path which values differ, instead of which lines"`
	Offset   int64  `json:"offset,omitempty" doc:"go on from here, which is an answer's next"`
}

// DiffAnswer is what differs.
type DiffAnswer struct {
	Name  string `json:"name" doc:"of the document, with .json"`
	From  Side   `json:"from" doc:"the older side"`
	To    Side   `json:"to" doc:"the newer side"`
	Same  bool   `json:"same" doc:"nothing differs"`
	Text  string `json:"text,omitempty" doc:"the lines that differ, as a unified diff, at most 1 MiB at a time"`
	Paths []Path `json:"paths,omitempty" doc:"the values that differ, at most 1000 at a time"`
	Next  int64  `json:"next,omitempty" doc:"there is more: ask again with this as offset, and the revisions of from and to"`
}

// Side is one side of a comparison.
type Side struct {
	At     int64   `json:"at" doc:"the revision that made the version; with resolved the revision that was asked about"`
	Change *Change `json:"change,omitempty" doc:"the change that made the version; absent if there was none"`
}

// Difference says how a value differs: "added", "removed" or "changed".
type Difference = jsonpath.Difference

// The differences.
const (
	Added   = jsonpath.Added
	Removed = jsonpath.Removed
	Changed = jsonpath.Changed
)

// perMember is about what a difference takes beside its texts.
const perMember = 128

// Path is a value that differs.
type Path struct {
	Path      string          `json:"path" doc:"its key path, with ~1 for a slash in a key and ~0 for a tilde"`
	What      Difference      `json:"what" doc:"added, removed or changed"`
	Old       json.RawMessage `json:"old,omitempty" doc:"the value before, unless it is longer than 4 KiB"`
	New       json.RawMessage `json:"new,omitempty" doc:"the value after, unless it is longer than 4 KiB"`
	OldLength int64           `json:"old_length,omitempty" doc:"of one that is longer, in bytes"`
	NewLength int64           `json:"new_length,omitempty" doc:"likewise"`
}

// The limits of an answer.
const (
	mostPaths   = 1000
	longestText = 4 << 10   // of a value
	pageBytes   = 512 << 10 // of paths and values, before JSON and memory make more of them
)

// Diff compares two revisions of a document.
func (h *History) Diff(ctx context.Context, _ *access.Actor, q *DiffAsk) (*DiffAnswer, error) {
	r := h.room()
	defer r.give()
	from, to, err := h.sides(ctx, r, q)
	if err != nil {
		return nil, err
	}
	if !q.Resolved { // the number of log; what was inherited may have changed since, the file has not
		from.at, to.at = from.own.Revision, to.own.Revision
	}
	answer := &DiffAnswer{Name: to.own.Name, Same: bytes.Equal(from.text, to.text) && (from.text == nil) == (to.text == nil)}
	for side, v := range map[*Side]*view{&answer.From: from, &answer.To: to} {
		side.At = int64(v.at)
		if v.own.N > 0 {
			if side.Change, err = h.changeTo(ctx, &v.own); err != nil {
				return nil, err
			}
		}
	}
	if q.Paths {
		return answer, byPath(r, answer, from.text, to.text, q.Offset)
	}
	return answer, byLine(r, answer, from, to, q.Offset)
}

// changeTo is the change that made a version.
func (h *History) changeTo(ctx context.Context, v *log.Version) (*Change, error) {
	made, err := h.log.Change(ctx, v.Seq)
	if err != nil {
		return nil, err
	}
	c, err := h.changeBy(ctx, &made, v)
	return &c, err
}

// sides reads what is compared. That there was no document yet is a side, too.
func (h *History) sides(ctx context.Context, r *room, q *DiffAsk) (from, to *view, err error) {
	name, moment := split(q.Name, q.To)
	if to, err = h.view(ctx, r, name, moment, q.Resolved); err != nil {
		return nil, nil, err
	}
	name, moment = to.own.Name, q.From
	switch {
	case q.From == "0":
		return &view{}, to, nil
	case q.From != "":
		d, err := h.log.Document(name)
		if err != nil {
			return nil, nil, err
		}
		rev, err := h.revision(ctx, &d, q.From)
		if err != nil {
			return nil, nil, err
		}
		moment = fmt.Sprint(rev)
	case to.own.N == 0 || to.own.N == 1 && !q.Resolved: // programs got its bases before it was there
		return &view{}, to, nil
	default:
		moment = fmt.Sprint(to.own.Revision - 1)
	}
	if moment == "0" {
		return &view{}, to, nil
	}
	from, err = h.view(ctx, r, name, moment, q.Resolved)
	if codes.Of(err) == codes.NotFound {
		return &view{}, to, nil
	}
	return from, to, err
}

func byLine(r *room, answer *DiffAnswer, from, to *view, offset int64) error {
	d := textdiff.Between(readable(from), readable(to))
	if err := r.take(d.Cost()); err != nil {
		return err
	}
	text, err := d.Unified(nameOf(answer, from), nameOf(answer, to))
	if err == nil {
		answer.Text, answer.Next, err = piece(text, offset)
	}
	return err
}

// readable is a text of which lines can be compared.
func readable(v *view) []byte {
	if v.text == nil || len(v.bases) == 0 && there(&v.own) {
		return v.text
	}
	return append(jsontext.AppendIndent(nil, v.text, "    "), '\n')
}

func nameOf(answer *DiffAnswer, v *view) string {
	if v.text == nil {
		return "/dev/null"
	}
	return fmt.Sprintf("%s@%d", answer.Name, v.at)
}

func byPath(r *room, answer *DiffAnswer, from, to []byte, offset int64) error {
	if err := r.take(len(from) + len(to)); err != nil {
		return err
	}
	n, size, err := int64(0), 0, error(nil)
	cerr := compare(r, from, to, func(path string, what Difference, old, new []byte) {
		n++
		switch {
		case err != nil || n <= offset || answer.Next > 0:
		case len(answer.Paths) == mostPaths || size > pageBytes:
			answer.Next = n - 1
		default:
			p := Path{Path: path, What: what}
			p.Old, p.OldLength = shortValue(old)
			p.New, p.NewLength = shortValue(new)
			took := len(path) + len(p.Old) + len(p.New) + perMember
			size, err = size+took, r.take(4*took)
			answer.Paths = append(answer.Paths, p)
		}
	})
	if cerr != nil {
		return cerr
	}
	answer.Same = n == 0
	return err
}

// compare compares two files by key path.
func compare(r *room, from, to []byte, tell func(path string, what Difference, old, new []byte)) error {
	c := jsonpath.Comparer{Take: r.take, Returns: r.returns, Tell: tell}
	err := c.Compare(compact(from), compact(to))
	if errors.Is(err, jsonpath.ErrTooDeep) {
		err = codes.Errorf(codes.TooLarge, "%w", err)
	}
	return err
}

func compact(text []byte) []byte {
	if text == nil {
		return nil
	}
	return jsontext.AppendCompact(nil, text)
}

func shortValue(value []byte) (json.RawMessage, int64) {
	if len(value) > longestText {
		return nil, int64(len(value))
	}
	return bytes.Clone(value), 0
}
