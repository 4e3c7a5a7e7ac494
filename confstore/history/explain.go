package history

import (
	"context"
	"encoding/json" // for the type of a value that is JSON already
	"strings"

	"confcenter/access"
	"confcenter/internal/jsonpath"
	"confcenter/internal/jsontext"
)

// ExplainAsk asks where a value comes from.
type ExplainAsk struct {
	Name string `json:"name" doc:"of the document; NAME@REV is short for it and rev" arg:"1"`
	Path string `json:"path,omitempty" doc:"the key path of the value; empty: the whole document" arg:"2"`
	Rev  string `json:"rev,omitempty" doc:"at which revision: its number, ~N or a time; empty: the newest"`
}

// ExplainAnswer is where a value comes from.
type ExplainAnswer struct {
	Name   string          `json:"name" doc:"of the document, with .json"`
	At     int64           `json:"at" doc:"the revision"`
	Path   string          `json:"path" doc:"the key path, as answers write it"`
	Merge  string          `json:"merge" doc:"how the files are merged: shallow or deep, or none if the document inherits nothing"`
	Rules  int64           `json:"rules,omitempty" doc:"the revision of _meta.json that says so"`
	Files  []Say           `json:"files" doc:"every file that has a say, weakest first"`
	Winner string          `json:"winner,omitempty" doc:"the file that the value comes from; absent if there is no value, or none of them is merged, which leaves {}"`
	Value  json.RawMessage `json:"value,omitempty" doc:"the value that programs got, unless it is longer than 4 KiB"`
	Length int64           `json:"length,omitempty" doc:"of one that is longer, in bytes"`
}

// Say is what a file has to say about a value.
type Say struct {
	Name     string          `json:"name" doc:"of the file"`
	Role     Role            `json:"role" doc:"wins, merged, overridden, hides, lacks, ignored, deleted or missing"`
	Why      string          `json:"why" doc:"why, in words"`
	Value    json.RawMessage `json:"value,omitempty" doc:"what it has at the path, unless that is longer than 4 KiB"`
	Length   int64           `json:"length,omitempty" doc:"of one that is longer, in bytes"`
	Revision int64           `json:"revision,omitempty" doc:"that made the file what it was"`
}

// Role is the part that a file plays for a value.
type Role string

// The roles.
const (
	Wins       Role = "wins"       // the value is its
	Merged     Role = "merged"     // the value is an object, which has members of it
	Overridden Role = "overridden" // a stronger file has the value
	Hides      Role = "hides"      // it has not the value, but replaces an object that had it
	Lacks      Role = "lacks"      // it has not the value
	Ignored    Role = "ignored"    // it is no object and takes no part in merging
	Gone       Role = "deleted"
	Missing    Role = "missing"
)

// Explain tells where a value comes from.
func (h *History) Explain(ctx context.Context, _ *access.Actor, q *ExplainAsk) (*ExplainAnswer, error) {
	r := h.room()
	defer r.give()
	name, moment := split(q.Name, q.Rev)
	v, err := h.view(ctx, r, name, moment, true)
	if err == nil {
		err = v.gone()
	}
	if err != nil {
		return nil, err
	}
	keys := jsonpath.Split(q.Path)
	answer := &ExplainAnswer{Name: v.own.Name, At: int64(v.at), Path: jsonpath.Join(keys), Merge: "none", Rules: int64(v.rules.Revision)}
	switch {
	case len(v.bases) == 0:
		answer.Rules = 0
	case v.deep:
		answer.Merge = "deep"
	default:
		answer.Merge = "shallow"
	}
	e := explain(&v.layers, keys)
	if e.winner >= 0 {
		answer.Winner = e.files[e.winner].Name
	}
	answer.Value, answer.Length = shortValue(jsonpath.At(v.text, keys))
	answer.Files = e.files
	return answer, h.cfg.neverGood(r, answer.Files)
}

