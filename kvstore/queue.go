package kvstore

import (
	"cmp"
	"reflect"
	"sync"
	"sync/atomic"

	"confcenter/codes"
	"confcenter/internal/clock"
	"confcenter/internal/memory"
	"confcenter/kv"
)

// queued is a transaction that waits for the committer. The result goes to done or, if
// that is nil, to caller.
type queued struct {
	txn    *kv.Txn
	done   func(*kv.Result, error)
	write  *kv.Write
	caller kv.Caller
	digest [16]byte // if it has a token
	size   int
}

// newResult makes room for a result: in the write if it came with one, else with one
// allocation for what nearly all transactions have, one operation.
func (q *queued) newResult(ops int) *kv.Result {
	if q.write != nil {
		return q.write.Room(ops)
	}
	if ops == 1 {
		one := &struct {
			kv.Result
			ops [1]kv.OpResult
		}{}
		one.Ops = one.ops[:]
		return &one.Result
	}
	return &kv.Result{Ops: make([]kv.OpResult, ops)}
}

// queue is what Commit has accepted. A transaction counts against the limits until
// the committer releases it.
type queue struct {
	// set at open
	maxCount int
	pool     *memory.Pool  // may use a share of it
	wake     chan struct{} // capacity 1: there is something to look at
	tokens   *tokens

	mu sync.Mutex

	// guarded by mu
	list     []queued
	count    int
	bytes    int
	closed   error // why nothing is accepted any more
	inFlight inFlight

	reserved atomic.Uint64 // transactions that found room in the reserve

	// committer only
	taken []queued // the front of the queue; those before pos are done
	pos   int
}

func newQueue(maxCount int, pool *memory.Pool, known *tokens) *queue {
	return &queue{maxCount: maxCount, pool: pool, tokens: known, wake: make(chan struct{}, 1)}
}

// reserve is how much more of a queue, one part in so many, administrators find room in: they have to
// act when others have filled it.
const reserve = 8

func (q *queue) maxBytes() int { return int(q.pool.Limit() / queueShares) }

// add queues transactions, in this order, and says how many: the error is why not
// the next.
func (q *queue) add(list ...queued) (taken int, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	idle, before := len(q.list) == 0, q.bytes
	for i := range list {
		if list[i].txn.System { // there is one at a time that is large, and others do not have to wait for it
			list[i].size = min(list[i].size, q.maxBytes()/2)
		}
		if err = q.refusedLocked(&list[i]); err != nil {
			break
		}
		q.list = append(q.list, list[i])
		q.count++
		q.bytes += list[i].size
		taken++
	}
	q.pool.Add(int64(q.bytes - before)) // once for all of a caller's
	if idle && taken > 0 {
		q.poke()
	}
	return taken, err
}

func (q *queue) refusedLocked(one *queued) error {
	switch maxBytes := q.maxBytes(); {
	case q.closed != nil:
		return q.unlessKnown(one, q.closed)
	case q.inFlight.late != nil && !one.txn.Patient:
		return q.unlessKnown(one, q.inFlight.late)
	case q.count < q.maxCount && (q.bytes+one.size <= maxBytes || q.count == 0):
		return nil
	case one.txn.Actor.Administrator() && q.count < q.maxCount+max(1, q.maxCount/reserve) && q.bytes+one.size <= maxBytes+maxBytes/reserve:
		q.reserved.Add(1)
		return nil
	case q.count >= q.maxCount:
		return codes.Errorf(codes.Busy, "%d transactions are waiting, which is the limit", q.count)
	default:
		q.pool.Refuse()
		return codes.Errorf(codes.Busy, "%d bytes of transactions are waiting, the limit is %d", q.bytes, maxBytes)
	}
}

// poke has the committer look.
func (q *queue) poke() { clock.Nudge(q.wake) }

// ended is why nothing is accepted any more, nil while something is.
func (q *queue) ended() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.closed
}

// close has add fail from now on.
func (q *queue) close(why error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = cmp.Or(q.closed, why)
	q.poke()
}

// take returns the next transactions, within the limits of a group but at least
// one if there is one. ended: there are none, and there will be none.
func (q *queue) take(maxCount, maxBytes int) (group []queued, ended bool) {
	if q.pos == len(q.taken) {
		clear(q.taken)
		q.pos = 0
		q.mu.Lock()
		q.taken, q.list = q.list, emptied(q.taken)
		ended = q.closed != nil && len(q.taken) == 0
		q.mu.Unlock()
	}
	from, bytes := q.pos, 0
	for q.pos < len(q.taken) && q.pos-from < maxCount && bytes < maxBytes {
		bytes += q.taken[q.pos].size
		q.pos++
	}
	return q.taken[from:q.pos], ended
}

// release makes room for as many as a finished group had.
func (q *queue) release(group []queued) {
	bytes := 0
	for i := range group {
		bytes += group[i].size
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.count -= len(group)
	q.bytes -= bytes
	q.pool.Give(int64(bytes))
}

func (q *queue) waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.count
}

// What a transaction takes of memory besides its texts and values, and each of its operations.
var (
	txnSize = int(reflect.TypeFor[kv.Txn]().Size())
	opSize  = int(reflect.TypeFor[kv.Op]().Size())
)

// sizeOf is about what a transaction holds of memory while it waits.
func sizeOf(txn *kv.Txn) int {
	size := txnSize + len(txn.Asked) + opSize*(len(txn.If)+len(txn.Then)+len(txn.Else)+len(txn.Fences))
	for i := range txn.If {
		size += len(txn.If[i].Key) + len(txn.If[i].Value.Data)
	}
	for _, ops := range [2][]kv.Op{txn.Then, txn.Else} {
		for i := range ops {
			size += len(ops[i].Key) + len(ops[i].Value.Data)
		}
	}
	return size
}
