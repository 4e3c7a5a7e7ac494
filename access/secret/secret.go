package secret

import (
	"cmp"
	"context"
	"encoding/json" // of our own structs, which no one else writes
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"confcenter/access"
	"confcenter/codes"
	"confcenter/internal/clock"
	"confcenter/kv"
	"confcenter/kv/embedded"
)

// MaxKeys is how many data keys there may be. They are kept as long as a backup or a history may
// have a value that one of them seals.
const MaxKeys = 1000

// Config says how Keys work. The zero value of a field is its default.
type Config struct {
	Clock clock.Clock // the machine's
	// Source is where the secret key comes from; nil: there is none, and nothing can be sealed.
	Source Source
	// Every is how often it is asked whether there is another; 0: only when a rotation is asked
	// for.
	Every time.Duration
	Log   zerolog.Logger
	// Namespaces lists the namespaces of the store, as [kv.Store] does; nil: there are none.
	Namespaces func(after string, limit int) (list []kv.Namespace, more bool)
}

// Keys are the data keys of one server. Their methods may be called from any goroutine.
type Keys struct {
	// set at open
	store embedded.Store
	cfg   Config

	ring    atomic.Pointer[Ring]  // nil: no data key could be opened
	trouble atomic.Pointer[error] // nil: none

	documents atomic.Pointer[Documents] // nil: not open yet
	guarded   atomic.Bool               // there is access control

	turn  sync.Mutex // held while keys are taken or made here; other servers on the same state make some, too
	taken *Wrapping  // guarded by turn: what the ring was opened with
	had   []record   // guarded by turn: and what it was made of
}

// Open takes the data keys in a store, which must outlive Keys, and makes the first one. It does
// not fail: what is in the way is told by [Keys.Trouble], and tried again.
func Open(store embedded.Store, cfg Config) *Keys {
	cfg.Clock = cmp.Or(cfg.Clock, clock.Real())
	if cfg.Namespaces == nil {
		cfg.Namespaces = func(string, int) ([]kv.Namespace, bool) { return nil, false }
	}
	k := &Keys{store: store, cfg: cfg}
	k.turn.Lock()
	defer k.turn.Unlock()
	_ = k.look(context.Background()) // it is told
	return k
}

// Guard says that there is access control.
func (k *Keys) Guard() { k.guarded.Store(true) }

// Ring are the data keys that could be opened, to seal and reveal with; nil: none. It may change
// between two calls, and what one has sealed the next one opens.
func (k *Keys) Ring() *Ring { return k.ring.Load() }

// Trouble is why values cannot be sealed, or not all of them be revealed, or a new secret key not
// be taken; nil: none.
func (k *Keys) Trouble() error {
	if err := k.trouble.Load(); err != nil {
		return *err
	}
	return nil
}

// again is how long trouble is left alone.
const again = 10 * time.Second

// Run looks for other secret keys, tries again what was in the way, and takes the data keys that other servers
// make or wrap again, until the context ends.
func (k *Keys) Run(ctx context.Context) error {
	if k.cfg.Source == nil {
		<-ctx.Done()
		return ctx.Err()
	}
	w, err := k.store.Watch(ctx, kv.Filter{NS: kv.AccessNamespace, Text: keyPrefix}, 0)
	if err != nil {
		return err
	}
	defer w.Stop()
	ctx, end := context.WithCancelCause(ctx)
	var both sync.WaitGroup
	both.Go(func() { end(k.lookAgain(ctx)) })
	both.Go(func() { end(k.follow(ctx, w)) })
	both.Wait()
	return context.Cause(ctx)
}

// follow takes the data keys that are not as they were taken, whenever a watch tells of some.
func (k *Keys) follow(ctx context.Context, w embedded.Watch) error {
	for {
		if _, err := w.Next(ctx); err != nil {
			return err
		}
		k.turn.Lock()
		if records, err := k.records(); err != nil || !slices.EqualFunc(records, k.had, sameRecord) {
			_ = k.look(ctx) // it is told
		}
		k.turn.Unlock()
	}
}

// lookAgain looks for other secret keys from time to time.
func (k *Keys) lookAgain(ctx context.Context) error {
	for {
		pause := k.cfg.Every
		if k.Trouble() != nil {
			pause = cmp.Or(pause, again)
		}
		if pause == 0 {
			<-ctx.Done()
			return ctx.Err()
		}
		if clock.Within(k.cfg.Clock, pause, ctx.Done()) {
			return ctx.Err()
		}
		k.turn.Lock()
		_ = k.look(ctx) // it is told
		k.turn.Unlock()
	}
}

