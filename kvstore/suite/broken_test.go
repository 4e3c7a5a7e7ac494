package suite

import (
	"context"
	"sync"
	"testing"
	"time"

	"confcenter/codes"
	"confcenter/kv"
	"confcenter/kvstore"
)

// broken is an engine with a fault: one of the functions below stands for what it
// does, unless that is nil.
type broken struct {
	kvstore.Engine
	opened int // how many engines were open on the disk before
	wg     sync.WaitGroup

	// set at open
	commit   func(b *broken, txn *kv.Txn, done func(*kv.Result, error)) error
	get      func(b *broken, ns, key string) (*kv.Entry, kv.Revision)
	getAt    func(b *broken, ns, key string, rev kv.Revision) (*kv.Entry, error)
	view     func(b *broken, v kv.View) kv.View
	tell     func(fn func(*kv.Batch), batch *kv.Batch)
	changes  func(b *broken, after kv.Revision, maxBytes int) ([]kv.Change, error)
	alive    func(b *broken, id kv.LeaseID) (kv.Lease, error)
	spaces   func(list []kv.Namespace) []kv.Namespace
	oneByOne bool // several keys are not read together

	mu sync.Mutex

	// guarded by mu
	dead    bool
	pending map[name]*kv.Entry
	first   map[string]*kv.Result
}

func (b *broken) Commit(txn *kv.Txn, done func(*kv.Result, error)) error {
	if b.commit == nil {
		return b.Engine.Commit(txn, done)
	}
	if err := txn.Check(); err != nil {
		return err
	}
	return b.commit(b, txn, done)
}

func (b *broken) Get(ns, key []byte) (*kv.Entry, kv.Revision) {
	if b.get == nil {
		return b.Engine.Get(ns, key)
	}
	return b.get(b, string(ns), string(key))
}

func (b *broken) GetEach(reads []kv.Read) kv.Revision {
	if b.get == nil && !b.oneByOne {
		return b.Engine.GetEach(reads)
	}
	var rev kv.Revision
	for i := range reads {
		reads[i].Entry, rev = b.Get(reads[i].NS, reads[i].Key)
	}
	return rev
}

func (b *broken) GetAt(_ context.Context, ns, key string, rev kv.Revision) (*kv.Entry, error) {
	if b.getAt == nil {
		return b.Engine.GetAt(context.Background(), ns, key, rev)
	}
	return b.getAt(b, ns, key, rev)
}

func (b *broken) Forget(list []kv.Held, done func(int, error)) error {
	return b.Engine.Forget(list, done)
}

func (b *broken) View() kv.View {
	if b.view == nil {
		return b.Engine.View()
	}
	return b.view(b, b.Engine.View())
}

func (b *broken) Follow(fn func(*kv.Batch)) (stop func()) {
	if b.tell == nil {
		return b.Engine.Follow(fn)
	}
	return b.Engine.Follow(func(batch *kv.Batch) { b.tell(fn, batch) })
}

func (b *broken) Changes(_ context.Context, after kv.Revision, maxBytes int) ([]kv.Change, error) {
	if b.changes == nil {
		return b.Engine.Changes(context.Background(), after, maxBytes)
	}
	return b.changes(b, after, maxBytes)
}

func (b *broken) KeepAlive(ctx context.Context, id kv.LeaseID) (kv.Lease, error) {
	if b.alive == nil {
		return b.Engine.KeepAlive(ctx, id)
	}
	return b.alive(b, id)
}

func (b *broken) Namespaces(after string, limit int) ([]kv.Namespace, bool) {
	list, more := b.Engine.Namespaces(after, limit)
	if b.spaces != nil {
		list = b.spaces(list)
	}
	return list, more
}

func (b *broken) Close() error {
	b.wg.Wait()
	return b.Engine.Close()
}

