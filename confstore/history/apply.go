package history

import (
	"context"
	"crypto/sha256"
	"fmt"

	"confcenter/access"
	"confcenter/access/policy"
	"confcenter/codes"
	"confcenter/confstore/change"
	"confcenter/confstore/log"
	"confcenter/op"
)

// ApplyAsk asks that documents are what is said, all of them or none.
type ApplyAsk struct {
	Said
	Documents []Wanted `json:"documents,omitempty" doc:"what they are to be; each once"`
	Staged    int64    `json:"staged,omitempty" doc:"how many documents stage was given with the token, which belong to the change"`
	Prune     bool     `json:"prune,omitempty" doc:"delete all other documents, but for roles"`
	Whole     bool     `json:"whole,omitempty" doc:"documents names all that there are, but for roles: if there is any other, nothing is changed"`
	DryRun    bool     `json:"dry_run,omitempty" doc:"change nothing: say what would be changed, who would be told, and what would be refused"`

	Guard      bool     `json:"guard,omitempty" doc:"refuse what would undo a change that was made since the last guarded apply of the same source; the first one only remembers"`
	Source     string   `json:"source,omitempty" doc:"of guard: whose documents these are; empty: of who is proved to ask, else of the author"`
	Replace    []string `json:"replace,omitempty" doc:"of guard: documents that are made what is said all the same"`
	ReplaceAll bool     `json:"replace_all,omitempty" doc:"of guard: all of them are"`
}

// Wanted is what a document is to be.
type Wanted struct {
	Name   string `json:"name" doc:"of the document, with .json"`
	Text   string `json:"text,omitempty" doc:"the exact contents of its file"`
	Offset int64  `json:"offset,omitempty" doc:"where in them text begins, in bytes: for stage, which takes long ones in pieces"`
	Delete bool   `json:"delete,omitempty" doc:"it is not to be there"`
	Keep   bool   `json:"keep,omitempty" doc:"it is to stay as it is: only base counts"`
	Base   string `json:"base,omitempty" doc:"the SHA-256 of the file that this is based on, or none if there was none; if it is another, nothing is changed; absent: whatever there is. While the file on disk is broken, only the SHA-256 of its bytes holds"`
}

// noBase says that a change is based on there being no document.
const noBase = "none"

// change is w in the form of the store.
func (w *Wanted) change() (d change.Document, err error) {
	d = change.Document{Name: w.Name, Keep: w.Keep}
	if w.Delete && w.Keep || w.Text != "" && (w.Delete || w.Keep) {
		return d, codes.Errorf(codes.BadRequest, "%.200s: a document has a text, or is deleted, or kept", w.Name)
	}
	if !w.Delete && !w.Keep {
		d.File = []byte(w.Text)
	}
	if w.Base == "" {
		return d, nil
	}
	d.Base = new(log.Digest)
	if w.Base == noBase {
		return d, nil
	}
	if err := d.Base.UnmarshalText([]byte(w.Base)); err != nil {
		return d, codes.Errorf(codes.BadRequest, "%.200s: base must be a SHA-256 in hexadecimal, or %s", w.Name, noBase)
	}
	if *d.Base == (log.Digest{}) { // which stands for no file in the store
		return d, codes.Errorf(codes.Conflict, "%.200s: base is 64 zeros, which no file has as its SHA-256: say %s if there was no file", w.Name, noBase)
	}
	return d, nil
}

