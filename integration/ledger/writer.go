package ledger

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"confcenter/internal/servertest"
	"confcenter/protocol"
)

// reply is what a book reads of replies and events, with a decoder that is not the
// product's.
type reply struct {
	Code    int
	Desc    string
	Rev     int64
	Mod     int64
	Version int64
	Value   string
	Deleted int
	Watch   int
	Resync  int
	State   int
	Synced  int
	More    int
	Events  []struct {
		Op, Key, Value string
		Mod            int64
	}
}

// entry is what the outside world knows about one key. Each write carries its place
// in writes as its value; "" stands for a delete.
type entry struct {
	key    string
	writes []string
	must   int              // place of the last write that was acknowledged or seen
	rev    int64            // its revision, 0 if that is not known
	acked  map[int64]string // by revision, for the events
}

func newEntry(key string) *entry {
	return &entry{key: key, must: noState, acked: map[int64]string{}}
}

// noState is the place of a key that was never written.
const noState = -1

// request is a request in flight.
type request struct {
	cmd  protocol.Command
	body string
	// of a put or delete, or of a batch: the places it made
	entries []*entry
	places  []int
	token   bool // of an increment: it is sent until it is answered
}

// writer is one program: it has keys of its own, keys it writes together, and a
// counter.
type writer struct {
	book    *Book
	id      int
	rand    *rand.Rand
	keys    []*entry
	batch   []*entry
	tokens  int       // increments begun
	unsure  []request // increments that were not answered
	rev     int64     // greatest acknowledged
	acked   int
	refused int
	retried int
}

func (w *writer) counter() string { return fmt.Sprintf("count/%d", w.id) }

// next makes up a request and records it before it is sent.
func (w *writer) next() request {
	switch w.rand.IntN(10) {
	case 0:
		w.tokens++
		return request{cmd: protocol.KVIncr, token: true,
			body: fmt.Sprintf(`{"ns":%q,"key":%q,"by":1,"token":"w%d-%d"}`, Namespace, w.counter(), w.id, w.tokens)}
	case 1:
		r := request{cmd: protocol.KVTxn}
		var ops []string
		for _, l := range w.batch {
			l.writes = append(l.writes, strconv.Itoa(len(l.writes)))
			r.entries, r.places = append(r.entries, l), append(r.places, len(l.writes)-1)
			ops = append(ops, fmt.Sprintf(`{"op":"put","key":%q,"value":%q}`, l.key, l.writes[len(l.writes)-1]))
		}
		r.body = fmt.Sprintf(`{"ns":%q,"then":[%s]}`, Namespace, strings.Join(ops, ","))
		return r
	}
	l := w.keys[w.rand.IntN(len(w.keys))]
	r := request{cmd: protocol.KVPut, entries: []*entry{l}, places: []int{len(l.writes)}}
	value := strconv.Itoa(len(l.writes)) + strings.Repeat(" ", w.rand.IntN(1<<w.rand.IntN(14)))
	r.body = fmt.Sprintf(`{"ns":%q,"key":%q,"value":%q}`, Namespace, l.key, value)
	if w.rand.IntN(8) == 0 {
		value, r.cmd, r.body = "", protocol.KVDel, fmt.Sprintf(`{"ns":%q,"key":%q}`, Namespace, l.key)
	}
	l.writes = append(l.writes, value)
	return r
}

// run sends until it is told to stop or the connection ends, beginning with the increments
// whose fate is unknown.
func (w *writer) run(p *servertest.Peer, stop *atomic.Bool) (lost bool, err error) {
	in := bufio.NewReader(p.Conn)
	for !stop.Load() {
		requests := w.unsure
		w.unsure = nil
		w.retried += len(requests)
		for range 1 + w.rand.IntN(16) {
			requests = append(requests, w.next())
		}
		var frames []byte
		for i, r := range requests {
			frames = protocol.AppendFrame(frames, r.cmd, uint16(i), []byte(r.body))
		}
		err := p.SetDeadline(time.Now().Add(servertest.Patience))
		if err == nil {
			_, err = p.Conn.Write(frames)
		}
		for i, r := range requests {
			var f servertest.Frame
			if err == nil {
				f, err = servertest.ReadFrame(in)
			}
			if err != nil { // killed
				w.keep(requests[i:])
				return true, nil
			}
			if err := w.enter(r, uint16(i), f); err != nil {
				return false, err
			}
		}
	}
	return false, nil
}

func (w *writer) keep(unanswered []request) {
	for _, r := range unanswered {
		if r.token {
			w.unsure = append(w.unsure, r)
		}
	}
}

// enter records an acknowledgement.
func (w *writer) enter(r request, seq uint16, f servertest.Frame) error {
	var reply reply
	err := json.Unmarshal([]byte(f.Body), &reply)
	switch right := err == nil && f.Seq == seq && f.Command == r.cmd.Reply(); {
	case right && reply.Code == 0:
	case right && w.book.Refusals:
		w.refused++
		w.keep([]request{r})
		return nil
	default:
		return fmt.Errorf("%s %.200s answered with %s (%v)", r.cmd, r.body, f.String(), err)
	}
	w.acked++
	if r.token { // a repeated one has its first revision
		return nil
	}
	changed := r.cmd != protocol.KVDel || reply.Deleted == 1
	if reply.Rev < w.rev || changed && reply.Rev == w.rev {
		return fmt.Errorf("%.200s: revision %d after %d", r.body, reply.Rev, w.rev)
	}
	w.rev = reply.Rev
	for i, l := range r.entries {
		l.must, l.rev = r.places[i], 0
		if changed {
			l.rev = reply.Rev
			l.acked[reply.Rev] = l.writes[r.places[i]]
		}
	}
	return nil
}
