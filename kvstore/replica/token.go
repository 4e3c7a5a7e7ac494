package replica

import (
	"slices"
	"sync/atomic"

	"confcenter/codes"
	"confcenter/internal/memory"
	"confcenter/kv"
)

// tokens holds the request tokens that are remembered. Only the committer uses it.
type tokens struct {
	limit int     // set at open
	held  account // its pool's limit is theirs

	byName map[tokenName]*Token
	most   int          // names since the map was made
	queue  []*Token     // oldest first
	bytes  int64        // in memory, of those in the queue
	out    kv.Revision  // newest of those dropped because there were too many
	count  atomic.Int64 // for Stats

	doubtful map[tokenName]bool // those of a group of which nobody knows what became of it; nil if there is none
}

type tokenName struct{ ns, name string }

func newTokens(limit int, pool *memory.Pool) *tokens {
	return &tokens{limit: limit, held: account{pool: pool}, byName: map[tokenName]*Token{}}
}

func tokenBytes(t *Token) int64 {
	return tokenCost + bytesCost(len(t.Name)) + bytesCost(len(t.Result))
}

func (t *tokens) find(ns, name string) *Token { return t.byName[tokenName{ns, name}] }

// add remembers a token and drops the oldest ones while there are too many or they take
// too much space, but never the one just added.
func (t *tokens) add(token *Token) {
	if n := len(t.queue); n > 0 && t.queue[n-1].NS == token.NS {
		token.NS = t.queue[n-1].NS // one text for many
	}
	t.byName[tokenName{token.NS, token.Name}] = token
	t.queue = append(t.queue, token)
	t.bytes += tokenBytes(token)
	for n := len(t.queue); n > t.limit || n > 1 && t.bytes > t.held.pool.Limit(); n-- {
		t.out = t.queue[0].Revision
		t.forgetOldest()
	}
	t.count.Store(int64(len(t.byName)))
}

// settled ends a group: it gives room back, and tells the pool what is in use.
func (t *tokens) settled() {
	t.byName, t.most = thinned(t.byName, t.most)
	if len(t.queue) == 0 {
		t.queue = nil
	}
	t.held.tell(t.bytes)
}

// replace replaces all tokens by these, oldest first.
func (t *tokens) replace(list []*Token) {
	for len(t.queue) > 0 {
		t.forgetOldest()
	}
	t.count.Store(0)
	for _, token := range list {
		t.add(token)
	}
}

// takeBack forgets a token whose transaction did not take effect as evaluated.
func (t *tokens) takeBack(token *Token) {
	last := len(t.queue) - 1
	for last >= 0 && t.queue[last] != token {
		last--
	}
	if last < 0 {
		return // crowded out by others of the group
	}
	t.queue = slices.Delete(t.queue, last, last+1)
	t.bytes -= tokenBytes(token)
	delete(t.byName, tokenName{token.NS, token.Name})
	t.count.Store(int64(len(t.byName)))
}

// forget forgets the tokens from before a time in ms since 1970.
func (t *tokens) forget(before int64) {
	if len(t.queue) == 0 || t.queue[0].Time >= before {
		return
	}
	for len(t.queue) > 0 && t.queue[0].Time < before {
		t.forgetOldest()
	}
	t.count.Store(int64(len(t.byName)))
}

// crowdedOut returns the newest revision whose token was dropped for lack of room since
// the last call, or 0.
func (t *tokens) crowdedOut() kv.Revision {
	rev := t.out
	t.out = 0
	return rev
}

// doubt remembers the tokens of transactions of which nobody knows whether they take effect:
// they must be neither replayed nor used anew before that is known.
func (t *tokens) doubt(commits []Commit) {
	t.doubtful = map[tokenName]bool{}
	for i := range commits {
		if token := commits[i].Token; token != nil {
			t.doubtful[tokenName{token.NS, token.Name}] = true
		}
	}
}

func (t *tokens) forgetOldest() {
	oldest := t.queue[0]
	t.queue[0] = nil
	t.queue = t.queue[1:] // append moves what is left, when there is no more room
	t.bytes -= tokenBytes(oldest)
	name := tokenName{oldest.NS, oldest.Name}
	if t.byName[name] == oldest { // and not used again since it was loaded
		delete(t.byName, name)
	}
}

// replay returns the original result of a repeated transaction.
func (t *tokens) replay(known *Token, txn *kv.Txn, digest [16]byte) (*kv.Result, error) {
	if known.Digest != digest {
		return nil, codes.Errorf(codes.TokenReused, "token %q of namespace %q belongs to another request", txn.Token, txn.TokenNS)
	}
	return parseResult(known.Result, txn, known.Revision)
}
