package flow

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	"confcenter/codes"
	"confcenter/internal/clock"
	"confcenter/kv"
	"confcenter/kv/embedded"
)

// Limits of one question, and of what is kept.
const (
	MaxFields   = 64        // fields of a member that are given
	MaxOwn      = 1000      // fields of a member altogether
	MaxParts    = 5000      // members in one question
	MaxBatch    = 1000      // keys in one question
	MaxLines    = 10_000    // members in one answer
	MaxReplicas = 1000      // replicas made at once
	MaxWho      = 256       // bytes of who makes a change, and of what is said of it
	maxAnswer   = 512 << 10 // bytes of values in one answer, which JSON may write longer
	maxQueues   = 256       // places from which tasks are claimed that are remembered
	maxWaiting  = 4096      // tasks remembered of each
	maxQueued   = 65_536    // tasks that were found, after which a new place makes all be forgotten
	maxScopes   = 4096      // scopes that are known to be there
)

// DefaultScope is the scope of a question that names none.
const DefaultScope = "cl"

// Config sets up a Flow. The zero value works.
type Config struct {
	Clock clock.Clock // nil: the machine's
	// Lines is how many lines the operation log of a member has; the oldest go. 0: 1000,
	// and at most 8000.
	Lines int64
	// Stage is how long what is staged lasts when no client goes on with it; 0: 30 s.
	Stage time.Duration
	// Failed is told, from several goroutines, why Run could not finish something; it is tried
	// again. Nil: no one is told.
	Failed func(what string, err error)
}

// Flow is the layout on a store. Its operations may be called from any goroutine.
//
// wide: every operation is a method.
type Flow struct {
	// set at open
	store   embedded.Store
	cfg     Config
	mostOps int // of one transaction that is a piece of something larger

	mu     sync.Mutex
	scopes map[string]struct{} // whose lists are known to have their ctime; guarded by mu
	under  map[string]int      // how many here carry out a duty; guarded by mu
	queues map[string]*queue   // guarded by mu
	queued int                 // how many tasks were put into queues since all were forgotten; guarded by mu
}

// Open returns the layout on a store, which must outlive it. On each store at least one has to
// run, see [Flow.Run].
func Open(store embedded.Store, cfg Config) *Flow {
	cfg.Lines = min(cmp.Or(cfg.Lines, 1000), kv.MaxDeletePrefix-2*MaxOwn) // a removal takes all at once
	cfg.Stage = cmp.Or(cfg.Stage, 30*time.Second)
	cfg.Clock = cmp.Or(cfg.Clock, clock.Real())
	return &Flow{store: store, cfg: cfg, mostOps: mostOps, scopes: map[string]struct{}{}, under: map[string]int{}, queues: map[string]*queue{}}
}

// Namespace is that of a scope.
func Namespace(scope string) (string, error) {
	scope = cmp.Or(scope, DefaultScope)
	return kv.FlowPrefix + scope, checkScope(scope)
}

// index is the namespace of what concerns all scopes. Its keys are WHAT.SCOPE, and
// WHAT.SCOPE.KIND.MEMBER, where WHAT is the name of a duty, or liveKey.
const index = kv.FlowPrefix + ".index"

// liveKey is there as long as the lease of a worker, a scheduler or a stage lasts. Its value is
// the lease.
const liveKey = "live"

func indexKey(what, ns string, m Member) string {
	return what + "." + strings.TrimPrefix(ns, kv.FlowPrefix) + "." + m.String()
}

// fields reads the fields of a member as of one moment, but not its log and its lists.
func (f *Flow) fields(ns string, m Member, visit func(name string, e *kv.Entry) error) error {
	view := f.store.View()
	defer view.Close()
	l := kv.List{NS: ns, Prefix: m.field(""), Limit: 200, MaxBytes: maxAnswer}
	for {
		page, err := view.List(l)
		if err != nil {
			return err
		}
		for _, e := range page.Entries {
			name, below, _ := strings.Cut(e.Key[len(l.Prefix):], ".")
			if l.After = e.Key; below != "" {
				l.After = m.field(name + ".\U0010FFFF") // behind all that begins with NAME.
			} else if err := visit(name, e); err != nil {
				return err
			}
		}
		if !page.More {
			return nil
		}
	}
}

// record is what operations need to know of a member.
type record struct {
	Member
	above  []Member // the members above it, the nearest first
	listed string   // the list that it is in
	worker string   // who has claimed it, of what can be claimed
	status Status
	list   *kv.Entry // of the list
	atime  *kv.Entry // every change of the member writes it
}

// listKey is the member's key in its list.
func (r *record) listKey() string { return r.listed + "." + r.Member.String() }

// newRecord is what is known of a member from those above it.
func newRecord(m Member, above []Member) record {
	r := record{Member: m, above: above, listed: kinds[m.Kind].list}
	if len(above) > 0 {
		r.listed = above[0].list(m.Kind)
	}
	return r
}

// app is the application that a member is below; zero: none.
func (r *record) app() (m Member) {
	if n := len(r.above); n > 0 {
		m = r.above[n-1]
	}
	return m
}

// aboveKeys are the keys in their lists of the members above: as long as one of them is missing,
// no one sees what is below it.
func (r *record) aboveKeys() []string {
	keys := make([]string, len(r.above))
	for i, m := range r.above {
		above := newRecord(m, r.above[i+1:])
		keys[i] = above.listKey()
	}
	return keys
}

// load reads a member's record. It is not found if it, or something above it, is in no list:
// then it is staged, or about to go.
func (f *Flow) load(ns string, m Member) (*record, error) { return loadBy(f.store.GetMany, ns, m) }

// getMany reads keys of a namespace at one revision.
type getMany func(ns string, keys ...string) []*kv.Entry

func loadBy(get getMany, ns string, m Member) (*record, error) {
	var above []Member
	if kinds[m.Kind].list == "" {
		got := get(ns, m.field("parent"), m.field("sesuid"), m.field("appuid"))
		parent, err := ParseMember(text(got[0]))
		if err != nil || got[2] == nil {
			return nil, errNoMember(m)
		}
		above = []Member{parent}
		if got[1] != nil {
			above = append(above, Member{Session, text(got[1])})
		}
		if app := (Member{App, text(got[2])}); app != parent {
			above = append(above, app)
		}
	}
	r := newRecord(m, above)
	return &r, r.refresh(get, ns)
}

// refresh reads what of a record changes.
func (r *record) refresh(get getMany, ns string) error {
	keys := []string{r.listKey(), r.field("atime"), r.field("worker")}
	if r.Kind == App || r.Kind == FlowKind {
		keys[2] = r.field("claim")
	}
	got := get(ns, append(keys, r.aboveKeys()...)...)
	r.list, r.atime, r.worker = got[0], got[1], text(got[2])
	if r.list == nil || slices.Contains(got[3:], nil) {
		return errNoMember(r.Member)
	}
	r.status = Status(text(r.list))
	return nil
}

func errNoMember(m Member) error {
	return codes.Errorf(codes.NotFound, "there is no %s: it was never registered, is not published yet, or has been removed", m)
}
