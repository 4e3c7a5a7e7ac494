package confstore

import (
	"cmp"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
)

// Problem is something that a person should look at. It stays until it is solved.
type Problem struct {
	Kind  Kind
	Name  string    // the document, directory or profile section concerned
	Text  string    // one sentence
	Since time.Time // when it was first seen by this process
}

// Kind is the part of the store that reports a problem; each part replaces only its own.
type Kind string

// The kinds of problems.
const (
	OfFile      Kind = "file"      // a document that does not parse or cannot be read
	OfMeta      Kind = "meta"      // what _meta.json says
	OfDirectory Kind = "directory" // what is in the directory but cannot be served
	OfWatch     Kind = "watch"     // events that may be missed
	OfRoot      Kind = "root"      // the directory itself
	OfLog       Kind = "log"       // what cannot be remembered: nothing can be written
)

type problemKey struct {
	kind Kind
	name string
	text string
}

// problems is written by the store's goroutine and read by any.
type problems struct {
	log  zerolog.Logger
	now  func() time.Time
	open map[problemKey]time.Time // store's goroutine only
	list atomic.Pointer[[]Problem]
}

func newProblems(log zerolog.Logger, now func() time.Time) *problems {
	return &problems{log: log, now: now, open: make(map[problemKey]time.Time)}
}

// all is sorted by name; the slice is the caller's.
func (p *problems) all() []Problem {
	if list := p.list.Load(); list != nil {
		return slices.Clone(*list)
	}
	return nil
}

// set makes text the only problem of name from src; "" means that it is solved.
func (p *problems) set(src Kind, name, text string) {
	if text != "" {
		if _, known := p.open[problemKey{src, name, text}]; known {
			return
		}
	}
	since, healed := p.now(), ""
	for key, t := range p.open {
		if key.kind == src && key.name == name {
			delete(p.open, key)
			since, healed = t, key.text
		}
	}
	switch {
	case text != "":
		p.open[problemKey{src, name, text}] = since
		p.log.Warn().Str("name", name).Str("kind", string(src)).Msg(text)
	case healed != "":
		p.log.Info().Str("name", name).Str("kind", string(src)).Str("was", healed).Msg("healed")
	default:
		return
	}
	p.publish()
}

// replace makes found the only problems from src.
func (p *problems) replace(src Kind, found []Problem) {
	next := make(map[problemKey]bool, len(found))
	changed := false
	for _, f := range found {
		key := problemKey{src, f.Name, f.Text}
		next[key] = true
		if _, known := p.open[key]; !known {
			p.open[key] = p.now()
			p.log.Warn().Str("name", f.Name).Str("kind", string(src)).Msg(f.Text)
			changed = true
		}
	}
	for key := range p.open {
		if key.kind == src && !next[key] {
			delete(p.open, key)
			p.log.Info().Str("name", key.name).Str("kind", string(src)).Str("was", key.text).Msg("healed")
			changed = true
		}
	}
	if changed {
		p.publish()
	}
}

// remind logs everything that is still wrong.
func (p *problems) remind() {
	for _, problem := range p.all() {
		p.log.Warn().Str("name", problem.Name).Time("since", problem.Since).Msg("still: " + problem.Text)
	}
}

func (p *problems) publish() {
	list := make([]Problem, 0, len(p.open))
	for key := range maps.Keys(p.open) {
		list = append(list, Problem{Kind: key.kind, Name: key.name, Text: key.text, Since: p.open[key]})
	}
	slices.SortFunc(list, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Text, b.Text))
	})
	p.list.Store(&list)
}
