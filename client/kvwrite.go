package client

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"time"

	"confcenter/codes"
	"confcenter/kv"
	"confcenter/protocol"
)

// Written is what a write did.
type Written struct {
	// Revision is the write's own revision if it changed something, otherwise the one
	// at which that was decided.
	Revision kv.Revision
	// Entry is the key as the write left it, nil after a delete. With codes.Conflict
	// it is the entry that prevented the write, nil if the key is absent.
	Entry *kv.Entry
	// Prev, with WithPrev, is the entry before the write, nil if the key was absent.
	Prev *kv.Entry
	// Count is the number of keys that a delete removed.
	Count int64
}

// Option modifies a write. An option that does not apply to the write is refused with
// codes.BadRequest, and nothing is sent.
type Option func(*writing)

// writing collects options. The first group is about one operation, the second about the
// whole transaction.
type writing struct {
	op      kv.Op // TTL, Expires, Lease, WantPrev, Seal, Initial, Min and Max are set
	single  bool  // any of them is set
	bounded bool  // Initial, Min or Max is set
	ifs     []kv.Compare

	versions map[string]int64 // of IfVersions, which is about owners only

	fences   []kv.Fence
	token    string
	hasToken bool

	err error // the first mistake
}

func (w *writing) fail(err error) { w.err = cmp.Or(w.err, err) }

func written(opts []Option) *writing {
	w := &writing{}
	for _, o := range opts {
		o(w)
	}
	return w
}

func about(set func(op *kv.Op)) Option {
	return func(w *writing) {
		w.single = true
		set(&w.op)
	}
}

// bounds is about for options of increments only.
func bounds(set func(op *kv.Op)) Option {
	return func(w *writing) {
		w.single, w.bounded = true, true
		set(&w.op)
	}
}

// WithTTL makes the key expire that long after the write, at least a millisecond.
// Without it or WithExpires, a key that is put never expires, and an increment keeps
// the key's time to live.
func WithTTL(ttl time.Duration) Option {
	return func(w *writing) {
		if ttl <= 0 {
			w.fail(codes.Errorf(codes.BadTTL, "WithTTL(%v) is not a time to live; omit it for a key that never expires", ttl))
		}
		w.single, w.op.TTL = true, ttl
	}
}

// WithExpires makes the key expire at a time, to the millisecond.
func WithExpires(at time.Time) Option { return about(func(op *kv.Op) { op.Expires = at.UnixMilli() }) }

// WithLease makes the key end with a lease.
func WithLease(l *Lease) Option {
	return func(w *writing) {
		w.single = true
		if l == nil || l.s == nil {
			w.fail(codes.Errorf(codes.BadRequest, "WithLease(nil): there is no lease; check the error that Lease returned"))
			return
		}
		w.op.Lease = l.ID()
	}
}

// WithPrev asks for the entry before the write, which costs its size on the wire.
func WithPrev() Option { return about(func(op *kv.Op) { op.WantPrev = true }) }

// WithSeal has the server seal the value of a put, whatever its type: what is kept, and read by all who
// do not ask for it to be revealed, is a mark of type json. Written.Entry has no value then. The error
// is codes.NotImplemented if the server has no key for it.
func WithSeal() Option { return about(func(op *kv.Op) { op.Seal = true }) }

// WithInitial is what an absent key counts as when it is incremented; default 0.
func WithInitial(n int64) Option { return bounds(func(op *kv.Op) { op.Initial = n }) }

// WithMin refuses an increment whose result is below n with codes.OutOfBounds.
func WithMin(n int64) Option { return bounds(func(op *kv.Op) { op.Min = &n }) }

// WithMax refuses an increment whose result is above n with codes.OutOfBounds.
func WithMax(n int64) Option { return bounds(func(op *kv.Op) { op.Max = &n }) }

// IfMod writes only if the key was last changed by revision mod; 0 means that the key
// is absent. Otherwise the error is codes.Conflict.
func IfMod(mod kv.Revision) Option {
	return func(w *writing) {
		w.ifs = append(w.ifs, kv.Compare{Target: kv.CompareMod, Relation: kv.Equal, Number: int64(mod)})
	}
}

// IfAbsent writes only if there is no such key. Otherwise the error is
// codes.Conflict.
func IfAbsent() Option { return IfMod(0) }

