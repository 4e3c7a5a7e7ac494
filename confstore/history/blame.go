package history

import (
	"context"
	"strings"

	"confcenter/access"
	"confcenter/codes"
	"confcenter/confstore/log"
	"confcenter/internal/jsonpath"
	"confcenter/internal/jsontext"
)

// BlameAsk asks who changed values last.
type BlameAsk struct {
	Name   string `json:"name" doc:"of the document; NAME@REV is short for it and rev" arg:"1"`
	Path   string `json:"path,omitempty" doc:"only the value at this key path, and those below; empty: all" arg:"2"`
	Rev    string `json:"rev,omitempty" doc:"looking back from which revision: its number, ~N or a time; empty: the newest"`
	Offset int64  `json:"offset,omitempty" doc:"go on from here, which is an answer's next"`
}

// BlameAnswer is who changed values last.
type BlameAnswer struct {
	Name   string   `json:"name" doc:"of the document, with .json"`
	At     int64    `json:"at" doc:"the revision that was looked back from"`
	Keys   []Blamed `json:"keys" doc:"the values in the order of the text, at most 1000 at a time"`
	Looked []Looked `json:"looked" doc:"how far it was looked back"`
	Next   int64    `json:"next,omitempty" doc:"there is more: ask again with this as offset and at as rev"`
}

// Blamed is a value and who changed it last.
type Blamed struct {
	Path     string `json:"path" doc:"its key path, with ~1 for a slash in a key and ~0 for a tilde"`
	File     string `json:"file" doc:"the file that the value comes from, which may be one that is inherited"`
	Version  int64  `json:"version" doc:"of the file, in which the value became what it is"`
	Revision int64  `json:"revision" doc:"that made the version"`
	Earlier  bool   `json:"earlier,omitempty" doc:"the value was there before as well, but it was not looked back further"`
	By
}

// Looked is how far a file was looked back.
type Looked struct {
	File     string `json:"file" doc:"its name"`
	Versions int64  `json:"versions" doc:"how many versions were compared"`
	Oldest   int64  `json:"oldest" doc:"the oldest of them"`
	Stopped  string `json:"stopped,omitempty" doc:"why it was not looked back further, if that was needed"`
}

// The limits of looking back, for a question.
const (
	mostKeys     = 1000     // in an answer
	mostVersions = 2000     // of all files together
	mostLooked   = 64 << 20 // bytes of them
	versionsPage = 64       // read at a time
)

// Blame tells who changed the values of a document last: the whole of what programs got, each
// value in the file that it comes from.
func (h *History) Blame(ctx context.Context, _ *access.Actor, q *BlameAsk) (*BlameAnswer, error) {
	r := h.room()
	defer r.give()
	name, moment := split(q.Name, q.Rev)
	v, err := h.view(ctx, r, name, moment, true)
	if err == nil {
		err = v.gone()
	}
	if err == nil && q.Offset < 0 {
		err = codes.Errorf(codes.BadRequest, "offset is %d: it is an answer's next", q.Offset)
	}
	if err != nil {
		return nil, err
	}
	values, err := h.valuesOf(r, v, jsonpath.Split(q.Path))
	if err != nil {
		return nil, err
	}
	answer := &BlameAnswer{Name: v.own.Name, At: int64(v.at)}
	values = values[min(int(q.Offset), len(values)):]
	if len(values) > mostKeys {
		values, answer.Next = values[:mostKeys], q.Offset+mostKeys
	}
	switch keys := jsonpath.Split(q.Path); {
	case len(values) > 0 || q.Offset > 0:
	case len(keys) == 0:
		return nil, codes.Errorf(codes.NotFound, "%s is {}: no file has a value of it", v.own.Name)
	default:
		return nil, codes.Errorf(codes.NotFound, "%s has no %s", v.own.Name, shown(keys))
	}
	b := blaming{history: h, room: r, answer: answer, versions: mostVersions, bytes: mostLooked, made: map[uint64]log.Made{}}
	return answer, b.all(ctx, v, values)
}

// value is one of which it is asked who changed it.
type value struct {
	path string
	file int // of the layers; the last is the document itself
}

