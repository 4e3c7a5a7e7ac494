package history

import (
	"context"
	"unicode/utf8"

	"confcenter/access"
	"confcenter/codes"
)

// ShowAsk asks what a document was.
type ShowAsk struct {
	Name     string `json:"name" doc:"of the document; NAME@REV is short for both" arg:"1"`
	Rev      string `json:"rev,omitempty" doc:"at which revision: its number, ~N for N versions before the newest, or a time; empty: the newest" arg:"2"`
	Resolved bool   `json:"resolved,omitempty" doc:"with what it inherited then, as programs got it; else the exact bytes of the file"`
	Offset   int64  `json:"offset,omitempty" doc:"from this byte on, which is an answer's next"`
}

// ShowAnswer is what a document was.
type ShowAnswer struct {
	Name     string   `json:"name" doc:"of the document, with .json"`
	At       int64    `json:"at" doc:"the revision at which it was this"`
	Change   *Change  `json:"change,omitempty" doc:"the change that made the document's own version; absent if it has only bases"`
	Deleted  bool     `json:"deleted,omitempty" doc:"it was deleted by then; resolved, text is what it inherits, which programs go on getting"`
	Resolved bool     `json:"resolved,omitempty" doc:"with what it inherited"`
	Bases    []string `json:"bases,omitempty" doc:"if it is resolved: what it inherited from, weakest first"`
	Length   int64    `json:"length" doc:"of the whole text, in bytes"`
	Text     string   `json:"text" doc:"the text from the offset on, at most 1 MiB of it"`
	Next     int64    `json:"next,omitempty" doc:"there is more: ask again with this as offset and at as rev"`
}

// pieceBytes is how much text an answer has.
const pieceBytes = 1 << 20

// piece cuts a piece of text that JSON can carry, and tells where the next begins; 0 if it is the
// last.
func piece(text []byte, offset int64) (string, int64, error) {
	if offset < 0 || offset > int64(len(text)) {
		return "", 0, codes.Errorf(codes.BadRequest, "offset is %d, and the text has %d bytes", offset, len(text))
	}
	rest := text[offset:]
	if len(rest) <= pieceBytes {
		return string(rest), 0, nil
	}
	end := pieceBytes
	for end > pieceBytes-utf8.UTFMax && !utf8.RuneStart(rest[end]) {
		end--
	}
	return string(rest[:end]), offset + int64(end), nil
}

// Show returns what a document was.
func (h *History) Show(ctx context.Context, _ *access.Actor, q *ShowAsk) (*ShowAnswer, error) {
	name, moment := split(q.Name, q.Rev)
	r := h.room()
	defer r.give()
	view, err := h.view(ctx, r, name, moment, q.Resolved)
	if err != nil {
		return nil, err
	}
	answer := &ShowAnswer{Name: view.own.Name, At: int64(view.at), Deleted: view.own.Deleted, Resolved: q.Resolved, Length: int64(len(view.text))}
	answer.Bases = view.names()
	if view.own.N > 0 {
		if answer.Change, err = h.changeTo(ctx, &view.own); err != nil {
			return nil, err
		}
	}
	if err := r.take(4 * min(len(view.text), pieceBytes)); err != nil { // the piece, and its JSON
		return nil, err
	}
	answer.Text, answer.Next, err = piece(view.text, q.Offset)
	return answer, err
}
