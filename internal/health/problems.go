package health

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
)

// Problem is something that a person should look at. It stays until it is solved.
type Problem struct {
	Kind  string    // the part of the store that reports it; each part replaces only its own
	Name  string    // what it is about
	Text  string    // one sentence
	Since time.Time // when it was first seen by this process
}

// Problems are those that there are. One goroutine writes them, and any reads them; what begins and what
// ends is logged.
type Problems struct {
	log  zerolog.Logger
	now  func() time.Time
	open map[Problem]time.Time // the writing goroutine's: since when there is each
	list atomic.Pointer[[]Problem]
}

// NewProblems returns a list without any.
func NewProblems(log zerolog.Logger, now func() time.Time) *Problems {
	return &Problems{log: log, now: now, open: make(map[Problem]time.Time)}
}

// All is sorted by name; the slice is the caller's.
func (p *Problems) All() []Problem {
	if list := p.list.Load(); list != nil {
		return slices.Clone(*list)
	}
	return nil
}

// Set makes text the only problem of name of a kind; "" means that it is solved.
func (p *Problems) Set(kind, name, text string) {
	problem := Problem{Kind: kind, Name: name, Text: text}
	if _, known := p.open[problem]; known {
		return
	}
	since, healed := p.now(), ""
	for key, t := range p.open {
		if key.Kind == kind && key.Name == name {
			delete(p.open, key)
			since, healed = t, key.Text
		}
	}
	switch {
	case text != "":
		p.open[problem] = since
		p.log.Warn().Str("name", name).Str("kind", kind).Msg(text)
	case healed != "":
		p.log.Info().Str("name", name).Str("kind", kind).Str("was", healed).Msg("healed")
	default:
		return
	}
	p.publish()
}

// Replace makes found the only problems of a kind.
func (p *Problems) Replace(kind string, found []Problem) {
	next := make(map[Problem]bool, len(found))
	changed := false
	for _, f := range found {
		key := Problem{Kind: kind, Name: f.Name, Text: f.Text}
		next[key] = true
		if _, known := p.open[key]; !known {
			p.open[key] = p.now()
			p.log.Warn().Str("name", f.Name).Str("kind", kind).Msg(f.Text)
			changed = true
		}
	}
	for key := range p.open {
		if key.Kind == kind && !next[key] {
			delete(p.open, key)
			p.log.Info().Str("name", key.Name).Str("kind", kind).Str("was", key.Text).Msg("healed")
			changed = true
		}
	}
	if changed {
		p.publish()
	}
}

// Remind logs everything that is still wrong.
func (p *Problems) Remind() {
	for _, problem := range p.All() {
		p.log.Warn().Str("name", problem.Name).Time("since", problem.Since).Msg("still: " + problem.Text)
	}
}

func (p *Problems) publish() {
	list := make([]Problem, 0, len(p.open))
	for problem, since := range p.open {
		problem.Since = since
		list = append(list, problem)
	}
	slices.SortFunc(list, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Text, b.Text))
	})
	p.list.Store(&list)
}