// WithFence writes only while l is held, wherever its key is: otherwise the error is
// codes.FenceLost. So a holder that was cut off without knowing it cannot overwrite
// its successor's work. Once l.Lost is closed nothing is sent, because a server that
// was paused may still consider the lock held.
func WithFence(l *Lock) Option {
	return func(w *writing) {
		if l == nil || l.s == nil {
			w.fail(codes.Errorf(codes.BadRequest, "WithFence(nil): no lock is held; check the error that Lock returned"))
			return
		}
		if l.isLost() {
			w.fail(l.lostError())
		}
		w.fences = append(w.fences, kv.Fence{NS: l.s.ns, Key: l.key, Token: l.token})
	}
}

// WithToken names the write, so that a program can repeat a write whose outcome it
// does not know. The store applies writes with the same token in a namespace once and
// answers repetitions, for about an hour and across restarts, with the result of the
// first; the same token on a different write is codes.TokenReused. The empty token
// means none: the write is sent at most once, and if the connection breaks before the
// answer the error is ErrUnreachable.
func WithToken(token string) Option { return func(w *writing) { w.token, w.hasToken = token, true } }

// DeletePrefix removes all keys that begin with prefix. Up to kv.MaxDeletePrefix are
// removed at once; if there are more, others can see them disappear in steps, and
// Written.Revision is the last one. With an error, Written.Count says how many were
// certainly removed.
//
// An empty prefix is refused with codes.Unconfirmed, because it is usually a variable that
// was never set; Drop removes everything.
func (s *KV) DeletePrefix(ctx context.Context, prefix string, opts ...Option) (Written, error) {
	if err := checkPrefix(prefix); err != nil {
		return Written{}, during(err, "%s of %s", kv.OpDeletePrefix, s.ns)
	}
	return s.deleteAll(ctx, kv.Op{Kind: kv.OpDeletePrefix, Key: prefix}, opts)
}

// Drop removes all keys of the namespace, as DeletePrefix does. Calling it is the
// confirmation that a server requires.
func (s *KV) Drop(ctx context.Context, opts ...Option) (Written, error) {
	return s.deleteAll(ctx, kv.Op{Kind: kv.OpDeletePrefix, Confirm: s.ns}, opts)
}

func checkPrefix(prefix string) error {
	if prefix == "" {
		return codes.Errorf(codes.Unconfirmed, "an empty prefix would delete all keys; if that is meant, call Drop")
	}
	return nil
}

// deleteAll repeats a deletion while there is more. The caller's token, if any, gets a
// number for each further part, so that repeating the whole repeats each part.
func (s *KV) deleteAll(ctx context.Context, op kv.Op, opts []Option) (Written, error) {
	var all Written
	for part := 1; ; part++ {
		partOf := func(w *writing) {
			if part > 1 && w.token != "" {
				w.token += "/" + strconv.Itoa(part)
			}
		}
		w, more, err := s.apply(ctx, op, nil, append(opts[:len(opts):len(opts)], partOf))
		all.Revision, all.Count = max(all.Revision, w.Revision), all.Count+w.Count
		if err != nil || !more {
			return all, err
		}
	}
}

// Restore writes the value that a key had at revision rev. It is a new write, with a
// new revision and the time to live given by opts. Written.Entry does not contain the
// value. The error is codes.NotFound if the key was absent at rev, and
// codes.Compacted if that is no longer known.
func (s *KV) Restore(ctx context.Context, key string, rev kv.Revision, opts ...Option) (Written, error) {
	op := kv.Op{Kind: kv.OpPut, Key: key, Value: kv.BytesValue(nil)}
	txn, err := s.transaction(op, nil, opts)
	if err == nil && len(txn.If) > 1 {
		err = codes.Errorf(codes.BadRequest, "restore takes one condition")
	}
	var w Written
	if err == nil {
		frame := protocol.AppendKVRestore(begin(protocol.KVRestore), txn, rev, true, s.reveal)
		w, _, err = s.send(ctx, protocol.KVRestore, frame, txn)
	}
	if err == nil && w.Entry != nil {
		w.Entry.Value = kv.Value{}
	}
	return w, during(err, "restore %s of %s", key, s.ns)
}

func (s *KV) write(ctx context.Context, op kv.Op, ifs []kv.Compare, opts []Option) (Written, error) {
	w, _, err := s.apply(ctx, op, ifs, opts)
	return w, err
}

