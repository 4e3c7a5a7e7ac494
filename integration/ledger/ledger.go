// Package ledger remembers what a state store has acknowledged, and finds out whether it is
// true: for tests that kill, stop and attack the server meanwhile.
//
// A Load writes and watches. After whatever has happened to the server, Check compares what
// it serves with what was acknowledged, and NothingMissed what the watch was told.
package ledger

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/integration/process"
	"confcenter/internal/servertest"
	"confcenter/protocol"
)

// How much a load does at once.
const (
	Writers       = 4
	keysPerWriter = 6
	batchKeys     = 5
)

// Namespace is what a load writes to.
const Namespace = "soak"

// Book is what the outside world knows about the namespace. It never learns from the
// server's own files.
type Book struct {
	// Refusals allows writes to be refused; they count as never acknowledged.
	Refusals bool

	t       testing.TB
	writers []*writer
	watcher *watcher
	rev     int64 // newest revision that anyone was told of
}

// Open makes an empty book, which fails t.
func Open(t testing.TB, seed uint64) *Book {
	b := &Book{t: t, watcher: &watcher{told: map[string]map[int64]string{}}}
	for i := range Writers {
		w := &writer{book: b, id: i, rand: rand.New(rand.NewPCG(seed, uint64(i)+2))}
		for k := range keysPerWriter {
			w.keys = append(w.keys, newEntry(fmt.Sprintf("key/%d/%d", i, k)))
		}
		for k := range batchKeys {
			w.batch = append(w.batch, newEntry(fmt.Sprintf("batch/%d/%d", i, k)))
		}
		b.writers = append(b.writers, w)
	}
	return b
}

// Counts are of all loads so far.
type Counts struct {
	Acked   int // writes that were acknowledged
	Refused int // that were refused
	Retried int // increments sent again, because their fate was unknown
	Lapses  int // how often the watch was told to begin anew
}

// Counts adds up.
func (b *Book) Counts() Counts {
	c := Counts{Lapses: b.watcher.lapses}
	for _, w := range b.writers {
		c.Acked, c.Refused, c.Retried = c.Acked+w.acked, c.Refused+w.refused, c.Retried+w.retried
	}
	return c
}

// Load is writers and a watch at work.
type Load struct {
	book     *Book
	follower *servertest.Peer
	stop     atomic.Bool
	writing  sync.WaitGroup
	watching sync.WaitGroup
	errs     [Writers + 1]error
	lost     [Writers]bool // by writer: its connection has ended
}

// Load begins on new connections. End it with Stop or Killed.
func (b *Book) Load(p *process.Process) *Load {
	b.t.Helper()
	l := &Load{book: b, follower: p.Peer()}
	b.watch(l.follower)
	l.watching.Go(func() { l.errs[Writers] = b.watcher.run(l.follower) })
	for i, w := range b.writers {
		peer := p.Peer()
		l.writing.Go(func() { l.lost[i], l.errs[i] = w.run(peer, &l.stop) })
	}
	return l
}

// Stop lets the writers finish. None may have lost its connection.
func (l *Load) Stop() {
	l.book.t.Helper()
	l.stop.Store(true)
	l.writing.Wait()
	_ = l.follower.Close()
	l.end()
	require.NotContains(l.book.t, l.lost, true, "a writer has lost its connection")
}

// Killed waits for the end of a load whose server was killed.
func (l *Load) Killed() {
	l.book.t.Helper()
	l.writing.Wait()
	l.end()
}

func (l *Load) end() {
	l.book.t.Helper()
	l.watching.Wait()
	require.NoError(l.book.t, errors.Join(l.errs[:]...))
	b := l.book
	b.rev = max(b.rev, b.watcher.rev)
	for _, w := range b.writers {
		b.rev = max(b.rev, w.rev)
	}
}

// watch resumes where the last watch ended.
func (b *Book) watch(p *servertest.Peer) {
	b.t.Helper()
	from := ""
	if b.watcher.rev > 0 {
		from = fmt.Sprintf(`,"from":%d`, b.watcher.rev)
	}
	b.call(p, protocol.KVWatch, fmt.Sprintf(`{"ns":%q%s}`, Namespace, from))
}

func (b *Book) call(p *servertest.Peer, cmd protocol.Command, body string) reply {
	b.t.Helper()
	var r reply
	text := p.Call(cmd, body)
	require.NoError(b.t, json.Unmarshal([]byte(text), &r), text)
	require.Contains(b.t, []int{0, 404}, r.Code, text)
	return r
}

