package loop

// MaxGathered is how many frames are gathered at a time.
const MaxGathered = 32

const (
	// maxForeseen is the size of the longest input that is gathered.
	maxForeseen = 1 << 10
	// aloneRest is for how many chances nothing is gathered after a frame was alone:
	// gathering costs it a look at the sockets and gains it nothing.
	aloneRest = 16
)

// gather holds back the frames of connections that ask for one thing at a time, until
// the loop has looked at its other sockets. Most of the time of a read among many keys
// is waiting for memory; what several peers ask for one by one waits together, as what
// one peer asks for at once does. Whatever is not gathered has it handed on first, so
// that reads wait for nothing but reads.
type gather struct {
	l *Loop // set at open

	// loop only
	frames []gathered
	input  []byte // of all frames
	rest   int    // chances to let pass
}

type gathered struct {
	c    *Conn
	data []byte // in gather.input
}

// Arrive is Receive for what a socket has brought, which may be gathered first.
func (c *Conn) Arrive(data []byte) {
	if g := &c.Loop.gather; !g.takes(c, data) {
		g.handOn()
		c.Receive(data)
	}
}

// takes gathers data, or reports false.
func (g *gather) takes(c *Conn, data []byte) bool {
	switch {
	case len(data) > maxForeseen || c.state != reading || c.in.waiting() > 0:
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

// HandOn gives connections what was gathered, before something happens that has to come
// after it. Nothing may be being sent.
func (l *Loop) HandOn() { l.gather.handOn() }

func (g *gather) handOn() {
	frames := g.frames
	if len(frames) == 0 {
		return
	}
	if len(frames) == 1 {
		g.rest = aloneRest
	}
	frames[0].c.User.LookUp()
	for _, f := range frames {
		f.c.Receive(f.data)
	}
	clear(frames)
	g.frames, g.input = frames[:0], g.input[:0]
}
