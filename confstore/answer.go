package confstore

import (
	"bytes"
	"reflect"
	"slices"
	"sync/atomic"
)

// maxAnswerBytes is how long the finished answers are at most that nodes keep: longer ones are quicker to
// write than worth the memory.
const maxAnswerBytes = 4 << 10

// answers are finished replies for the whole document, one list for each form. They are kept
// in the node, and the name within the reply, because reading many documents is mostly
// waiting for memory.
type answers struct {
	own, merged atomic.Pointer[answer]
	bytes       atomic.Int64 // counted for this node; far below 0 once it is retired
}

// answer is one reply and, in a chain, those for other spellings.
type answer struct {
	body          []byte
	name, nameEnd int // where in body the name is
	next          *answer
}

func (a *answers) of(inherit bool) *atomic.Pointer[answer] {
	if inherit {
		return &a.merged
	}
	return &a.own
}

// Answer returns what KeepAnswer was given for this spelling of the name, nil if nothing. It
// must not be changed.
func (n *Node) Answer(inherit bool, name []byte) []byte {
	for a := n.answers.of(inherit).Load(); a != nil; a = a.next {
		if string(a.body[a.name:a.nameEnd]) == string(name) {
			return a.body
		}
	}
	return nil
}

// KeepAnswer keeps a finished answer for the whole document with the node, for the next
// request. name is the JSON string of the request; body contains it and is copied. Long
// answers are not kept, nor answers to names with escapes, of which there are endlessly many
// spellings, while there are only two without.
func (n *Node) KeepAnswer(inherit bool, name, body []byte) {
	at, size, pool := bytes.Index(body, name), int64(reflect.TypeFor[answer]().Size())+int64(len(body)), n.limits.cache.pool
	if at < 0 || len(body) > maxAnswerBytes || bytes.IndexByte(name, '\\') >= 0 ||
		n.answers.bytes.Load() < 0 || !pool.Fits(size) {
		return
	}
	list := n.answers.of(inherit)
	first := list.Load()
	for a := first; a != nil; a = a.next {
		if string(a.body[a.name:a.nameEnd]) == string(name) {
			return
		}
	}
	a := &answer{body: slices.Clone(body), name: at, nameEnd: at + len(name), next: first}
	// The loser of a race keeps nothing; the next request tries again.
	if list.CompareAndSwap(first, a) && n.answers.bytes.Add(size) > 0 {
		pool.Add(size)
	}
}

// retireAnswers stops counting those of a node that leaves the snapshot.
func (n *Node) retireAnswers() {
	const never = -1 << 60
	n.limits.cache.pool.Give(max(0, n.answers.bytes.Swap(never)))
}
