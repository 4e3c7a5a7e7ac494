package suite

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"confcenter/kv"

	"github.com/stretchr/testify/require"
)

// load writes to a few keys of three namespaces and knows, without asking the engine, what every
// watcher must be told.
type load struct {
	s      *subject
	random *rand.Rand
	values map[name]string
	writes int
	truth  []moment
}

// moment is one transaction that was answered, and what it did.
type moment struct {
	revision kv.Revision
	events   map[name]string // as eventTexts
}

func newLoad(s *subject, seed uint64) *load {
	return &load{s: s, random: rand.New(rand.NewPCG(seed, 1)), values: map[name]string{}}
}

func (l *load) key() name {
	return name{[]string{"a", "ab", "b"}[l.random.IntN(3)], []string{"x", "x/1", "x/2", "y"}[l.random.IntN(4)]}
}

// run commits n transactions, several of them concurrently.
func (l *load) run(n int) {
	l.s.Helper()
	const together = 20
	for n > 0 {
		size := min(n, together)
		n -= size
		answers := make([]<-chan outcome, size)
		moments := make([]moment, size)
		for i := range answers {
			var txn *kv.Txn
			txn, moments[i].events = l.next()
			answers[i] = l.s.start(txn)
		}
		for i, answer := range answers {
			o := soon(l.s, answer, "a write")
			require.NoError(l.s, o.err)
			moments[i].revision = o.result.Revision
			if len(moments[i].events) > 0 {
				l.truth = append(l.truth, moments[i])
			}
		}
	}
}

func (l *load) next() (*kv.Txn, map[name]string) {
	txn, before, touched := &kv.Txn{}, map[name]string{}, map[name]bool{}
	for range 1 + l.random.IntN(4) {
		n := l.key()
		if !touched[n] {
			touched[n] = true
			if v, exists := l.values[n]; exists {
				before[n] = v
			}
		}
		if l.random.IntN(4) == 0 {
			txn.Then = append(txn.Then, deleteOp(n.ns, n.key))
			delete(l.values, n)
			continue
		}
		l.writes++
		l.values[n] = fmt.Sprint(l.writes)
		txn.Then = append(txn.Then, putOp(n.ns, n.key, l.values[n]))
	}
	events := map[name]string{}
	for n := range touched {
		_, existed := before[n]
		v, exists := l.values[n]
		switch {
		case exists:
			events[n] = fmt.Sprintf("put %s %s %s", n.ns, n.key, v)
		case existed:
			events[n] = fmt.Sprintf("delete %s %s", n.ns, n.key)
		}
	}
	return txn, events
}

// expected returns what a watcher with that filter must be told of the changes after from: each
// event with its revision, in order.
func (l *load) expected(f kv.Filter, from kv.Revision) []string {
	var list []string
	for _, m := range l.truth {
		if m.revision <= from {
			continue
		}
		var names []name
		for n := range m.events {
			if f.Match(n.ns, n.key) {
				names = append(names, n)
			}
		}
		slices.SortFunc(names, compareNames)
		for _, n := range names {
			list = append(list, fmt.Sprintf("%d %s", m.revision, m.events[n]))
		}
	}
	return list
}

func (l *load) last() kv.Revision {
	if len(l.truth) == 0 {
		return 0
	}
	return l.truth[len(l.truth)-1].revision
}

// matching returns the current state, for comparing with what a watcher believes.
func (l *load) matching(f kv.Filter) map[name]string {
	list := map[name]string{}
	for n, v := range l.values {
		if f.Match(n.ns, n.key) {
			list[n] = v
		}
	}
	return list
}
