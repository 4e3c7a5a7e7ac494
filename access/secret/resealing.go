package secret

import (
	"cmp"
	"context"
	"strings"
	"time"

	"confcenter/access"
	"confcenter/codes"
	"confcenter/kv"
	"confcenter/kv/embedded"
)

// Documents are the configurations, as far as sealed values are concerned.
type Documents interface {
	// SealedAfter lists those with sealed values of their own, in the order of their names, behind a
	// name: at most limit.
	SealedAfter(name string, limit int) []string
	// CountSealed counts the sealed values of one by their data keys.
	CountSealed(name string, uses Uses)
	// Reseal seals the values of one by the newest data key, and returns how many were not before.
	// Its readers are not told. codes.Conflict: it has changed meanwhile.
	Reseal(ctx context.Context, name string, by *access.Actor) (int64, error)
}

// Over gives Keys the documents, which open after them.
func (k *Keys) Over(d Documents) { k.documents.Store(&d) }

// Limits of a step of resealing.
const (
	stepWrites = 64     // documents and keys that are written: each waits for the disk
	stepLooks  = 20_000 // keys that are looked at
	pageKeys   = 1000   // keys that are read at a time
	attempts   = 3      // at one document or key that others write
	stepTime   = 2 * time.Second
)

// ResealAsk asks for one step of sealing values anew.
type ResealAsk struct {
	From string `json:"from,omitempty" doc:"where to go on: next of the step before; absent: at the beginning"`
}

// Resealed is what a step has done.
type Resealed struct {
	Newest    string `json:"newest" doc:"the data key that seals"`
	Documents int64  `json:"documents" doc:"values in files that were sealed again"`
	Keys      int64  `json:"keys" doc:"values in keys of the state store that were sealed again"`
	Left      int64  `json:"left" doc:"values that this step has come across and that other data keys still seal"`
	Why       string `json:"why,omitempty" doc:"why the first of these was left"`
	Next      string `json:"next,omitempty" doc:"where the next step goes on; absent: that was all"`
}

// Reseal goes through a part of what there is, documents first, and has the values sealed by the newest
// data key that older ones seal. It begins anywhere, and can be asked for again at any time: what is
// done stays done. A caller that may reveal reads the same as before, and of documents no reader is
// told; a key that is written has a new revision, of which watches are told. What another client writes
// meanwhile stays. codes.NotImplemented: there is no key that seals. codes.BadRequest: From is none.
func (k *Keys) Reseal(ctx context.Context, by *access.Actor, q *ResealAsk) (*Resealed, error) {
	ring := k.Ring()
	if !ring.Seals() {
		return nil, codes.Errorf(codes.NotImplemented, "there is no data key that seals: see trouble of confcenter secret status")
	}
	actor := access.Actor{Origin: access.Server}
	if by != nil {
		actor = *by
	}
	actor.Token, actor.Comment = "", "sealed by the data key "+ring.Newest()
	s := &step{keys: k, ring: ring, by: &actor, did: &Resealed{Newest: ring.Newest()}, until: k.cfg.Clock.Now().Add(stepTime)}
	name, ofDocument := strings.CutPrefix(q.From, OfDocument)
	ns, key, ofKey := KeyOf(q.From)
	switch {
	case q.From == "" || ofDocument:
		if more, err := s.documents(ctx, name); err != nil || more {
			return s.did, err
		}
	case !ofKey:
		return nil, codes.Errorf(codes.BadRequest, "from %.40q is not what a step has said in next", q.From)
	}
	return s.did, s.namespaces(ctx, ns, key)
}

// step is a step of resealing.
type step struct {
	keys   *Keys
	ring   *Ring
	by     *access.Actor
	did    *Resealed
	until  time.Time
	writes int
	looks  int
}

// over reports whether the rest is for another step. One document or key is done in any case.
func (s *step) over() bool {
	n := s.writes + s.looks
	return s.writes >= stepWrites || s.looks >= stepLooks || n > 0 && s.keys.cfg.Clock.Now().After(s.until)
}

// left notes values that stay as they are.
func (s *step) left(uses Uses, err error) {
	n := uses.Others(s.ring.Newest())
	s.did.Left += n
	switch {
	case n == 0 || s.did.Why != "":
	case err != nil:
		s.did.Why = codes.Message(err)
	default:
		s.did.Why = "they cannot be opened: their data key is not here, or they are no sealed values but look like some"
	}
}

