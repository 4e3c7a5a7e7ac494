package history

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"confcenter/codes"
	"confcenter/internal/clock"
	"confcenter/internal/memory"
	"confcenter/op"
)

// The limits of changes that are being staged, besides Config.Staged.
const (
	maxStages = 64
	// shareOfOne is which part of the stages, and of their pool, an identity may have that is no
	// administrator.
	shareOfOne = 4
	stageKept  = 5 * time.Minute // after its last part
)

// stages are changes that come in parts, by their tokens.
type stages struct {
	// set at open
	clock clock.Clock
	pool  *memory.Pool

	mu   sync.Mutex
	list map[stageName]*staged // guarded by mu
}

// stageName is a token, and who was proved to use it: no client gets at what others stage.
type stageName struct{ token, who string }

// staged is a change that comes in parts.
type staged struct {
	limited string // who may have no more than a share; empty: the client may have all
	wanted  []Wanted
	at      map[string]int // where in wanted a name is
	bytes   int64          // what is taken of the pool
	expires time.Time
}

// add adds parts. One that is there already does no harm.
func (s *stages) add(of stageName, administrator bool, parts []Wanted) (*StageAnswer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expireLocked()
	one := s.list[of]
	if one == nil {
		if len(s.list) == maxStages {
			return nil, codes.Errorf(codes.Busy, "%d changes are being staged already; try again later", maxStages)
		}
		one = &staged{at: map[string]int{}}
		if !administrator {
			one.limited = of.who
		}
		if n, _ := s.ofLocked(one.limited); n >= maxStages/shareOfOne {
			return nil, codes.Errorf(codes.Limit, "%s is staging %d changes already, and everyone may stage so many; apply one, or try again later", of.who, n)
		}
		s.list[of] = one
	}
	one.expires = s.clock.Now().Add(stageKept)
	for i := range parts {
		if err := s.addLocked(one, &parts[i]); err != nil {
			return nil, err
		}
	}
	return &StageAnswer{Documents: int64(len(one.wanted)), Bytes: one.bytes, Expires: one.expires.UnixMilli()}, nil
}

func (s *stages) addLocked(one *staged, w *Wanted) error {
	at, known := one.at[w.Name]
	if !known {
		if w.Offset > 0 {
			return w.wrongPiece(0)
		}
		if err := s.roomLocked(one, len(w.Text)+len(w.Name)+perWanted); err != nil {
			return err
		}
		one.at[w.Name] = len(one.wanted)
		own := *w
		own.Name, own.Text = strings.Clone(w.Name), strings.Clone(w.Text)
		one.wanted = append(one.wanted, own)
		return nil
	}
	have := &one.wanted[at]
	if w.Offset > int64(len(have.Text)) {
		return w.wrongPiece(len(have.Text))
	}
	switch end := int(w.Offset) + len(w.Text); {
	case w.Delete != have.Delete || w.Keep != have.Keep || w.Base != have.Base:
		return codes.Errorf(codes.BadRequest, "%s is staged already, and to be something else", w.Name)
	case end <= len(have.Text) && have.Text[w.Offset:end] == w.Text:
		return nil // it was sent again
	case int(w.Offset) != len(have.Text):
		return w.wrongPiece(len(have.Text))
	}
	if err := s.roomLocked(one, len(w.Text)); err != nil {
		return err
	}
	have.Text += w.Text
	return nil
}

// ofLocked is how many stages who has, and how many bytes; none if who is empty.
func (s *stages) ofLocked(who string) (n int, bytes int64) {
	for _, one := range s.list {
		if who != "" && one.limited == who {
			n++
			bytes += one.bytes
		}
	}
	return n, bytes
}

func (s *stages) roomLocked(one *staged, bytes int) error {
	if _, have := s.ofLocked(one.limited); one.limited != "" && have+int64(bytes) > s.pool.Limit()/shareOfOne {
		return codes.Errorf(codes.Limit, "what is staged has %d bytes with this, and all changes that %s is staging may have %d; make the change in several, try again later, or raise the server's --memory", one.bytes+int64(bytes), one.limited, s.pool.Limit()/shareOfOne)
	}
	if !s.pool.Take(int64(bytes)) {
		return codes.Errorf(codes.Limit, "what is staged has %d bytes with this, and all changes that are being staged may have %d; make the change in several, try again later, or raise the server's --memory", one.bytes+int64(bytes), s.pool.Limit())
	}
	one.bytes += int64(bytes)
	return nil
}

// take returns a change that has all its documents. It stays for a while, in case it is asked for
// again.
func (s *stages) take(of stageName, documents int64) ([]Wanted, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expireLocked()
	one := s.list[of]
	switch {
	case one == nil:
		return nil, codes.Errorf(codes.NotFound, "nothing is staged with the token %q: the server has been restarted, or more than %s have passed; stage it again", of.token, stageKept)
	case int64(len(one.wanted)) != documents:
		return nil, codes.Errorf(codes.BadRequest, "with the token %q %d documents are staged and not %d; stage what is missing, and nothing else", of.token, len(one.wanted), documents)
	}
	return slices.Clone(one.wanted), nil
}

// drop forgets a change.
func (s *stages) drop(of stageName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropLocked(of)
}

func (s *stages) dropLocked(of stageName) {
	if one := s.list[of]; one != nil {
		s.pool.Give(one.bytes)
		delete(s.list, of)
	}
}

func (s *stages) expireLocked() {
	now := s.clock.Now()
	for of, one := range s.list {
		if one.expires.Before(now) {
			s.dropLocked(of)
		}
	}
}

// Used implements state.User.
func (h *History) Used(context.Context) ([]op.Used, error) {
	h.stages.mu.Lock()
	defer h.stages.mu.Unlock()
	h.stages.expireLocked()
	return []op.Used{
		{What: "staged_changes", N: int64(len(h.stages.list)), Limit: maxStages},
		{What: "staged_bytes", N: h.stages.pool.Held(), Limit: h.stages.pool.Limit()},
	}, nil
}
