package history

import (
	"context"
	"slices"
	"strings"

	"confcenter/access"
	"confcenter/access/policy"
	"confcenter/codes"
	"confcenter/confstore/log"
	"confcenter/internal/memory"
	"confcenter/internal/roster"
	"confcenter/meta"
	"confcenter/op"
)

// UsesAsk asks who uses a document.
type UsesAsk struct {
	Name string `json:"name" doc:"of the document" arg:"1"`
}

// UsesAnswer is who does.
type UsesAnswer struct {
	Name     string `json:"name" doc:"of the document, with .json"`
	Mtime    int64  `json:"mtime,omitempty" doc:"the version that is served now, in s since 1970; absent: there is none"`
	Revision int64  `json:"revision,omitempty" doc:"that made this version; absent: there is none"`
	Programs int64  `json:"programs" doc:"how many that are connected use it, or a document that inherits from it"`
	Uses     []Use  `json:"uses" doc:"a line for each document that one uses, at most 1000"`
}

// Use is a document that a program uses.
type Use struct {
	ID      int64  `json:"id" doc:"of its connection"`
	Name    string `json:"name,omitempty" doc:"what it calls itself"`
	Tag     string `json:"tag,omitempty" doc:"its tag"`
	Address string `json:"address" doc:"of its end of the connection"`
	File    string `json:"file" doc:"what it uses: the document itself, or one that inherits from it"`
	Path    string `json:"path,omitempty" doc:"the key path of the part that it follows; absent: all of it"`
	Told    int64  `json:"told,omitempty" doc:"the version of file that it was last told, in s since 1970; absent: none"`
	Main    bool   `json:"main,omitempty" doc:"it is its main configuration"`
	// Revision is what people know a version by, and Told is what programs compare.
	Revision int64 `json:"revision,omitempty" doc:"that made the version it was told, the newest of file and its bases; absent: it was told none, or one that is long past"`
}

// mostUses is how many of them an answer has.
const mostUses = 1000

// Uses tells which programs use a document, and of which version they were told.
func (h *History) Uses(ctx context.Context, _ *access.Actor, q *UsesAsk) (*UsesAnswer, error) {
	r, may := h.room(), op.MayOf(ctx)
	defer r.give()
	answer := &UsesAnswer{Name: meta.Complete(q.Name)}
	if err := may.Needs(op.Document(policy.Read, answer.Name)); err != nil {
		return nil, err
	}
	if h.cfg.Clients == nil {
		return nil, codes.Errorf(codes.NotImplemented, "it is not known who is connected")
	}
	l, err := h.inherited(ctx, r, answer.Name, h.log.Revision())
	if err != nil {
		return nil, err
	}
	if l.own.N == 0 && !l.listed {
		return nil, h.cfg.neverBeen(answer.Name)
	}
	answer.Mtime, answer.Revision = int64(l.own.Served), int64(l.own.Revision)
	files := map[string]bool{answer.Name: true}
	past := &served{log: h.log, bases: map[string][]string{}}
	if there(&l.rules) {
		rules, _, err := meta.Parse(l.rules.File)
		if err != nil {
			return nil, err
		}
		for _, heir := range rules.Names() {
			if bases, _ := rules.Bases(heir); slices.Contains(bases, answer.Name) && may.Names(heir) {
				files[heir], past.bases[heir] = true, bases
			}
		}
		past.bases[answer.Name], _ = rules.Bases(answer.Name)
	}
	if err := r.take(mostUses * memory.VersionCost); err != nil {
		return nil, err
	}
	for c := range h.cfg.Clients.all() {
		if may.Sees(op.Client(policy.Read, c.Name)) {
			answer.add(c, files)
		}
	}
	return answer, past.date(ctx, answer.Uses)
}

// add adds what a program uses of the files.
func (answer *UsesAnswer) add(c *roster.Client, files map[string]bool) {
	use := Use{ID: int64(c.ID), Name: c.Name, Tag: c.Tag, Address: c.Address}
	uses, main := 0, files[c.Main]
	put := func(file, path string, told int32) {
		if uses++; len(answer.Uses) < mostUses {
			use.File, use.Path, use.Told, use.Main = file, path, int64(told), file == c.Main
			answer.Uses = append(answer.Uses, use)
		}
	}
	for _, s := range c.Subscriptions {
		if files[s.File] {
			put(s.File, strings.TrimSuffix(s.Path, "/"), s.Told)
			main = main && s.File != c.Main
		}
	}
	if main {
		put(c.Main, "", 0)
	}
	if uses > 0 {
		answer.Programs++
	}
}

// lookedBack is how many versions of a document are looked at to find the one that a program was told.
const lookedBack = 20

// served finds the revisions of versions by what programs know of them.
type served struct {
	log   *log.Log
	bases map[string][]string      // of a document that inherits
	known map[string][]log.Version // of a document, the newest first, of which the last have been asked for
}

// date has each use say which revision made the version that the program was told.
func (s *served) date(ctx context.Context, uses []Use) error {
	s.known = map[string][]log.Version{}
	for i := range uses {
		u := &uses[i]
		if u.Told == 0 {
			continue
		}
		// The version of a document that inherits is the greatest of it and its bases: one of a base
		// that is not above it is in it, or it is older and changes nothing.
		for _, name := range append([]string{u.File}, s.bases[u.File]...) {
			rev, err := s.revision(ctx, name, u.Told)
			if err != nil {
				return err
			}
			u.Revision = max(u.Revision, rev)
		}
	}
	return nil
}

// revision is that of the newest version of a document that is not above told; 0: it is not among the
// newest ones.
func (s *served) revision(ctx context.Context, name string, told int64) (int64, error) {
	list, asked := s.known[name]
	if !asked {
		var err error
		if list, err = s.log.Versions(ctx, name, 0, lookedBack); err != nil {
			return 0, err
		}
		for i := range list {
			list[i].File = nil
		}
		s.known[name] = list
	}
	for i := range list {
		if int64(list[i].Served) <= told {
			return int64(list[i].Revision), nil
		}
	}
	return 0, nil
}