// Check compares what is served with what is known: every acknowledged write is there, a
// batch is whole, no increment has happened twice, and revisions have not gone back.
func (b *Book) Check(server *process.Process) {
	b.t.Helper()
	p := server.Peer()
	defer p.Close()
	for _, w := range b.writers {
		for _, l := range append(w.keys[:len(w.keys):len(w.keys)], w.batch...) {
			b.judge(l, b.call(p, protocol.KVGet, fmt.Sprintf(`{"ns":%q,"key":%q}`, Namespace, l.key)))
		}
		for _, l := range w.batch {
			require.Equal(b.t, w.batch[0].must, l.must, "half of a batch")
		}
		for _, r := range w.unsure {
			b.call(p, r.cmd, r.body)
		}
		w.retried += len(w.unsure)
		w.unsure = nil
		if w.tokens > 0 {
			got := b.call(p, protocol.KVGet, fmt.Sprintf(`{"ns":%q,"key":%q}`, Namespace, w.counter()))
			require.Equal(b.t, strconv.Itoa(w.tokens), got.Value, "increments of %s", w.counter())
		}
	}
}

func (b *Book) judge(l *entry, got reply) {
	b.t.Helper()
	require.GreaterOrEqual(b.t, got.Rev, b.rev, "the revision has gone back")
	b.rev = got.Rev
	place, err := l.place(got)
	require.NoError(b.t, err)
	if place == l.must && l.rev > 0 && got.Code == 0 {
		require.Equal(b.t, l.rev, got.Mod, "%s has another revision than was acknowledged", l.key)
	}
	l.must, l.rev = place, 0
	if got.Code == 0 {
		l.rev = got.Mod
	}
	clear(l.writes[:max(place, 0)]) // nothing older may come back
}

// place finds the write that a state comes from, not older than must.
func (l *entry) place(got reply) (int, error) {
	if got.Code == 0 {
		place, err := strconv.Atoi(strings.TrimSpace(got.Value))
		switch {
		case err != nil || place >= len(l.writes) || l.writes[place] != got.Value:
			return 0, fmt.Errorf("%s holds what nobody wrote: %.80q", l.key, got.Value)
		case place < l.must:
			return 0, fmt.Errorf("%s holds write %d; write %d was acknowledged", l.key, place, l.must)
		}
		return place, nil
	}
	if l.must == noState {
		return noState, nil
	}
	for i := l.must; i < len(l.writes); i++ {
		if l.writes[i] == "" {
			return i, nil
		}
	}
	return 0, fmt.Errorf("%s is gone; write %d was acknowledged and none since deletes it", l.key, l.must)
}

// catchUp resumes the watch until it is told of a revision, or closed.
func (b *Book) catchUp(server *process.Process, rev int64) {
	b.t.Helper()
	p := server.Peer()
	defer p.Close()
	b.watch(p)
	for b.watcher.rev < rev {
		f, err := p.TryNext()
		if err != nil {
			b.t.Logf("the watch was closed: %v", err)
			return
		}
		require.NoError(b.t, b.watcher.take(f))
	}
}

// NothingMissed lets the watch catch up and compares every acknowledgement since the last
// time with what it was told. It is not for the time of a Load.
func (b *Book) NothingMissed(server *process.Process) {
	b.t.Helper()
	writer := server.Peer()
	defer writer.Close()
	last := b.call(writer, protocol.KVPut, fmt.Sprintf(`{"ns":%q,"key":"end","value":"end"}`, Namespace))
	for begun := time.Now(); b.watcher.rev < last.Rev; { // a watch that is closed is resumed, as a client does
		require.Less(b.t, time.Since(begun), 3*servertest.Patience, "the watch does not catch up: %s", server.Said())
		b.catchUp(server, last.Rev)
	}
	b.rev = max(b.rev, last.Rev)
	for _, w := range b.writers {
		for _, l := range append(w.keys[:len(w.keys):len(w.keys)], w.batch...) {
			for rev, value := range l.acked {
				told, ok := b.watcher.told[l.key][rev]
				if rev <= b.watcher.floor && !ok {
					continue
				}
				require.True(b.t, ok, "%s: revision %d was acknowledged and never told", l.key, rev)
				require.Equal(b.t, value, told, "%s at revision %d", l.key, rev)
			}
			clear(l.acked)
		}
	}
	clear(b.watcher.told)
}
