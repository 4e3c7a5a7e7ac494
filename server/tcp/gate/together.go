package gate

import (
	"confcenter/protocol"
	"confcenter/server/tcp/loop"
)

// Together looks up what several requests of one command ask for. A read among many keys
// mostly waits for memory: looked up together, they wait together. It has room for
// loop.MaxGathered requests, numbered from 0, and belongs to a loop.
type Together interface {
	// Add reads a request; those before it are there already. It returns false for one that
	// has to be handled by itself. With req nil it takes only what can be read without it.
	// The body is not changed until the request is answered or forgotten.
	Add(i int, req *protocol.Request, body []byte) bool
	// LookUp looks up the first n requests.
	LookUp(n int)
	// Answer answers a request that was looked up, and forgets it.
	Answer(s *Session, h protocol.Header, i int)
	// Forget lets go of a request that is not answered. Its room stays.
	Forget(i int)
}

// run are requests that are looked up together.
type run struct {
	Together
	n, next int // all of them, and those that were answered
}

func (r *run) drop() {
	for ; r.next < r.n; r.next++ {
		r.Forget(r.next)
	}
	r.n, r.next = 0, 0
}

func (r *run) lookUp() {
	if r.n > 0 {
		r.LookUp(r.n)
	}
}

func (r *run) answer(s *Session, h protocol.Header) {
	i := r.next
	r.next++
	r.Answer(s, h, i)
}

// runs are those of one command and loop: the pipeline of a peer, and what several peers
// asked for at about the same time, one request each.
type runs struct {
	pipeline, foreseen run
	at                 [loop.MaxGathered]*byte // the first byte of each frame foreseen, which identifies it
	done               bool                    // they were looked up: what comes is another run's
}

// whole returns the size of the frame at the front of b if that is all of a request, which an
// identified client may make, of a command whose requests are looked up together; else 0.
func (t routeTable) whole(b []byte) (row *Route, size int) {
	if len(b) < protocol.HeaderSize {
		return nil, 0
	}
	h, err := protocol.ParseHeader(b)
	if err != nil || h.Command.IsReply() {
		return nil, 0
	}
	row, size = t.row(h.Command), protocol.HeaderSize+int(h.BodyLen)
	if row.runs == 0 || h.BodyLen > row.MaxBody || len(b) < size {
		return nil, 0
	}
	return row, size
}

// lookAhead looks up the requests at the front of b, and returns the run and how many they are.
// It stops before anything else, which is then handled by itself.
func (s *Session) lookAhead(row *Route, b []byte) (*run, int) {
	all := s.Local.runs[row.runs-1]
	if r := &all.foreseen; r.next < r.n && all.at[r.next] == &b[0] {
		return r, 1
	}
	r := &all.pipeline
	r.drop()
	// It ends early at long values: requests behind a reply that needs a worker are read again.
	for total := len(b); r.n < loop.MaxGathered && total-len(b) < loop.WholeFrame; r.n++ {
		other, size := s.Gate.routes.whole(b)
		if other != row || !r.Add(r.n, &s.Local.Req, b[protocol.HeaderSize:size]) {
			break
		}
		b = b[size:]
	}
	r.lookUp()
	return r, r.n
}

// Gathers looks at the command alone: most are not looked up together.
func (s *Session) Gathers(b []byte) bool {
	return len(b) >= protocol.HeaderSize && s.Gate.routes.row(protocol.CommandOf(b)).runs > 0
}

// Foresee records b if it is exactly one request that is looked up together with others.
func (s *Session) Foresee(b []byte) bool {
	if s.Client == nil {
		return false
	}
	row, size := s.Gate.routes.whole(b)
	if row == nil || size != len(b) {
		return false
	}
	all := s.Local.runs[row.runs-1]
	r := &all.foreseen
	if all.done {
		r.drop()
		all.done = false
	}
	if !r.Add(r.n, nil, b[protocol.HeaderSize:]) {
		return false
	}
	all.at[r.n] = &b[0]
	r.n++
	return true
}

// LookUp looks up what sessions of the loop have foreseen.
func (s *Session) LookUp() {
	for _, all := range s.Local.runs {
		if !all.done {
			all.done = true
			all.foreseen.lookUp()
		}
	}
}