// opener opens engines with that fault.
func (d *defect) opener(_ testing.TB, opts options) instance {
	m := newMachine(opts)
	m.lose = d.lose
	var b *broken
	opened := 0
	plant := func(engine kvstore.Engine) kvstore.Engine {
		b = &broken{Engine: engine, opened: opened, pending: map[name]*kv.Entry{}, first: map[string]*kv.Result{}}
		opened++
		if d.plant != nil {
			d.plant(b)
		}
		return b
	}
	instance := m.instance()
	instance.Engine = plant(instance.Engine)
	instance.Restart = func() kvstore.Engine {
		b.wg.Wait()
		return plant(m.restart())
	}
	instance.Kill = func() kvstore.Engine {
		b.mu.Lock()
		b.dead = true
		b.mu.Unlock()
		engine := m.kill()
		b.wg.Wait()
		return plant(engine)
	}
	return instance
}

// each has every operation of both branches be changed by fn.
func each(fn func(b *broken, op *kv.Op)) func(*broken) {
	return func(b *broken) {
		b.commit = func(b *broken, txn *kv.Txn, done func(*kv.Result, error)) error {
			again := *txn
			again.Then, again.Else = append([]kv.Op(nil), txn.Then...), append([]kv.Op(nil), txn.Else...)
			for _, ops := range [2][]kv.Op{again.Then, again.Else} {
				for i := range ops {
					fn(b, &ops[i])
				}
			}
			return b.Engine.Commit(&again, done)
		}
	}
}

// without has every transaction lose what fn takes from it.
func without(fn func(b *broken, txn *kv.Txn)) func(*broken) {
	return func(b *broken) {
		b.commit = func(b *broken, txn *kv.Txn, done func(*kv.Result, error)) error {
			again := *txn
			fn(b, &again)
			return b.Engine.Commit(&again, done)
		}
	}
}

// told has every batch be changed by fn before it is told.
func told(fn func(kv.Change) []kv.Change) func(*broken) {
	return func(b *broken) {
		b.tell = func(tell func(*kv.Batch), batch *kv.Batch) {
			again := &kv.Batch{}
			for _, c := range batch.Changes {
				again.Changes = append(again.Changes, fn(c)...)
			}
			if len(again.Changes) > 0 {
				tell(again)
			}
		}
	}
}

func reversed(events []kv.Event) []kv.Event {
	var list []kv.Event
	for i := len(events) - 1; i >= 0; i-- {
		list = append(list, events[i])
	}
	return list
}

// readEarly has puts be seen while they wait to be committed.
func readEarly(b *broken) {
	b.commit = func(b *broken, txn *kv.Txn, done func(*kv.Result, error)) error {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, op := range txn.Then {
			if op.Kind == kv.OpPut {
				b.pending[name{op.NS, op.Key}] = &kv.Entry{NS: op.NS, Key: op.Key, Value: op.Value, Version: 1}
			}
		}
		b.wg.Go(func() {
			timer := time.NewTimer(2 * time.Millisecond)
			<-timer.C
			b.mu.Lock()
			defer b.mu.Unlock()
			clear(b.pending)
			if !b.dead {
				_ = b.Engine.Commit(txn, done)
			}
		})
		return nil
	}
	b.get = func(b *broken, ns, key string) (*kv.Entry, kv.Revision) {
		e, rev := b.Engine.Get([]byte(ns), []byte(key))
		b.mu.Lock()
		defer b.mu.Unlock()
		if early := b.pending[name{ns, key}]; early != nil {
			return early, rev
		}
		return e, rev
	}
}

// readLate has reads see what was before the newest revision.
func readLate(b *broken) {
	b.get = func(b *broken, ns, key string) (*kv.Entry, kv.Revision) {
		rev := b.Revision()
		e, _ := b.Engine.GetAt(context.Background(), ns, key, rev-1)
		return e, rev
	}
}

// tornView reads keys as they are now, and lists as they were.
type tornView struct {
	kv.View
	b *broken
}

