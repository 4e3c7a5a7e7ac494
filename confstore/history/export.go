package history

import (
	"context"

	"confcenter/access"
	"confcenter/codes"
	"confcenter/confstore/log"
	"confcenter/kv"
	"confcenter/op"
)

// ExportAsk asks for all documents.
type ExportAsk struct {
	Rev    string `json:"rev,omitempty" doc:"as at which revision: its number, ~N for N changes before the newest, or a time; empty: the newest" arg:"1"`
	From   string `json:"from,omitempty" doc:"go on with this document, which is an answer's next; give the answer's at as rev"`
	Offset int64  `json:"offset,omitempty" doc:"and there from this byte on, which is an answer's next_offset"`
	Hashes bool   `json:"hashes,omitempty" doc:"no texts"`
}

// ExportAnswer is documents by name.
type ExportAnswer struct {
	At         int64      `json:"at" doc:"the revision at which they were this"`
	Documents  []Exported `json:"documents" doc:"by name; about 1 MiB of them, or 1000 without texts"`
	Next       string     `json:"next,omitempty" doc:"there is more: ask again with this as from and at as rev"`
	NextOffset int64      `json:"next_offset,omitempty" doc:"and with this as offset, as only a part of the last text is here"`
}

// Exported is a document as it was.
type Exported struct {
	Name   string `json:"name" doc:"of the document"`
	Mtime  int64  `json:"mtime" doc:"the time its writer gave it, in s since 1970"`
	Size   int64  `json:"size" doc:"of its file, in bytes"`
	Hash   string `json:"hash" doc:"the SHA-256 of its file"`
	Offset int64  `json:"offset,omitempty" doc:"where in the file text begins"`
	Text   string `json:"text,omitempty" doc:"the file from the offset on"`
}

// mostHashes is how many documents an answer without texts has.
const mostHashes = 1000

// Export lists the documents as they were at a revision.
func (h *History) Export(ctx context.Context, _ *access.Actor, q *ExportAsk) (*ExportAnswer, error) {
	if q.Offset < 0 || q.Offset > 0 && (q.From == "" || q.Hashes) {
		return nil, codes.Errorf(codes.BadRequest, "offset is %d: it is that in the text of from", q.Offset)
	}
	may := op.MayOf(ctx)
	if q.From != "" {
		if err := may.Needs(op.PastOf(nil, q.From)...); err != nil {
			return nil, err
		}
	}
	rev, err := h.revision(ctx, nil, q.Rev)
	if err != nil {
		return nil, err
	}
	r := h.room()
	defer r.give()
	answer := &ExportAnswer{At: int64(rev)}
	left, offset := pieceBytes, q.Offset
	one := func(d *log.Document) (bool, error) {
		if !recalls(may, d.Name) {
			return true, nil
		}
		v, err := h.listed(ctx, d, rev, !q.Hashes)
		if err != nil || !there(&v) {
			return true, err
		}
		if left <= 0 || q.Hashes && len(answer.Documents) == mostHashes {
			answer.Next = d.Name
			return false, nil
		}
		e := Exported{Name: d.Name, Mtime: int64(v.Given), Size: int64(v.Size), Hash: hex(v.Hash)}
		if !q.Hashes {
			if e.Text, answer.NextOffset, err = h.textOf(ctx, r, &v, offset); err != nil {
				return false, err
			}
			e.Offset, offset = offset, 0
			left -= len(e.Text) + perWanted
		}
		answer.Documents = append(answer.Documents, e)
		if answer.NextOffset > 0 {
			answer.Next = d.Name
			return false, nil
		}
		return true, nil
	}
	if q.From != "" {
		d, err := h.document(q.From)
		if err != nil {
			return nil, err
		}
		if more, err := one(&d); err != nil || !more {
			return answer, err
		}
	}
	return answer, h.eachDocument(q.From, one)
}

// listed is find, but that what is known of a document is enough if no text is wanted.
func (h *History) listed(ctx context.Context, d *log.Document, rev kv.Revision, text bool) (log.Version, error) {
	if text || d.Revision > rev {
		return h.find(ctx, d, rev)
	}
	return log.Version{Name: d.Name, N: d.N, Given: d.Given, Deleted: d.Deleted, Size: d.Size, Hash: d.Hash}, nil
}

// textOf reads a piece of a file.
func (h *History) textOf(ctx context.Context, r *room, v *log.Version, offset int64) (string, int64, error) {
	if err := h.fill(ctx, r, v); err != nil {
		return "", 0, err
	}
	if err := r.take(3 * min(v.Size, pieceBytes)); err != nil { // the piece, and its JSON
		return "", 0, err
	}
	return piece(v.File, offset)
}