func (s *KV) apply(ctx context.Context, op kv.Op, ifs []kv.Compare, opts []Option) (w Written, more bool, err error) {
	txn, err := s.transaction(op, ifs, opts)
	if err == nil {
		cmd := protocol.KVWriteCommand(txn)
		frame := protocol.AppendKVWrite(begin(cmd), cmd, txn, true, s.reveal)
		w, more, err = s.send(ctx, cmd, frame, txn)
	}
	return w, more, during(err, "%s %s of %s", op.Kind, op.Key, s.ns)
}

func (s *KV) transaction(op kv.Op, ifs []kv.Compare, opts []Option) (*kv.Txn, error) {
	w := written(opts)
	op, err := w.operation(op)
	if err != nil {
		return nil, err
	}
	op.NS = s.ns
	for _, c := range w.ifs {
		c.NS, c.Key = s.ns, op.Key
		ifs = append(ifs, c)
	}
	if len(ifs) > 0 && op.Kind == kv.OpDeletePrefix {
		return nil, codes.Errorf(codes.BadRequest, "%s takes no condition on a key", op.Kind)
	}
	txn := &kv.Txn{Fences: w.fences, If: ifs, Then: []kv.Op{op}, TokenNS: s.ns, Token: w.tokenOr(s.c.tokens)}
	if len(ifs) > 0 {
		txn.Else = []kv.Op{{Kind: kv.OpGet, NS: s.ns, Key: op.Key}}
	}
	return txn, txn.Check()
}

func (w *writing) operation(op kv.Op) (kv.Op, error) {
	timed := w.op.TTL != 0 || w.op.Expires != 0 || w.op.Lease != 0
	keyed := op.Kind != kv.OpDeletePrefix
	switch {
	case w.err != nil:
		return op, w.err
	case w.versions != nil:
		return op, codes.Errorf(codes.BadRequest, "IfVersions is for fields of owners; use IfMod")
	case timed && !op.Kind.Sets():
		return op, codes.Errorf(codes.BadRequest, "%s takes no time to live and no lease", op.Kind)
	case w.bounded && op.Kind != kv.OpIncr:
		return op, codes.Errorf(codes.BadRequest, "%s takes no initial value and no bounds", op.Kind)
	case w.op.Seal && op.Kind != kv.OpPut:
		return op, codes.Errorf(codes.BadRequest, "%s has no value that could be sealed", op.Kind)
	case w.op.WantPrev && !keyed:
		return op, codes.Errorf(codes.BadRequest, "%s does not tell what was there", op.Kind)
	}
	op.TTL, op.Expires, op.Lease, op.WantPrev, op.Seal = w.op.TTL, w.op.Expires, w.op.Lease, w.op.WantPrev, w.op.Seal
	op.Initial, op.Min, op.Max = w.op.Initial, w.op.Min, w.op.Max
	return op, nil
}

func (w *writing) tokenOr(source *tokenSource) string {
	if w.hasToken {
		return w.token
	}
	return source.next()
}

func (s *KV) send(ctx context.Context, cmd protocol.Command, frame []byte, txn *kv.Txn) (w Written, more bool, err error) {
	res, err := s.c.commit(ctx, cmd, frame, txn, resendable(txn.Token != ""))
	if err != nil {
		return w, false, err
	}
	w.Revision = res.Revision
	if len(res.Ops) != 1 {
		return w, false, unreadable(&protocol.ReplyError{Member: "results"})
	}
	did := &res.Ops[0]
	w.Entry = did.Entry
	if !res.Held {
		return w, false, codes.Errorf(codes.Conflict, "changed by another client: %s", standing(did.Entry))
	}
	w.Prev, w.Count = did.Prev, did.Count
	return w, did.More, nil
}

func standing(e *kv.Entry) string {
	if e == nil {
		return "the key is absent"
	}
	return fmt.Sprintf("the key is at revision %d", e.Mod)
}

func (c *Client) commit(ctx context.Context, cmd protocol.Command, frame []byte, txn *kv.Txn, how manner) (*kv.Result, error) {
	return ask(ctx, c, cmd, frame, how, func(body []byte) (*kv.Result, error) { return protocol.ParseKVResult(cmd, body, txn) })
}
