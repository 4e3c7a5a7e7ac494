package loop

import "runtime/debug"

// MaxGathered is how many frames are gathered at a time.
const MaxGathered = 32

const (
	// maxForeseen is the size of the longest input that is gathered.
	maxForeseen = 1 << 10
	// aloneRest is how many chances to gather are skipped after a frame was alone: for such
	// a frame gathering only costs a look at the sockets.
	aloneRest = 16
)

// gather holds back the frames of connections that send one request at a time, until the
// loop has looked at its other sockets. A read among many keys mostly waits for memory:
// gathered reads of several peers wait together, as a pipeline of one peer does. Before
// anything else is handled the gathered frames are handed on, so that reads wait only for
// reads.
type gather struct {
	l *Loop // set at open

	// loop only
	frames []gathered
	input  []byte // of all frames
	rest   int    // chances to skip
}

type gathered struct {
	c    *Conn
	data []byte // in gather.input
}

// Arrive is Receive for input from a socket, which may be gathered first.
func (c *Conn) Arrive(data []byte) {
	defer Guard(c)
	if g := &c.Loop.gather; !g.takes(c, data) {
		g.handOn()
		c.Receive(data)
	}
}

// takes gathers data, or returns false.
func (g *gather) takes(c *Conn, data []byte) bool {
	switch {
	case len(data) > maxForeseen || c.state != reading || c.in.waiting() > 0 || !c.User.Gathers(data):
		return false
	case g.rest > 0:
		g.rest--
		return false
	}
	start := len(g.input)
	g.input = append(g.input, data...)
	data = g.input[start:]
	if !c.User.Foresee(data) {
		g.input = g.input[:start]
		return false
	}
	g.frames = append(g.frames, gathered{c, data})
	if len(g.frames) == 1 && g.l.exec(g.l.Wake) != nil || len(g.frames) == MaxGathered {
		g.handOn()
	}
	return true
}

// HandOn gives the connections their gathered input. It is called before anything that
// must come later, and never while something is being sent.
func (l *Loop) HandOn() { l.gather.handOn() }

// lookUp closes all of them if looking up panics: it is not known whose request did it.
func (g *gather) lookUp() {
	defer func() {
		if what := recover(); what != nil {
			stack := debug.Stack()
			for _, f := range g.frames {
				panicked(f.c, what, stack)
			}
		}
	}()
	g.frames[0].c.User.LookUp()
}

func (g *gather) handOn() {
	frames := g.frames
	if len(frames) == 0 {
		return
	}
	if len(frames) == 1 {
		g.rest = aloneRest
	}
	g.lookUp()
	for _, f := range frames {
		f.c.Receive(f.data)
	}
	clear(frames)
	g.frames, g.input = frames[:0], g.input[:0]
}
