package state

import (
	"confcenter/kv"
	"confcenter/protocol"
	"confcenter/server/gate"
	"confcenter/server/loop"
)

// maxGetRun is how many KVGETs are looked up together.
const maxGetRun = loop.MaxGathered

// getRun is a pipeline of KVGETs of one peer. A get among many keys mostly waits for memory:
// looked up together, they wait together.
type getRun struct {
	asked   [maxGetRun]protocol.KVRead
	reads   [maxGetRun]kv.Read
	rev     kv.Revision // of the read
	n, next int
	sum     byte // of Prefetch
}

// foreseen are KVGETs of several peers that came at about the same time, one from each.
type foreseen struct {
	getRun
	at   [maxGetRun]*byte // the first byte of each frame, which identifies it
	done bool             // it was looked up: what comes is another run's
}

// lookAhead looks up the complete KVGETs at the front of b. It stops before anything that
// is not a plain get, which is then handled by itself.
func (f *Handlers) lookAhead(s *gate.Session, b []byte) int {
	d := deskOf(s)
	if a := &d.ahead; a.next < a.n && a.at[a.next] == &b[0] {
		d.run = &a.getRun
		return 1
	}
	d.run = &d.gets
	d.run.drop()
	d.run.collect(&s.Desk.Req, b)
	d.run.lookUp(f.store)
	return d.run.n
}

// Foresee records b if it is exactly one plain get.
func (f *Handlers) Foresee(s *gate.Session, b []byte) bool {
	if size, ok := protocol.WholeRequest(b, protocol.KVGet); !ok || size != len(b) {
		return false
	}
	q, ok := protocol.PlainKVGet(b[protocol.HeaderSize:])
	if !ok {
		return false
	}
	a := &deskOf(s).ahead
	if a.done {
		a.drop()
		a.done = false
	}
	a.at[a.n] = &b[0]
	a.add(q)
	return true
}

// LookUp looks up what was foreseen.
func (f *Handlers) LookUp(d *gate.Desk) {
	a := &d.Part(gate.OfState).(*desk).ahead
	a.done = true
	a.lookUp(f.store)
}

// drop forgets a run, even if some of it has not been answered.
func (g *getRun) drop() {
	clear(g.reads[g.next:g.n])
	clear(g.asked[g.next:g.n])
	g.n, g.next = 0, 0
}

func (g *getRun) add(q protocol.KVRead) {
	g.asked[g.n], g.reads[g.n] = q, kv.Read{NS: q.NS, Key: q.Key}
	g.n++
}

func (g *getRun) lookUp(store kv.Store) {
	if g.n > 0 {
		g.rev = store.GetEach(g.reads[:g.n])
		g.sum += kv.Prefetch(g.reads[:g.n])
	}
}

// answerAhead answers the next of them.
func (f *Handlers) answerAhead(s *gate.Session, h protocol.Header) {
	run := deskOf(s).run
	i := run.next
	run.next++
	kvGot(s, h, run.asked[i], run.reads[i].Entry, run.rev)
	run.reads[i], run.asked[i] = kv.Read{}, protocol.KVRead{} // entries and input are not kept
}

// collect reads gets from the front of b. It stops early at long values: gets behind a
// reply that needs a worker are read again.
func (g *getRun) collect(req *protocol.Request, b []byte) {
	for all := len(b); g.n < maxGetRun && all-len(b) < loop.WholeFrame; {
		size, ok := protocol.WholeRequest(b, protocol.KVGet)
		if !ok {
			return
		}
		q, ok := plainGet(req, b[protocol.HeaderSize:size])
		if !ok {
			return
		}
		g.add(q)
		b = b[size:]
	}
}

// plainGet reads a valid body that asks for what is in memory.
func plainGet(req *protocol.Request, body []byte) (q protocol.KVRead, ok bool) {
	if q, ok = protocol.PlainKVGet(body); ok {
		return q, true
	}
	if req.ParseTailed(body) != nil || !req.IsObject() {
		return q, false
	}
	q, err := req.KVGet()
	return q, err == nil && q.Rev == 0
}
