package review

import (
	"cmp"
	"crypto/sha256"
	"encoding/json" // our own records, which no peer has written
	"slices"

	"confcenter/access/policy"
	"confcenter/codes"
	"confcenter/internal/health"
	"confcenter/kv"
	"confcenter/kv/embedded"
)

// Engine is what the edges of a server use of its store.
type Engine interface {
	kv.Archive
	kv.Copier
	// Trouble is why it takes no writes, or not all; nil if it takes them. It is cheap.
	Trouble() *health.Trouble
	// Damage is what it cannot read although writes go on; nil: nothing that is known of. It is cheap.
	Damage() *health.Trouble
}

// Store is the state store for code that writes on behalf of peers. A transaction that changes what is
// marked becomes one that keeps it, in its place and under its conditions: if these do not hold it
// is answered as ever, for nothing of it would be done. Its author is told codes.Held. If another server on the
// same state is the first to give its number it is handed over again with the next one, behind what has come
// meanwhile.
type Store struct {
	Engine
	reviews *Reviews
}

// Guard returns the store for the edges. engine is the one that r is on.
func (r *Reviews) Guard(engine Engine) *Store { return &Store{engine, r} }

// keeping is a transaction in place of which another keeps it.
type keeping struct {
	*draft
	asked *kv.Txn
	keeps *kv.Txn
}

// Commit implements kv.Store.
func (s *Store) Commit(txn *kv.Txn, done func(*kv.Result, error)) error {
	k, err := s.reviews.keep(txn)
	switch {
	case err != nil:
		return err
	case k == nil:
		return s.Engine.Commit(txn, done)
	}
	return s.commit(k, done)
}

// commit commits what keeps a transaction.
func (s *Store) commit(k *keeping, done func(*kv.Result, error)) error {
	err := s.Engine.Commit(k.keeps, func(res *kv.Result, err error) {
		if s.reviews.overtaken(k.Number, err) {
			if err = s.reviews.renumber(k); err == nil {
				err = s.commit(k, done)
			}
			if err == nil {
				return
			}
		} else {
			err = s.reviews.answer(k, res, err)
		}
		if err != nil {
			res = nil
		}
		done(res, err)
	})
	if err != nil {
		s.reviews.give(k.Number)
	}
	return err
}

// CommitEach implements kv.Store.
func (s *Store) CommitEach(caller kv.Caller, writes []*kv.Write) (taken int, err error) {
	var held map[*kv.Write]*keeping
	n := 0
	var refused error
	for ; n < len(writes); n++ {
		k, err := s.reviews.keep(writes[n].Txn)
		if err != nil {
			refused = err
			break
		}
		if k != nil {
			if held == nil {
				held = map[*kv.Write]*keeping{}
			}
			held[writes[n]] = k
		}
	}
	if held != nil {
		caller = &answering{caller, s, held}
		for w, k := range held {
			w.Txn = k.keeps
		}
	}
	if n > 0 {
		taken, err = s.Engine.CommitEach(caller, writes[:n])
	}
	for _, w := range writes[taken:n] { // they may be asked for again
		if k := held[w]; k != nil {
			w.Txn = k.asked
			s.reviews.give(k.Number)
		}
	}
	err = cmp.Or(err, refused)
	return taken, err
}

// answering is the caller of transactions of which some are kept.
type answering struct {
	kv.Caller
	store *Store
	held  map[*kv.Write]*keeping // read only
}

// Committed implements kv.Caller.
func (a *answering) Committed(list []*kv.Write) {
	list = slices.DeleteFunc(list, func(w *kv.Write) bool {
		k := a.held[w]
		return k != nil && !a.answered(w, k)
	})
	if len(list) > 0 {
		a.Caller.Committed(list)
	}
}

// answered answers a transaction that was to be kept, or hands it over again.
func (a *answering) answered(w *kv.Write, k *keeping) bool {
	r := a.store.reviews
	if !r.overtaken(k.Number, w.Err) {
		w.Txn, w.Err = k.asked, r.answer(k, &w.Result, w.Err)
		return true
	}
	if w.Err = r.renumber(k); w.Err == nil {
		w.Txn = k.keeps
		_, w.Err = a.store.Engine.CommitEach(a, []*kv.Write{w})
		if w.Err == nil {
			return false
		}
		r.give(k.Number)
	}
	w.Txn = k.asked
	return true
}

// renumber has a transaction kept under another number.
func (r *Reviews) renumber(k *keeping) (err error) {
	keeps := *k.keeps
	keeps.Then, err = r.number(k.draft)
	k.keeps = &keeps
	return err
}

// answer is what is said of a transaction that was to be kept. Without an error its conditions did
// not hold, and its other branch was taken.
func (r *Reviews) answer(k *keeping, res *kv.Result, err error) error {
	if err == nil && !res.Held {
		r.give(k.Number)
		return nil
	}
	return r.kept(k.draft, res, err)
}