func (v tornView) Get(ns, key string) (*kv.Entry, error) {
	e, _ := v.b.Engine.Get([]byte(ns), []byte(key))
	return e, nil
}

// wideView lists what is in namespaces that begin alike.
type wideView struct {
	kv.View
	b *broken
}

func (v wideView) List(l kv.List) (kv.Page, error) {
	page, err := v.View.List(l)
	if spaces, _ := v.b.Engine.Namespaces(l.NS, 1); err == nil && !l.CountOnly && !page.More && len(spaces) == 1 {
		l.NS = spaces[0].Name
		more, _ := v.View.List(l)
		page.Entries = append(page.Entries, more.Entries...)
		page.Count = int64(len(page.Entries))
	}
	return page, err
}

// oneByOne commits each operation for itself.
func oneByOne(b *broken) {
	b.commit = func(b *broken, txn *kv.Txn, done func(*kv.Result, error)) error {
		if len(txn.If) > 0 || len(txn.Then) < 2 {
			return b.Engine.Commit(txn, done)
		}
		all := &kv.Result{Held: true}
		for i := range txn.Then {
			err := b.Engine.Commit(&kv.Txn{Then: txn.Then[i : i+1]}, func(r *kv.Result, err error) {
				if err == nil {
					all.Revision, all.Ops = r.Revision, append(all.Ops, r.Ops...)
				}
				switch {
				case i < len(txn.Then)-1:
				case err != nil:
					done(nil, err)
				default:
					done(all, nil)
				}
			})
			if err != nil {
				return err
			}
		}
		return nil
	}
}

// anyBody answers a token that is known whatever is asked.
func anyBody(b *broken) {
	b.commit = func(b *broken, txn *kv.Txn, done func(*kv.Result, error)) error {
		b.mu.Lock()
		defer b.mu.Unlock()
		token := txn.Token
		if first := b.first[token]; first != nil {
			b.wg.Go(func() { done(first, nil) })
			return nil
		}
		return b.Engine.Commit(txn, func(r *kv.Result, err error) {
			if err == nil && token != "" {
				again := *r
				again.Replayed = true
				b.mu.Lock()
				b.first[token] = &again
				b.mu.Unlock()
			}
			done(r, err)
		})
	}
}

// incrementByHand reads, adds and writes.
func incrementByHand(b *broken, op *kv.Op) {
	if op.Kind != kv.OpIncr {
		return
	}
	n := op.Initial
	if e, _ := b.Engine.Get([]byte(op.NS), []byte(op.Key)); e != nil {
		n, _ = e.Value.Int()
	}
	op.Kind, op.Value = kv.OpPut, kv.IntValue(n+op.Delta)
}

// answerOld answers every fifth transaction with the revision of the one before it.
func answerOld(b *broken) {
	n, last := 0, kv.Revision(0) // of the committer
	b.commit = func(b *broken, txn *kv.Txn, done func(*kv.Result, error)) error {
		return b.Engine.Commit(txn, func(r *kv.Result, err error) {
			if n++; err == nil && n%5 == 0 {
				again := *r
				again.Revision = last
				r = &again
			}
			if err == nil {
				last = r.Revision
			}
			done(r, err)
		})
	}
}

func keepTTL(b *broken, op *kv.Op) {
	if e, _ := b.Engine.Get([]byte(op.NS), []byte(op.Key)); op.Kind == kv.OpPut && e != nil && op.TTL == 0 && op.Expires == 0 {
		op.Expires = e.Expires
	}
}

func fromTheFloor(b *broken, after kv.Revision, maxBytes int) ([]kv.Change, error) {
	changes, err := b.Engine.Changes(context.Background(), after, maxBytes)
	if codes.Of(err) == codes.Compacted {
		return b.Engine.Changes(context.Background(), b.Stats().LogFloor, maxBytes)
	}
	return changes, err
}