// look takes the secret keys that there are, unless they are those of before, and says what is in
// the way. turn is held.
func (k *Keys) look(ctx context.Context) error {
	err := k.take(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	before := k.Trouble()
	switch {
	case err == nil:
		k.trouble.Store(nil)
		if before != nil {
			k.cfg.Log.Info().Msg("the trouble with the secret key is over")
		}
	case before == nil || before.Error() != err.Error():
		k.trouble.Store(&err)
		k.cfg.Log.Error().Err(err).Msg("values cannot be sealed or revealed as they should be; what could be opened before still is")
	}
	return err
}

func (k *Keys) take(ctx context.Context) error {
	var w *Wrapping
	if k.cfg.Source != nil {
		var err error
		if w, err = k.cfg.Source(ctx); err != nil {
			return err
		}
	}
	for {
		if err := k.takeBy(ctx, w); codes.Of(err) != codes.Conflict {
			return err
		}
	}
}

// takeBy takes the data keys that a list of secret keys opens, and wraps them by its first, unless it is the
// list of before; nil: there is none. codes.Conflict: another server was making or wrapping some.
func (k *Keys) takeBy(ctx context.Context, w *Wrapping) error {
	unmade := k.unmade()
	records, err := k.records()
	same := w != nil && k.taken != nil && w.Equal(k.taken)
	switch {
	case same && slices.EqualFunc(records, k.had, sameRecord):
		return err
	case err != nil:
		return err
	case w == nil && len(records) == 0:
		return nil
	case w == nil:
		return codes.Errorf(codes.Forbidden, "there are %d data keys, and the secret key that opens them was not given (--secret-key-file)", len(records))
	case len(records) == 0:
		first := NewDataKey(k.cfg.Clock.Now())
		rev, err := k.add(ctx, nil, w, &first, unmade)
		if err != nil {
			return err
		}
		k.ring.Store(NewRing([]Key{first}))
		k.taken, k.had = w, []record{{id: first.ID, rev: rev}}
		return nil
	}
	opened, failed := open(w, records)
	if failed != nil {
		if len(opened) > 0 && k.taken == nil {
			k.ring.Store(NewRing(opened).Opening())
		}
		return failed
	}
	k.ring.Store(NewRing(opened))
	for i := range records {
		if same || records[i].By == w.First() {
			continue
		}
		if records[i].rev, err = k.wrap(ctx, w, &opened[i], records[i].rev); err != nil {
			return err
		}
	}
	k.taken, k.had = w, records
	return nil
}

// open returns the data keys that w opens, and why not all.
func open(w *Wrapping, records []record) (opened []Key, failed error) {
	for _, r := range records {
		d, err := w.Unwrap(r.id, r.Made, r.Wrapped)
		if err != nil {
			failed = err
			continue
		}
		opened = append(opened, d)
	}
	return opened, failed
}

// The keys of the namespace: the data keys, and the id of the one that was made last. Who makes one writes
// both, and only if the latter is as it was when the data keys were read: so that of two servers that find none
// one makes the first, and no two the last that there may be.
const (
	keyPrefix = "secret/"
	lastKey   = "sealing"
)

// record is a data key as it is kept.
type record struct {
	Wrapped
	Made int64 `json:"made"` // ms since 1970

	id  string
	rev kv.Revision
}

func sameRecord(a, b record) bool { return a.id == b.id && a.rev == b.rev }

// records are the data keys, oldest first.
func (k *Keys) records() (list []record, err error) {
	page, err := k.store.List(kv.List{NS: kv.AccessNamespace, Prefix: keyPrefix, Limit: MaxKeys})
	if err != nil {
		return nil, err
	}
	for _, e := range page.Entries {
		r := record{id: strings.TrimPrefix(e.Key, keyPrefix), rev: e.Mod}
		if err := json.Unmarshal(e.Value.Data, &r); err != nil {
			return nil, codes.Errorf(codes.Storage, "the data key %.40q is damaged; restore a backup", r.id)
		}
		list = append(list, r)
	}
	slices.SortFunc(list, func(a, b record) int { return cmp.Or(cmp.Compare(a.Made, b.Made), strings.Compare(a.id, b.id)) })
	return list, nil
}

// unmade is the condition that no data key has been made since.
func (k *Keys) unmade() kv.Compare {
	var mod kv.Revision
	if e := k.store.Get(kv.AccessNamespace, lastKey); e != nil {
		mod = e.Mod
	}
	return as(lastKey, mod)
}

// as is the condition that a revision wrote a key last; 0: it is absent.
func as(key string, mod kv.Revision) kv.Compare {
	return kv.Compare{NS: kv.AccessNamespace, Key: key, Target: kv.CompareMod, Relation: kv.Equal, Number: int64(mod)}
}

// wrap writes a data key again, which was last written at a revision. codes.Conflict: it has been since.
func (k *Keys) wrap(ctx context.Context, w *Wrapping, d *Key, was kv.Revision) (kv.Revision, error) {
	return k.write(ctx, &kv.Txn{If: []kv.Compare{as(keyPrefix+d.ID, was)}}, w, d)
}

// add writes a new data key, unless another was made since unmade. codes.Conflict: one was.
func (k *Keys) add(ctx context.Context, by *access.Actor, w *Wrapping, d *Key, unmade kv.Compare) (kv.Revision, error) {
	last := kv.Op{Kind: kv.OpPut, NS: kv.AccessNamespace, Key: lastKey, Value: kv.StringValue(d.ID)}
	txn := &kv.Txn{If: []kv.Compare{unmade, as(keyPrefix+d.ID, 0)}, Then: []kv.Op{last}, Actor: by}
	if by != nil {
		txn.Note = []access.Event{{Kind: access.EventChange, Do: "rotate", What: []string{"secret:" + d.ID}}}
	}
	return k.write(ctx, txn, w, d)
}

// write writes a data key in a transaction.
func (k *Keys) write(ctx context.Context, txn *kv.Txn, w *Wrapping, d *Key) (kv.Revision, error) {
	value, err := json.Marshal(record{Wrapped: w.Wrap(d), Made: d.Made})
	if err != nil {
		return 0, err
	}
	txn.Then = append(txn.Then, kv.Op{Kind: kv.OpPut, NS: kv.AccessNamespace, Key: keyPrefix + d.ID, Value: kv.Value{Type: kv.JSON, Data: value}})
	txn.Must, txn.System = true, true
	res, err := k.store.Txn(ctx, txn)
	if err != nil {
		return 0, err
	}
	return res.Revision, nil
}