// documents seals those behind a name anew, and reports whether there are more.
func (s *step) documents(ctx context.Context, after string) (more bool, err error) {
	all := s.keys.documents.Load()
	if all == nil {
		return false, nil
	}
	for _, name := range (*all).SealedAfter(after, stepWrites+1) {
		if s.over() {
			s.did.Next = OfDocument + after
			return true, nil
		}
		s.writes++
		after = name
		var failed error
		for range attempts {
			var n int64
			n, failed = (*all).Reseal(ctx, name, s.by)
			s.did.Documents += n
			if codes.Of(failed) != codes.Conflict {
				break
			}
		}
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		uses := Uses{}
		(*all).CountSealed(name, uses)
		s.left(uses, failed)
	}
	return false, nil
}

// namespaces seals the values of keys anew, from behind a key of a namespace on.
func (s *step) namespaces(ctx context.Context, ns, key string) error {
	return s.keys.eachKey(ns, key, func(e *kv.Entry) (bool, error) {
		if s.over() {
			s.did.Next = OfKey(ns, key)
			return false, nil
		}
		ns, key = e.NS, e.Key
		s.looks++
		if e.Value.Type != kv.JSON || !Has(e.Value.Data) {
			return true, nil
		}
		return true, s.key(ctx, e)
	})
}

// key seals the values of one key anew, unless other clients write it all the time.
func (s *step) key(ctx context.Context, e *kv.Entry) error {
	var failed error
	for range attempts {
		value, n := s.ring.Reseal(e.Value.Data)
		if n == 0 {
			failed = nil
			break
		}
		s.writes++
		same := kv.Compare{NS: e.NS, Key: e.Key, Target: kv.CompareMod, Relation: kv.Equal, Number: int64(e.Mod)}
		put := kv.Op{Kind: kv.OpPut, NS: e.NS, Key: e.Key, Value: kv.JSONValue(value), Expires: e.Expires, Lease: e.Lease}
		var res *kv.Result
		res, failed = s.keys.store.Txn(ctx, &kv.Txn{If: []kv.Compare{same}, Then: []kv.Op{put}, System: true, Actor: s.by})
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if failed == nil && res.Held {
			s.did.Keys += n
			return s.count(value, nil)
		}
		now := s.keys.store.Get(e.NS, e.Key)
		if now == nil || now.Value.Type != kv.JSON {
			return nil // it has gone, or is something else
		}
		failed = cmp.Or(failed, error(codes.Errorf(codes.Conflict, "key %.64q of %.64q is written all the time", e.Key, e.NS)))
		e = now
	}
	return s.count(e.Value.Data, failed)
}

func (s *step) count(valid []byte, failed error) error {
	uses := Uses{}
	uses.Count(valid)
	s.left(uses, failed)
	return nil
}

// eachKey calls fn for each key behind a key of a namespace that peers may write to, in their order,
// until it returns false.
func (k *Keys) eachKey(ns, after string, fn func(*kv.Entry) (bool, error)) error {
	for ; ; after = "" {
		if ns != "" && kv.Guarded(ns) == "" {
			for e, err := range embedded.Each(k.store.List, kv.List{NS: ns, After: after, Limit: pageKeys}) {
				on := err == nil
				if on {
					on, err = fn(e)
				}
				if !on || err != nil {
					return err
				}
			}
		}
		next, _ := k.cfg.Namespaces(ns, 1)
		if len(next) == 0 {
			return nil
		}
		ns = next[0].Name
	}
}

// uses counts the values that each data key seals, in what there is now.
func (k *Keys) uses(ctx context.Context) (Uses, error) {
	uses := Uses{}
	if all := k.documents.Load(); all != nil {
		for after := ""; ; {
			names := (*all).SealedAfter(after, pageKeys)
			if len(names) == 0 {
				break
			}
			for _, name := range names {
				(*all).CountSealed(name, uses)
			}
			after = names[len(names)-1]
		}
	}
	return uses, k.eachKey("", "", func(e *kv.Entry) (bool, error) {
		if e.Value.Type == kv.JSON && Has(e.Value.Data) {
			uses.Count(e.Value.Data)
		}
		return true, ctx.Err()
	})
}