// changesMarked reports whether operations change what is marked.
func changesMarked(marks *policy.Marks, ops []kv.Op) bool {
	var room [256]byte
	for i := range ops {
		switch op := &ops[i]; {
		case op.Kind.Has(kv.MemberKey) && op.Writes():
			if marks.Has(policy.KV, policy.AppendName(room[:0], []byte(op.NS), []byte(op.Key))) {
				return true
			}
		case op.Kind.Has(kv.MemberPrefix):
			if marks.Among(policy.KV, string(policy.AppendName(room[:0], []byte(op.NS), []byte(op.Key)))) {
				return true
			}
		}
	}
	return false
}

// keep returns what keeps a transaction until it is approved; nil if it needs no approval. It neither
// waits nor reads from a disk.
func (r *Reviews) keep(txn *kv.Txn) (*keeping, error) {
	if txn.System || !asks(txn.Actor) {
		return nil, nil
	}
	marks := r.marks()
	if marks == nil {
		return nil, nil
	}
	then, otherwise := changesMarked(marks, txn.Then), changesMarked(marks, txn.Else)
	if !then && !otherwise {
		return nil, nil
	}
	if err := txn.Check(); err != nil {
		return nil, err
	}
	if otherwise {
		return nil, codes.Errorf(codes.BadOp, "the transaction would change what needs approval if its conditions do not hold, which cannot be held; nothing was changed: ask for that alone")
	}
	t, things, err := r.transactionOf(txn)
	if err != nil {
		return nil, err
	}
	asked := txn.Asked
	if txn.Token != "" && len(asked) == 0 {
		text, err := json.Marshal([]any{txn.Fences, txn.If, txn.Then, txn.Else})
		if err != nil {
			return nil, err
		}
		sum := sha256.Sum256(text)
		asked = sum[:]
	}
	d, err := r.newDraft(txn.Actor, things, &body{Txn: t})
	if err != nil {
		return nil, err
	}
	keeps := *txn
	keeps.Asked, keeps.System = asked, true
	k := &keeping{d, txn, &keeps}
	return k, r.renumber(k)
}

// The most that a transaction may have that is held, so that there is room for what it was
// compared with.
const (
	mostOps     = 1000
	mostDeleted = 1000 // keys of prefixes
)

// transactionOf is a transaction as it is kept. Prefixes become their keys.
func (r *shelf) transactionOf(txn *kv.Txn) (*transaction, []thing, error) {
	t := &transaction{Fences: txn.Fences, If: txn.If}
	if len(txn.Then) > mostOps {
		return nil, nil, codes.Errorf(codes.TooManyOps, "the transaction needs approval and has %d operations, and %d can be held; nothing was changed: make several of it", len(txn.Then), mostOps)
	}
	for i := range txn.Then {
		op := txn.Then[i]
		op.WantPrev = false
		switch {
		case op.Kind.Has(kv.MemberTTL | kv.MemberLease), op.Lease != 0:
			return nil, nil, codes.Errorf(codes.BadOp, "what needs approval cannot depend on a lease, nor be a lock; nothing was changed: leave the lease out")
		case op.Kind.Has(kv.MemberPrefix):
			keys, err := r.keysOf(&op)
			if err != nil {
				return nil, nil, err
			}
			for _, key := range keys {
				t.Then = append(t.Then, kv.Op{Kind: kv.OpDelete, NS: op.NS, Key: key})
			}
			if op.Limit == 0 {
				t.Prefixes = append(t.Prefixes, prefix{op.NS, []byte(op.Key)})
			}
		case op.Writes():
			t.Then = append(t.Then, op)
		}
	}
	if len(t.Then) == 0 {
		return nil, nil, codes.Errorf(codes.NotFound, "there is nothing to delete")
	}
	var things []thing
	seen := map[[2]string]int{}
	for i := range t.Then {
		op := &t.Then[i]
		at, known := seen[[2]string{op.NS, op.Key}]
		if !known {
			at = len(things)
			seen[[2]string{op.NS, op.Key}] = at
			things = append(things, thing{NS: op.NS, Name: op.Key})
			t.Was = append(t.Was, was{op.NS, op.Key, r.written(op.NS, op.Key)})
		}
		things[at].Delete = !op.Kind.Sets()
	}
	return t, things, nil
}

// written is the revision that wrote a key last; 0: it is absent.
func (r *shelf) written(ns, key string) kv.Revision {
	if e := r.store.Get(ns, key); e != nil {
		return e.Mod
	}
	return 0
}

// keysOf are the keys that an OpDeletePrefix would delete.
func (r *shelf) keysOf(op *kv.Op) (keys []string, err error) {
	most := mostDeleted + 1
	if op.Limit > 0 {
		most = min(op.Limit, most)
	}
	view := r.store.View()
	defer view.Close()
	for e, err := range embedded.Each(view.List, kv.List{NS: op.NS, Prefix: op.Key, Limit: most}) {
		if err != nil {
			return nil, err
		}
		if keys = append(keys, e.Key); len(keys) == most {
			break
		}
	}
	if len(keys) > mostDeleted {
		return nil, codes.Errorf(codes.TooManyOps, "what would be deleted needs approval and has more than %d keys, which is what can be held; nothing was changed: delete longer prefixes", mostDeleted)
	}
	return keys, nil
}
