package storage

import (
	"confcenter/protocol"
	"confcenter/server/gate"
	"confcenter/server/loop"
	"confcenter/storage"
)

// maxGetRun is how many STGETs are looked up together.
const maxGetRun = loop.MaxGathered

// getRun is a pipeline of STGETs of one peer, looked up together as one of KVGETs is.
type getRun struct {
	gets     [maxGetRun]storage.Get
	versions [maxGetRun]bool // are asked for
	n, next  int
	names    int // that they ask for
}

// foreseen are STGETs of several peers that came at about the same time, one from each.
type foreseen struct {
	getRun
	at   [maxGetRun]*byte // the first byte of each frame, which identifies it
	done bool             // it was looked up: what comes is another run's
}

// lookAhead looks up the complete STGETs at the front of b. It stops before anything else,
// which is then handled by itself, and before a get that is too large for the loop.
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
	size, ok := protocol.WholeRequest(b, protocol.StGet)
	if !ok || size != len(b) {
		return false
	}
	a := &deskOf(s).ahead
	if a.done {
		a.drop()
		a.done = false
	}
	q := a.room()
	if !q.ReadPlain(b[protocol.HeaderSize:]) {
		return false
	}
	a.at[a.n] = &b[0]
	return a.add(&q)
}

// LookUp looks up what was foreseen.
func (f *Handlers) LookUp(d *gate.Desk) {
	a := &d.Part(gate.OfStorage).(*desk).ahead
	a.done = true
	a.lookUp(f.store)
}

// drop forgets a run, even if some of it has not been answered. The room stays.
func (g *getRun) drop() {
	for i := range g.n {
		forget(&g.gets[i])
	}
	g.n, g.next, g.names = 0, 0, 0
}

// forget lets go of values and input.
func forget(g *storage.Get) {
	clear(g.Names)
	clear(g.Fields)
	*g = storage.Get{Names: g.Names[:0], Fields: g.Fields[:0]}
}

// room is an empty request with the room of the next get.
func (g *getRun) room() protocol.StorageRead { return protocol.StorageRead{Names: g.gets[g.n].Names} }

// add adds a get, unless it has more names than the loop looks up at a time.
func (g *getRun) add(q *protocol.StorageRead) bool {
	if g.names+len(q.Names) > loopFields {
		return false
	}
	one := &g.gets[g.n]
	one.App, one.Region, one.Logic, one.ID, one.Names = q.App, q.Region, q.Logic, q.ID, q.Names
	g.versions[g.n] = q.Versions
	g.n, g.names = g.n+1, g.names+len(q.Names)
	return true
}

func (g *getRun) lookUp(store Store) {
	if g.n > 0 {
		store.GetEach(g.gets[:g.n])
	}
}

// collect reads gets from the front of b. It stops early at long values: gets behind a reply
// that needs a worker are read again.
func (g *getRun) collect(req *protocol.Request, b []byte) {
	for all := len(b); g.n < maxGetRun && all-len(b) < loop.WholeFrame; {
		size, ok := protocol.WholeRequest(b, protocol.StGet)
		if !ok {
			return
		}
		q := g.room()
		if !readGet(&q, req, b[protocol.HeaderSize:size]) || !g.add(&q) {
			clear(q.Names)
			return
		}
		b = b[size:]
	}
}

// readGet reads a valid body.
func readGet(q *protocol.StorageRead, req *protocol.Request, body []byte) bool {
	return q.ReadPlain(body) || req.Parse(body) == nil && req.IsObject() && req.StorageRead(q) == nil
}

// answerAhead answers the next of them.
func (f *Handlers) answerAhead(s *gate.Session, h protocol.Header) {
	d := deskOf(s)
	run := d.run
	g, versions := &run.gets[run.next], run.versions[run.next]
	run.next++
	switch {
	case g.Err != nil:
		s.RefuseState(h, g.Err)
	case g.Cold:
		f.load(s, h, g.Owner(), textsOf(g.Names), versions)
	default:
		d.answer(s, h, g.Fields, versions)
	}
	forget(g)
}
