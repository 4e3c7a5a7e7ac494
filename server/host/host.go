// Package host opens the models of a cluster's state that a server has, on its own store, and
// runs what they do by themselves.
//
// Several hosts may be open on one state. What a model judges something by is a condition of what it then
// writes, what it remembers of the state it follows, and what one does by itself does no harm if others do it, too.
package host

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"confcenter/access/audit"
	"confcenter/access/review"
	"confcenter/access/secret"
	"confcenter/access/token"
	"confcenter/confstore/history"
	"confcenter/internal/clock"
	"confcenter/internal/memory"
	"confcenter/kv"
	"confcenter/kv/embedded"
	"confcenter/models/bench"
	"confcenter/models/flow"
	"confcenter/op"
)

// Config is what the models are given.
type Config struct {
	Pool    *memory.Pool // of the changes that they follow; nil: one of their own
	Clock   clock.Clock  // nil: the machine's
	Log     zerolog.Logger
	Flow    flow.Config    // its clock is that above, and what cannot be finished goes to the log above
	Bench   bench.Config   // its clock is that above
	History history.Config // likewise
	Auth    token.Config   // likewise
	Secret  secret.Config  // likewise, and its log
	Review  review.Config  // likewise; its tokens are those of the host
	Audit   audit.Config   // likewise, and its log
}

// Host has the models. Close it before their store.
type Host struct {
	// set at open
	store  *embedded.InProcess
	models []op.Model
	tokens *token.Tokens
	secret *secret.Keys
	review *review.Reviews
	audit  *audit.Audit
	cfg    Config
	cancel context.CancelFunc

	running sync.WaitGroup
}

// Open opens the models on store and begins to run them.
func Open(store kv.Archive, cfg Config) *Host {
	cfg.Clock = cmp.Or(cfg.Clock, clock.Real())
	h := &Host{store: embedded.New(store, cfg.Pool), cfg: cfg}
	ctx, cancel := context.WithCancel(context.Background())
	h.cancel = cancel
	cfg.Flow.Clock, cfg.Bench.Clock, cfg.History.Clock, cfg.Auth.Clock = cfg.Clock, cfg.Clock, cfg.Clock, cfg.Clock
	cfg.Flow.Failed = func(what string, err error) {
		cfg.Log.Warn().Err(err).Str("duty", what).Msg("a duty of flow could not be finished; it is tried again")
	}
	cfg.Secret.Clock, cfg.Secret.Log, cfg.Secret.Namespaces = cfg.Clock, cfg.Log, store.Namespaces
	h.secret = secret.Open(h.store, cfg.Secret)
	h.tokens = token.Open(h.store, cfg.Auth)
	cfg.Audit.Clock, cfg.Audit.Log = cfg.Clock, cfg.Log
	h.audit = audit.Open(store, cfg.Audit)
	f, b := flow.Open(h.store, cfg.Flow), bench.Open(h.store, cfg.Bench)
	cfg.Review.Clock, cfg.Review.Tokens = cfg.Clock, h.tokens
	if h.audit.On() {
		cfg.Review.Notes = h.audit.Note
	}
	h.review = review.Open(h.store, cfg.Review)
	h.models = []op.Model{
		{Name: "flow", Operations: flow.Operations, Asked: f, Count: &op.Count{}},
		{Name: "bench", Operations: bench.Operations, Asked: b, Count: &op.Count{}},
		{Name: "history", Operations: history.Operations, Asked: history.Open(store, cfg.History), Count: &op.Count{}},
		{Name: "auth", Operations: token.Operations, Asked: h.tokens, Count: &op.Count{}},
		{Name: "secret", Operations: secret.Operations, Asked: h.secret, Count: &op.Count{}},
		{Name: "review", Operations: review.Operations, Asked: h.review, Count: &op.Count{}},
		{Name: "audit", Operations: audit.Operations, Asked: h.audit, Count: &op.Count{}},
	}
	h.running.Go(func() { h.run(ctx, "flow", f.Run) })
	h.running.Go(func() { h.run(ctx, "bench", b.Run) })
	h.running.Go(func() { h.run(ctx, "auth", h.tokens.Run) })
	h.running.Go(func() { h.run(ctx, "secret", h.secret.Run) })
	h.running.Go(func() { h.run(ctx, "review", h.review.Run) })
	h.running.Go(func() { h.run(ctx, "audit", h.audit.Run) })
	return h
}

// again is how long a model that has failed is left alone.
const again = time.Second

// run runs a model until the Host ends. A store that takes no writes, for example, ends it early.
func (h *Host) run(ctx context.Context, name string, model func(context.Context) error) {
	for {
		err := model(ctx)
		if ctx.Err() != nil {
			return
		}
		h.cfg.Log.Warn().Err(err).Str("model", name).Msg("what a model does by itself was cut short; it is tried again")
		clock.Within(h.cfg.Clock, again, ctx.Done())
	}
}

// Models are what can be asked.
func (h *Host) Models() []op.Model { return h.models }

// Tokens are the tokens of the server.
func (h *Host) Tokens() *token.Tokens { return h.tokens }

// Secret are the data keys of the server.
func (h *Host) Secret() *secret.Keys { return h.secret }

// Reviews are the changes that wait for approval.
func (h *Host) Reviews() *review.Reviews { return h.review }

// Audit is the audit of the server.
func (h *Host) Audit() *audit.Audit { return h.audit }

// Store is where the models keep what they know.
func (h *Host) Store() embedded.Store { return h.store }

// Close ends what the models do by themselves and waits for it. They must not be asked any more.
func (h *Host) Close() {
	h.cancel()
	h.running.Wait()
	h.store.Close()
}