// Apply makes documents what they are to be, in one change.
func (h *History) Apply(ctx context.Context, actor *access.Actor, q *ApplyAsk) (*ChangeAnswer, error) {
	by, err := q.by(actor)
	if err == nil {
		by, err = q.from(by)
	}
	if err != nil {
		return nil, err
	}
	r := h.room()
	defer r.give()
	wanted := q.Documents
	if q.Staged > 0 {
		staged, err := h.stages.take(stageName{q.Token, actor.Who()}, q.Staged)
		if err != nil { // as after a restart of the server, and the change may have been made before it
			made, failed := h.replayOf(ctx, by, log.Digest{}, q.DryRun)
			if made == nil && failed == nil {
				failed = err
			}
			return made, failed
		}
		wanted = append(staged, wanted...)
	}
	req := change.Request{Actor: by, Check: q.DryRun}
	there := make(map[string]bool, len(wanted))
	for i := range wanted {
		w := &wanted[i]
		if err := r.take(len(w.Text) + perWanted); err != nil {
			return nil, err
		}
		if w.Offset != 0 {
			return nil, codes.Errorf(codes.BadRequest, "%.200s: offset is for stage", w.Name)
		}
		d, err := w.change()
		if err != nil {
			return nil, err
		}
		there[w.Name] = true
		req.Documents = append(req.Documents, d)
	}
	may := op.MayOf(ctx)
	if err := mayMake(may, req.Documents); err != nil {
		return nil, err
	}
	if q.Prune || q.Whole {
		if err := may.Needs(everyDocument...); err != nil {
			return nil, err
		}
		req.Asked = others(q.Prune, req.Documents)
		if made, err := h.replayOf(ctx, by, req.Asked, q.DryRun); made != nil || err != nil {
			return made, err
		}
		req.Behind = h.log.Revision()
		err := h.eachDocument("", func(d *log.Document) (bool, error) {
			if there[d.Name] || d.Deleted || policy.IsRole(d.Name) {
				return true, nil
			}
			other := change.Document{Name: d.Name, Base: &d.Hash}
			if q.Whole {
				other.Keep, other.Base = true, new(log.Digest)
			}
			req.Documents = append(req.Documents, other)
			return true, r.take(perWanted)
		})
		if err != nil {
			return nil, err
		}
	}
	answer, err := (&guarded{h, r, q}).change(ctx, req)
	if err == nil && q.Staged > 0 && !q.DryRun {
		h.stages.drop(stageName{q.Token, actor.Who()}) // asked for again, it is found in the log
	}
	return answer, err
}

// perWanted is what a document of a change takes besides its text.
const perWanted = 256

// replayOf answers a change that was made before, with the same token; nil: it was not. What it has to
// change is found in what there is, so that it is not looked for again.
func (h *History) replayOf(ctx context.Context, by *access.Actor, asked log.Digest, dry bool) (*ChangeAnswer, error) {
	if by == nil || by.Token == "" || dry {
		return nil, nil
	}
	made, err := h.log.Asked(ctx, by.Token, by.Who(), asked)
	if made == nil || err != nil {
		return nil, err
	}
	return h.answerTo(ctx, made)
}

// others identifies the question to make documents what is said and to delete all others, or that there
// be none.
func others(prune bool, list []change.Document) log.Digest {
	h := sha256.New()
	fmt.Fprintln(h, "prune", prune)
	for _, d := range list {
		fmt.Fprintf(h, "%q %t %t %s %v\n", d.Name, d.Keep, d.File != nil, log.DigestOf(d.File), d.Base)
	}
	return log.Digest(h.Sum(nil))
}

// StageAsk adds documents to a change that is too large for one question.
type StageAsk struct {
	Token     string   `json:"token" doc:"of the apply that follows: any text that no one else uses"`
	Documents []Wanted `json:"documents" doc:"what they are to be; a long text in pieces, one after the other"`
}

// StageAnswer tells what is staged.
type StageAnswer struct {
	Documents int64 `json:"documents" doc:"how many are staged with the token"`
	Bytes     int64 `json:"bytes" doc:"how much that is"`
	Expires   int64 `json:"expires" doc:"when it is forgotten unless more comes, in ms since 1970"`
}

// Stage adds documents to a change.
func (h *History) Stage(_ context.Context, by *access.Actor, q *StageAsk) (*StageAnswer, error) {
	if q.Token == "" || len(q.Token) > access.MaxToken {
		return nil, codes.Errorf(codes.BadRequest, "token must have 1 to %d bytes: the apply that follows has the same", access.MaxToken)
	}
	for i := range q.Documents {
		w := &q.Documents[i]
		if _, err := w.change(); err != nil {
			return nil, err
		}
		if w.Offset < 0 {
			return nil, codes.Errorf(codes.BadRequest, "%s: offset is %d", w.Name, w.Offset)
		}
	}
	return h.stages.add(stageName{q.Token, by.Who()}, by.Administrator(), q.Documents)
}

// wrongPiece is for a text whose pieces do not follow one another.
func (w *Wanted) wrongPiece(have int) error {
	return codes.Errorf(codes.BadRequest, "%s: a piece of its text begins at %d, and %d bytes are staged; go on there", w.Name, w.Offset, have)
}
