package kvstore

import (
	"cmp"
	"sync/atomic"

	"confcenter/codes"
	"confcenter/internal/memory"
	"confcenter/kv"
)

// tokens holds the request tokens that are remembered. Only the committer uses it.
//
// When the limit is reached, the holder with most bytes loses its oldest tokens, so that one client
// cannot evict another's.
type tokens struct {
	limit int     // set at open
	held  account // its pool's limit is theirs

	byName  shrinking[tokenName, *Token]
	holders map[string]*holder
	byBytes minHeap[*holder] // by who has most
	byAge   minHeap[*holder] // by who has the oldest
	queued  int              // in all queues
	bytes   int64            // in memory, of those in the queues
	aged    []*Token         // too old, and hidden by those of the group under way
	out     kv.Revision      // all tokens up to it were dropped because there were too many; 0: none
	evicted []kv.Revision    // those of others that were
	count   atomic.Int64     // for Stats
}

type tokenName struct{ ns, name string }

func (t *Token) name() tokenName { return tokenName{t.NS, t.Name} }

// holder groups tokens by proved identity; all clients without one share one.
type holder struct {
	who   string
	queue []*Token // oldest first; empty only while one is added
	bytes int64

	bytesAt, ageAt int // places in the heaps
}

func newTokens(limit int, pool *memory.Pool) *tokens {
	return &tokens{limit: limit, held: account{pool: pool}, byName: shrinking[tokenName, *Token]{of: map[tokenName]*Token{}}, holders: map[string]*holder{},
		byBytes: minHeap[*holder]{when: func(h *holder) int64 { return -h.bytes }, place: func(h *holder) *int { return &h.bytesAt }},
		byAge:   minHeap[*holder]{when: func(h *holder) int64 { return int64(h.queue[0].Revision) }, place: func(h *holder) *int { return &h.ageAt }}}
}

func tokenBytes(t *Token) int64 {
	return memory.TokenCost + bytesCost(len(t.Name)) + bytesCost(len(t.Result))
}

// mostResult is how many bytes of values the result of a transaction may have that has a token.
// One that takes more than half of the room would have the tokens of others forgotten.
func (t *tokens) mostResult(who string) int64 {
	if who == "" {
		return kv.MaxTxnBytes
	}
	return min(kv.MaxTxnBytes, t.held.pool.Limit()/2)
}

func (t *tokens) find(ns, name string) *Token { return t.byName.of[tokenName{ns, name}] }

// add remembers a token that has been applied already.
func (t *tokens) add(token *Token) {
	token.own = cmp.Or(token.own, token.Time)
	t.give(token, nil)
	t.keep(token)
}

// give has a token found that the group under way gives out, in place of one that is too old, if
// there is one. It is kept or taken back.
func (t *tokens) give(token, aged *Token) {
	if a := t.holders[token.Who]; a != nil {
		token.Who = a.who // one text for many
		if newest := a.queue[len(a.queue)-1]; newest.NS == token.NS {
			token.NS = newest.NS
		}
	}
	t.byName.of[token.name()] = token
	if aged != nil {
		t.aged = append(t.aged, aged)
	}
}

// takeBack forgets the tokens that a group gave out.
func (t *tokens) takeBack(group []Commit) {
	for i := range group {
		if token := group[i].Token; token != nil {
			delete(t.byName.of, token.name())
		}
	}
	for _, token := range t.aged {
		t.byName.of[token.name()] = token
	}
	t.aged = emptied(t.aged)
}

// keep remembers a token that was given out and drops old ones while there are too many or they
// take too much space, but never the one just added. The log has it, so it is not changed any more.
func (t *tokens) keep(token *Token) {
	a := t.holders[token.Who]
	if a == nil {
		a = &holder{who: token.Who, bytesAt: -1, ageAt: -1}
		t.holders[a.who] = a
	}
	a.queue = append(a.queue, token)
	t.weigh(a, tokenBytes(token))
	for t.queued > t.limit || t.bytes > t.held.pool.Limit() {
		if len(a.queue) == 1 {
			t.byBytes.remove(a)
		}
		most, others := t.byBytes.first()
		if !others {
			break
		}
		t.evict(most)
	}
	t.byBytes.set(a)
	t.count.Store(int64(len(t.byName.of)))
}

// weigh counts a token that has come into a holder's queue or, if bytes is below 0, has left it.
func (t *tokens) weigh(a *holder, bytes int64) {
	if t.queued++; bytes < 0 {
		t.queued -= 2
	}
	a.bytes += bytes
	t.bytes += bytes
	if len(a.queue) == 0 {
		t.byBytes.remove(a)
		t.byAge.remove(a)
		delete(t.holders, a.who)
		return
	}
	t.byBytes.set(a)
	t.byAge.set(a)
}

// settled ends a group: it gives room back, and tells the pool what is in use.
func (t *tokens) settled() {
	t.byName.shrink(nil)
	t.aged = emptied(t.aged)
	t.held.tell(t.bytes)
}

// forget forgets the tokens from before a time of the monotonic clock.
func (t *tokens) forget(before int64) {
	for {
		oldest, any := t.byAge.first()
		if !any || oldest.queue[0].own >= before {
			break
		}
		t.forgetOldest(oldest)
	}
	t.count.Store(int64(len(t.byName.of)))
}

// evict drops a holder's oldest token for lack of room.
func (t *tokens) evict(h *holder) {
	rev := h.queue[0].Revision
	if oldest, _ := t.byAge.first(); oldest == h {
		t.out = rev
	} else {
		t.evicted = append(t.evicted, rev)
	}
	t.forgetOldest(h)
}

// crowdedOut returns what was dropped for lack of room since the last call: all tokens up to a
// revision, 0 if it is none, and those of others.
func (t *tokens) crowdedOut() (through kv.Revision, others []kv.Revision) {
	through, others = t.out, t.evicted
	t.out, t.evicted = 0, nil
	return through, others
}

func (t *tokens) forgetOldest(h *holder) {
	oldest := h.queue[0]
	h.queue[0] = nil
	h.queue = h.queue[1:] // append moves what is left, when there is no more room
	t.weigh(h, -tokenBytes(oldest))
	if name := oldest.name(); t.byName.of[name] == oldest { // and not used again
		delete(t.byName.of, name)
	}
}

// replay returns the original result of a repeated transaction.
func (t *tokens) replay(known *Token, txn *kv.Txn, digest [16]byte) (*kv.Result, error) {
	if known.Digest != digest {
		return nil, codes.Errorf(codes.TokenReused, "token %q of namespace %q belongs to another request", txn.Token, txn.TokenNS)
	}
	return parseResult(known.Result, txn, known.Revision)
}
