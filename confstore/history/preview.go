package history

import (
	"context"

	"confcenter/access"
	"confcenter/access/secret"
	"confcenter/codes"
	"confcenter/confstore/change"
	"confcenter/meta"
	"confcenter/op"
)

// PreviewAsk asks what would come of a text that is not saved.
type PreviewAsk struct {
	Name string `json:"name" doc:"of the document, with .json" arg:"1"`
	Text string `json:"text" doc:"what its file would hold" arg:"2"`
}

// PreviewAnswer is what would come of it.
type PreviewAnswer struct {
	Name     string    `json:"name" doc:"of the document, with .json"`
	At       int64     `json:"at" doc:"the revision that it was compared with"`
	Refused  string    `json:"refused,omitempty" doc:"why the text would not be taken; then there is nothing else"`
	Length   int64     `json:"length" doc:"of the document as resolved, in bytes"`
	Text     string    `json:"text" doc:"the document as programs would get it, with what it inherits; the first 1 MiB"`
	Paths    []Path    `json:"paths" doc:"the values of it that would differ, at most 1000"`
	More     bool      `json:"more,omitempty" doc:"more of them would differ"`
	Heirs    int64     `json:"heirs" doc:"how many other documents would change, since they inherit from it"`
	Files    []string  `json:"files" doc:"those, at most 100"`
	Told     int64     `json:"told" doc:"how many programs would be told of it"`
	Programs []Program `json:"programs" doc:"those, at most 100"`
}

// mostHeirs is how many of them an answer names.
const mostHeirs = 100

// Preview tells what would come of a text; nothing is changed.
func (h *History) Preview(ctx context.Context, by *access.Actor, q *PreviewAsk) (*PreviewAnswer, error) {
	r := h.room()
	defer r.give()
	if err := r.take(2 * len(q.Text)); err != nil { // the text, and what is made of it
		return nil, err
	}
	name, file := meta.Complete(q.Name), []byte(q.Text)
	may := op.MayOf(ctx)
	if err := may.Needs(op.Change(nil, name, false)...); err != nil {
		return nil, err
	}
	answer := &PreviewAnswer{Name: name, At: int64(h.log.Revision())}
	would, err := await(ctx, h.cfg.Documents, change.Request{Documents: []change.Document{{Name: name, File: file}}, Actor: by, Check: true})
	switch {
	case len(would.Refused) > 0:
		answer.Refused = codes.Message(would.Refused[0].Err)
		return answer, nil
	case err != nil:
		return nil, err
	}
	for _, told := range would.Told {
		if told == name || !may.Names(told) {
			continue
		}
		if answer.Heirs++; answer.Heirs <= mostHeirs {
			answer.Files = append(answer.Files, told)
		}
	}
	answer.Told, answer.Programs = h.told(may, would.Told)
	l, err := h.inherited(ctx, r, name, h.log.Revision())
	if err != nil {
		return nil, err
	}
	if file, err = secret.Conceal(file); err != nil {
		return nil, err
	}
	return answer, answer.resolve(r, &l, file)
}

// resolve finds out what a document would be with file, and in what that differs.
func (answer *PreviewAnswer) resolve(r *room, l *layers, file []byte) (err error) {
	was, err := l.resolved(r)
	if err != nil {
		return err
	}
	l.own.File, l.own.Size, l.own.Deleted = file, len(file), false
	l.own.N++
	is, err := l.resolved(r)
	if err == nil {
		err = r.take(4 * min(len(is), pieceBytes)) // the piece, and its JSON
	}
	if err != nil {
		return err
	}
	answer.Length = int64(len(is))
	if answer.Text, _, err = piece(is, 0); err != nil {
		return err
	}
	var differ DiffAnswer
	err = byPath(r, &differ, was, is, 0)
	answer.Paths, answer.More = differ.Paths, differ.Next > 0
	return err
}