// neverGood says of files that are there and were never good that they are not missing.
func (c *Config) neverGood(r *room, files []Say) error {
	for i := range files {
		if files[i].Role != Missing {
			continue
		}
		broken, err := c.broken(r, files[i].Name)
		if err != nil {
			return err
		}
		if broken != nil && broken.Never {
			files[i].Why = broken.Error()
		}
	}
	return nil
}

// explanation is what is known of the value at a path.
type explanation struct {
	keys   []string
	deep   bool
	files  []Say
	winner int                 // which of them; -1: there is no such value
	over   map[int]replacement // by file that replaced something
	left   []contender         // whose values are merged, weakest first
}

// replacement is that a file replaced what weaker ones have at a shorter path.
type replacement struct {
	path   string
	hidden bool // one of them has the value
}

// contender is a file whose value is still in question.
type contender struct {
	file  int
	value []byte
}

// explain follows a path through the files, as jsonpath.Merge merges them.
func explain(l *layers, keys []string) *explanation {
	e := &explanation{keys: keys, deep: l.deep, winner: -1, over: map[int]replacement{}}
	for _, v := range append(l.bases[:len(l.bases):len(l.bases)], l.own) {
		say := Say{Name: v.Name, Role: Lacks, Why: "has no " + shown(keys), Revision: int64(v.Revision)}
		text := compact(v.File)
		switch {
		case v.N == 0:
			say.Role, say.Why = Missing, "there is no such file"
		case v.Deleted:
			say.Role, say.Why = Gone, "was deleted"
		case len(l.bases) > 0 && jsontext.KindOf(text) != jsontext.Object:
			say.Role, say.Why = Ignored, "is not an object, so that nothing of it is merged"
		default:
			say.Value, say.Length = shortValue(jsonpath.At(text, keys))
			e.left = append(e.left, contender{len(e.files), text})
		}
		e.files = append(e.files, say)
	}
	for depth := range keys {
		e.left = e.descend(e.left, depth)
	}
	e.judge()
	return e
}

// shown is a path in a sentence.
func shown(keys []string) string { return "/" + strings.TrimPrefix(jsonpath.Join(keys), "/") }

// descend goes on to the next key. Of the files that have it a stronger one replaces those before,
// unless all are objects, which are merged.
func (e *explanation) descend(left []contender, depth int) (next []contender) {
	for _, c := range left {
		value := jsonpath.Child(c.value, e.keys[depth])
		if value == nil {
			if r := e.over[c.file]; r.hidden {
				e.files[c.file].Role, e.files[c.file].Why = Hides, "replaces "+r.path+" as a whole, and has no "+shown(e.keys)
			}
			continue
		}
		merged := e.deep && jsontext.KindOf(value) == jsontext.Object
		if len(next) > 0 && !(merged && jsontext.KindOf(next[0].value) == jsontext.Object) {
			e.override(next, c.file, shown(e.keys[:depth+1]))
			next = nil
		}
		next = append(next, contender{c.file, value})
	}
	return next
}

func (e *explanation) override(weaker []contender, by int, path string) {
	r := replacement{path: path}
	for _, w := range weaker {
		say := &e.files[w.file]
		r.hidden = r.hidden || e.over[w.file].hidden
		if say.Value == nil && say.Length == 0 {
			continue
		}
		r.hidden = true
		say.Role, say.Why = Overridden, e.files[by].Name+" is stronger and has it, too"
		if path != shown(e.keys) {
			say.Why = e.files[by].Name + " is stronger and replaces " + path + " as a whole"
		}
	}
	if path != shown(e.keys) {
		e.over[by] = r
	}
}

// judge says of the files that are left what they are to the value.
func (e *explanation) judge() {
	for i, c := range e.left {
		say := &e.files[c.file]
		switch {
		case i < len(e.left)-1:
			say.Role, say.Why = Merged, "its members are merged with those of stronger files"
		case len(e.left) > 1:
			say.Role, say.Why = Wins, "is the strongest of the files whose members are merged"
		case len(e.files) == 1:
			say.Role, say.Why = Wins, "inherits nothing"
		default:
			say.Role, say.Why = Wins, "is the strongest of the files that have it"
		}
		e.winner = c.file
	}
}
