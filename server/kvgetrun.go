package server

import (
	"confcenter/kv"
	"confcenter/protocol"
)

// maxGetRun is how many KVGETs are looked up together.
const maxGetRun = 32

// getRun is KVGETs that a peer has sent one behind the other.
type getRun struct {
	heads [maxGetRun]protocol.Header
	asked [maxGetRun]protocol.KVRead
	reads [maxGetRun]kv.Read
	sum   byte // of what touch has read, so that it is read
}

// kvGetRun answers the KVGETs that stand complete at the front of b, of which h is
// the first one's header, and returns how many bytes they took. Most of the time of a
// get among many keys is waiting for memory: looked up together they wait together.
// It stops in front of whatever is not a plain get, which the ordinary way then
// handles. The caller has admitted the first.
func (s *session) kvGetRun(h protocol.Header, b []byte) (taken int) {
	if h.Command != protocol.KVGet || s.client == nil || s.srv.state == nil {
		return 0
	}
	run := &s.loop.gets
	n := run.collect(&s.loop.req, b)
	if n == 0 {
		return 0
	}
	rev := s.srv.state.GetEach(run.reads[:n])
	run.touch(n)
	for i := range n {
		h := run.heads[i]
		if i > 0 && !(s.takes() && s.admit(h.Command)) {
			break
		}
		s.touch()
		s.loop.count(h.Command)
		s.kvGot(h, run.asked[i], run.reads[i].Entry, rev)
		taken += protocol.HeaderSize + int(h.BodyLen)
	}
	clear(run.reads[:n]) // entries and input are not kept
	clear(run.asked[:n])
	return taken
}

// collect reads gets from the front of b and returns how many there are. It stops
// early at long ones: those behind a reply that takes a worker are read again.
func (g *getRun) collect(req *protocol.Request, b []byte) (n int) {
	for all := len(b); n < maxGetRun && all-len(b) < wholeFrame; {
		h, ok := wholeGet(b)
		if !ok {
			return n
		}
		size := protocol.HeaderSize + int(h.BodyLen)
		q, ok := plainGet(req, b[protocol.HeaderSize:size])
		if !ok {
			return n
		}
		g.heads[n], g.asked[n], g.reads[n] = h, q, kv.Read{NS: q.NS, Key: q.Key}
		b = b[size:]
		n++
	}
	return n
}

// plainGet reads a body that asks for what is in memory and has no fault.
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

// touch has the processor fetch all values at once that are then copied one by one.
func (g *getRun) touch(n int) {
	const line, most = 64, 512 // what lies behind, the processor foresees
	sum := g.sum
	for i := range n {
		if e := g.reads[i].Entry; e != nil {
			data := e.Value.Data
			for at := 0; at < min(len(data), most); at += line {
				sum += data[at]
			}
		}
	}
	g.sum = sum
}

// wholeGet is the header of the KVGET that is complete at the front of b.
func wholeGet(b []byte) (h protocol.Header, ok bool) {
	if len(b) < protocol.HeaderSize {
		return h, false
	}
	h, err := protocol.ParseHeader(b)
	return h, err == nil && h.Command == protocol.KVGet && h.BodyLen <= protocol.BodyLimit(h.Command, true) &&
		len(b) >= protocol.HeaderSize+int(h.BodyLen)
}