// valuesOf are the values at a path and below.
func (h *History) valuesOf(r *room, v *view, keys []string) (list []value, err error) {
	if err := r.take(2 * len(v.text)); err != nil {
		return nil, err
	}
	e := explain(&v.layers, keys)
	if e.winner < 0 {
		return nil, nil
	}
	path := jsonpath.Join(keys)
	if jsontext.KindOf(jsonpath.At(v.text, keys)) != jsontext.Object {
		return []value{{path, e.winner}}, nil
	}
	var docs [][]byte
	for _, c := range e.left {
		docs = append(docs, c.value)
	}
	origins, complete := jsonpath.Trace(docs, v.deep)
	if !complete {
		return nil, codes.Errorf(codes.TooLarge, "%s has too many values to blame at once; name a key path%s", v.own.Name, below(path))
	}
	for i, o := range origins {
		if parent := i+1 < len(origins) && strings.HasPrefix(origins[i+1].Path, o.Path+"/"); !parent {
			list = append(list, value{path + o.Path, e.left[o.Doc].file})
		}
	}
	if len(list) == 0 { // an empty object
		list = append(list, value{path, e.winner})
	}
	return list, nil
}

func below(path string) string {
	if path == "" {
		return ""
	}
	return " below " + path
}

// blaming is one question.
type blaming struct {
	history  *History
	room     *room
	answer   *BlameAnswer
	versions int                 // may still be looked at
	bytes    int                 // likewise
	made     map[uint64]log.Made // changes that were met, by their sequence
}

// all blames values, file by file.
func (b *blaming) all(ctx context.Context, v *view, values []value) error {
	b.answer.Keys = make([]Blamed, len(values))
	for file, version := range append(v.bases[:len(v.bases):len(v.bases)], v.own) {
		open := map[string]int{}
		for i, value := range values {
			if value.file == file {
				open[value.path] = i
			}
		}
		if len(open) > 0 {
			if err := b.file(ctx, version, open); err != nil {
				return err
			}
		}
	}
	return nil
}

// file looks back through the versions of a file, from the current one on, until all values
// have been blamed. open are the indices of the values by path.
func (b *blaming) file(ctx context.Context, current log.Version, open map[string]int) error {
	looked := Looked{File: current.Name, Versions: 1, Oldest: current.N}
	for current.N > 1 && len(open) > 0 && looked.Stopped == "" {
		older, err := b.history.log.Versions(ctx, current.Name, current.N, min(versionsPage, b.versions))
		if err != nil {
			return err
		}
		if len(older) == 0 || older[0].N != current.N-1 {
			looked.Stopped = "earlier versions are no longer kept"
			if b.versions == 0 {
				looked.Stopped = "the limit of versions for a question is reached"
			}
		}
		for i := range older {
			if len(open) == 0 || older[i].N != current.N-1 {
				break
			}
			if b.bytes -= older[i].Size; b.bytes < 0 {
				looked.Stopped = "the limit of bytes for a question is reached"
				break
			}
			before := &older[i]
			if err := b.compare(ctx, &current, before, open); err != nil {
				return err
			}
			current = *before
			b.versions--
			looked.Versions, looked.Oldest = looked.Versions+1, current.N
		}
	}
	for path := range open {
		if err := b.blame(ctx, &current, path, open, looked.Stopped != ""); err != nil {
			return err
		}
	}
	b.answer.Looked = append(b.answer.Looked, looked)
	return nil
}

// compare blames a version for the values that it changed.
func (b *blaming) compare(ctx context.Context, is, was *log.Version, open map[string]int) (err error) {
	cost := costOf(was) + was.Size + 2*is.Size
	if err := b.room.take(cost); err != nil {
		return err
	}
	defer b.room.returns(cost)
	if err := b.history.log.Fill(ctx, was); err != nil {
		return err
	}
	changed, err := differences(b.room, is.File, was.File)
	if err != nil || len(changed) == 0 {
		return err
	}
	touched := jsonpath.SetOf(changed)
	for path := range open {
		if touched.Touches(path) {
			if err := b.blame(ctx, is, path, open, false); err != nil {
				return err
			}
		}
	}
	return nil
}

// differences are the paths by which two files differ.
func differences(r *room, a, b []byte) (changed map[string]struct{}, err error) {
	changed = map[string]struct{}{}
	return changed, compare(r, a, b, func(path string, _ Difference, _, _ []byte) { changed[path] = struct{}{} })
}

// blame says who made a version, and that the value at a path is of it.
func (b *blaming) blame(ctx context.Context, v *log.Version, path string, open map[string]int, earlier bool) error {
	made, met := b.made[v.Seq]
	if !met {
		var err error
		if made, err = b.history.log.Change(ctx, v.Seq); err != nil {
			return err
		}
		b.made[v.Seq] = made
	}
	by, err := b.history.log.Who(ctx, v, &made)
	if err != nil {
		return err
	}
	b.answer.Keys[open[path]] = Blamed{Path: path, File: v.Name, Version: v.N, Revision: int64(v.Revision), Earlier: earlier, By: By(by)}
	delete(open, path)
	return nil
}
