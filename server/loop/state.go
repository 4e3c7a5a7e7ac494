package loop

// inputState says what becomes of the frames that a connection sends. It is in
// exactly one; become is the only way from one to another.
type inputState uint8

const (
	// reading takes frames as they come.
	reading inputState = iota

	// These wait, each for what its name says. Input is kept and not decoded; the
	// frame at its front comes again on resume.
	forReader  // the peer reads what it has been sent
	forReplies // writes on their way to a store are answered
	forRoom    // a store's queue has room
	forTurn    // others have had a turn
	forWorker  // a worker ends what it does for the frame taken last

	closing // reads no more; ends when its output is read
	shut    // closing, and the peer has been told that nothing more comes
	dead    // the transport is closed: nothing may be sent

	inputStates
)

// successors has for each state those that can follow it, one bit each.
var successors = func() (f [inputStates]uint16) {
	const end = 1<<closing | 1<<dead
	f[reading] = 1<<forReader | 1<<forReplies | 1<<forRoom | 1<<forTurn | 1<<forWorker | end
	for s := forReader; s <= forWorker; s++ {
		f[s] = 1<<reading | end
	}
	f[closing] = 1<<shut | 1<<dead
	f[shut] = 1 << dead
	return f
}()

// become moves on to next, or reports false and stays if next cannot follow.
func (s *inputState) become(next inputState) bool {
	if successors[*s]&(1<<next) == 0 {
		return false
	}
	*s = next
	return true
}

// parked is true where resume may try again; a worker ends its own wait.
func (s inputState) parked() bool { return s >= forReader && s <= forTurn }

// over is true once no frame will be taken any more.
func (s inputState) over() bool { return s >= closing }
