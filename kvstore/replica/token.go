package replica

import (
	"cmp"
	"sync/atomic"

	"confcenter/codes"
	"confcenter/internal/memory"
	"confcenter/kv"
)

// tokens holds the request tokens that are remembered. Only the committer uses it.
//
// If there are too many, the asker that has most loses the oldest ones: no one can have those of
// others forgotten by asking for much.
type tokens struct {
	limit int     // set at open
	held  account // its pool's limit is theirs

	byName shrinking[tokenName, *Token]
	askers map[string]*asker
	heavy  agenda[*asker] // by who has most
	aged   agenda[*asker] // by who has the oldest
	queued int            // in all queues
	bytes  int64          // in memory, of those in the queues
	out    kv.Revision    // all tokens up to it were dropped because there were too many; 0: none
	outs   []kv.Revision  // those of others that were
	count  atomic.Int64   // for Stats
}

type tokenName struct{ ns, name string }

// asker is who was proved to use some tokens; all who were not are one.
type asker struct {
	who   string
	queue []*Token // oldest first; empty only while one is added
	bytes int64

	heavyAt, agedAt int // places in the agendas
}

func newTokens(limit int, pool *memory.Pool) *tokens {
	return &tokens{limit: limit, held: account{pool: pool}, byName: shrinking[tokenName, *Token]{of: map[tokenName]*Token{}}, askers: map[string]*asker{},
		heavy: agenda[*asker]{when: func(a *asker) int64 { return -a.bytes }, place: func(a *asker) *int { return &a.heavyAt }},
		aged:  agenda[*asker]{when: func(a *asker) int64 { return int64(a.queue[0].Revision) }, place: func(a *asker) *int { return &a.agedAt }}}
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

// add remembers a token and drops old ones while there are too many or they take too much
// space, but never the one just added.
func (t *tokens) add(token *Token) {
	token.own = cmp.Or(token.own, token.Time)
	a := t.askers[token.Who]
	if a == nil {
		a = &asker{who: token.Who, heavyAt: -1, agedAt: -1}
		t.askers[a.who] = a
	} else {
		token.Who = a.who // one text for many
		if newest := a.queue[len(a.queue)-1]; newest.NS == token.NS {
			token.NS = newest.NS
		}
	}
	t.byName.of[tokenName{token.NS, token.Name}] = token
	a.queue = append(a.queue, token)
	t.weigh(a, tokenBytes(token))
	for t.queued > t.limit || t.bytes > t.held.pool.Limit() {
		if len(a.queue) == 1 {
			t.heavy.remove(a)
		}
		most, others := t.heavy.first()
		if !others {
			break
		}
		t.crowdOut(most)
	}
	t.heavy.set(a)
	t.count.Store(int64(len(t.byName.of)))
}

// weigh counts a token that has come into an asker's queue or, if bytes is below 0, has left it.
func (t *tokens) weigh(a *asker, bytes int64) {
	if t.queued++; bytes < 0 {
		t.queued -= 2
	}
	a.bytes += bytes
	t.bytes += bytes
	if len(a.queue) == 0 {
		t.heavy.remove(a)
		t.aged.remove(a)
		delete(t.askers, a.who)
		return
	}
	t.heavy.set(a)
	t.aged.set(a)
}

// settled ends a group: it gives room back, and tells the pool what is in use.
func (t *tokens) settled() {
	t.byName.shrink(nil)
	t.held.tell(t.bytes)
}

// forget forgets the tokens from before a time of the monotonic clock.
func (t *tokens) forget(before int64) {
	for {
		oldest, any := t.aged.first()
		if !any || oldest.queue[0].own >= before {
			break
		}
		t.forgetOldest(oldest)
	}
	t.count.Store(int64(len(t.byName.of)))
}

// crowdOut drops an asker's oldest token for lack of room.
func (t *tokens) crowdOut(a *asker) {
	rev := a.queue[0].Revision
	if oldest, _ := t.aged.first(); oldest == a {
		t.out = rev
	} else {
		t.outs = append(t.outs, rev)
	}
	t.forgetOldest(a)
}

// crowdedOut returns what was dropped for lack of room since the last call: all tokens up to a
// revision, 0 if it is none, and those of others.
func (t *tokens) crowdedOut() (through kv.Revision, others []kv.Revision) {
	through, others = t.out, t.outs
	t.out, t.outs = 0, nil
	return through, others
}

func (t *tokens) forgetOldest(a *asker) {
	oldest := a.queue[0]
	a.queue[0] = nil
	a.queue = a.queue[1:] // append moves what is left, when there is no more room
	t.weigh(a, -tokenBytes(oldest))
	name := tokenName{oldest.NS, oldest.Name}
	if t.byName.of[name] == oldest { // and not used again since it was loaded
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
