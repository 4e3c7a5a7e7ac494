// Package review keeps changes that need another person's approval, until it is given. Roles say
// what needs it, see [policy.Marks].
//
// A change is held whole: a Set or an apply of documents as the configuration store has judged it
// ([Reviews.Hold], which that store calls), a transaction of keys ([Store], through which the edges
// write), or a new token ([Reviews.HoldToken]). It is kept in the namespace [kv.ReviewNamespace],
// with what it was compared with. Once another identity approves, it is made exactly so, with the
// rights that its author has by then, and only if none of that has changed.
//
// Keys and tokens change in the transaction that says that they are approved. Documents, whose
// changes are transactions of their log, are first claimed: who approves, and that no one can
// reject any more, is on disk before the change is asked for, with a token by which it is made only once.
// What a stop has cut short there goes on at the next start.
//
// [Reviews] is a model like those of cluster state. Every question about a number is answered by
// the rights to the things in the change: what the caller may neither read nor approve, and has not
// asked for, is not found.
package review

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"confcenter/access"
	"confcenter/access/policy"
	"confcenter/access/token"
	"confcenter/codes"
	"confcenter/confstore/history"
	"confcenter/internal/clock"
	"confcenter/internal/memory"
	"confcenter/kv/embedded"
	"confcenter/op"
)

// Config says how Reviews work. The zero value of a field is its default.
type Config struct {
	Clock      clock.Clock       // the machine's
	MaxChanges int64             // that wait, 1000
	MaxOf      int64             // of them of one author, 100
	MaxBytes   int64             // of all that wait, 32 MiB
	MaxEach    int64             // bytes of one, 4 MiB
	Keep       time.Duration     // until an unapproved change expires, and until a decision is forgotten, 7 days
	Notes      access.Notes      // of what is held and decided
	Memory     *memory.Pool      // for what is compared to show it, 64 MiB
	Documents  history.Documents // to change; nil: there are none
	Tokens     *token.Tokens     // to judge authors by; nil: there are none
}

func (cfg Config) withDefaults() Config {
	cfg.Clock = cmp.Or(cfg.Clock, clock.Real())
	cfg.MaxChanges = cmp.Or(cfg.MaxChanges, 1000)
	cfg.MaxOf = cmp.Or(cfg.MaxOf, 100)
	cfg.MaxBytes = cmp.Or(cfg.MaxBytes, 32<<20)
	cfg.MaxEach = cmp.Or(cfg.MaxEach, 4<<20)
	cfg.Keep = cmp.Or(cfg.Keep, 7*24*time.Hour)
	cfg.Memory = cfg.Memory.Or(64 << 20)
	return cfg
}

// Rules are what access control allows, and marks.
type Rules interface {
	MayOf(id *access.Identity) op.May
	Marks() *policy.Marks
	// Vouches reports whether what someone was proved by is good still, if it was a certificate.
	Vouches(id *access.Identity) bool
}

// Reviews are the changes of one server that wait for approval. The methods may be called from any
// goroutine; those that hold or decide something wait for a disk.
type Reviews struct {
	// set at open
	shelf
	waiting

	rules atomic.Pointer[Rules]

	deciding sync.Mutex // held while a change is approved, rejected or withdrawn here; others may do it elsewhere
}

// Open returns the reviews on a store, which must outlive them.
func Open(store embedded.Store, cfg Config) *Reviews {
	cfg = cfg.withDefaults()
	return &Reviews{shelf: shelf{store, cfg.Clock}, waiting: waiting{cfg: cfg, under: map[int64]weight{}}}
}

// Obey has changes held as rules mark them. Without rules there is no access control: nothing is
// held, and nothing can be reviewed.
func (r *Reviews) Obey(rules Rules) { r.rules.Store(&rules) }

// marks are what is marked now.
func (r *Reviews) marks() *policy.Marks {
	if rules := r.rules.Load(); rules != nil {
		return (*rules).Marks()
	}
	return nil
}

// caller is who looks at changes, or decides about them.
type caller struct {
	op.May
	name string
}

// caller is by with what the rules allow it. codes.NotImplemented, codes.NotIdentified.
func (r *Reviews) caller(by *access.Actor) (c caller, err error) {
	rules := r.rules.Load()
	switch {
	case rules == nil:
		return c, codes.Errorf(codes.NotImplemented, "this server has no access control, so nothing needs approval; start it with --access-control")
	case by == nil || by.Identity == nil:
		return c, codes.Errorf(codes.NotIdentified, "to review changes you have to say who you are; give a token")
	}
	return caller{(*rules).MayOf(by.Identity), by.Identity.Name}, nil
}

// asks reports whether by is an actor whose changes can need approval, and have none yet.
func asks(by *access.Actor) bool { return by != nil && by.Identity != nil && by.Approver == "" }

// Marked implements confstore.Approval.
func (r *Reviews) Marked(name string) bool {
	marks := r.marks()
	if marks == nil {
		return false
	}
	class, name := classOf(name)
	return marks.Has(class, []byte(name))
}

// Used implements state.User.
func (r *Reviews) Used(context.Context) ([]op.Used, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l, err := r.loadLocked("")
	return []op.Used{{What: "changes", N: l.changes, Limit: r.cfg.MaxChanges}, {What: "bytes", N: l.bytes, Limit: r.cfg.MaxBytes}}, err
}
