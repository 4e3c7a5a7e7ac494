package loop

// inputState determines what happens to a connection's input. Only become changes it.
type inputState uint8

const (
	// reading handles frames as they come.
	reading inputState = iota

	// These wait. Input is kept and not decoded; the frame at its front comes again on
	// resume.
	forReader  // until the peer has read its output
	forReplies // until writes in progress are answered
	forRoom    // until a store's queue has room
	forTurn    // until others have had a turn
	forPause   // for a while, because the peer sends far more than it may, or a wrong token
	forWorker  // until a worker has finished with the last frame

	closing // handles no more input; ends when the output has been read
	shut    // closing, and the sending side is closed
	dead    // the transport is closed: nothing may be sent

	inputStates
)

// successors are the states that can follow each state, one bit each.
var successors = func() (f [inputStates]uint16) {
	const end = 1<<closing | 1<<dead
	f[reading] = 1<<forReader | 1<<forReplies | 1<<forRoom | 1<<forTurn | 1<<forPause | 1<<forWorker | end
	for s := forReader; s <= forWorker; s++ {
		f[s] = 1<<reading | end
	}
	f[closing] = 1<<shut | 1<<dead
	f[shut] = 1 << dead
	return f
}()

// become changes to next, or returns false if next cannot follow.
func (s *inputState) become(next inputState) bool {
	if successors[*s]&(1<<next) == 0 {
		return false
	}
	*s = next
	return true
}

// waits reports whether input is kept for later.
func (s inputState) waits() bool { return s >= forReader && s <= forWorker }

// parked reports whether resume may continue; the waits for a turn, for a rest and for a worker
// end with these.
func (s inputState) parked() bool { return s >= forReader && s <= forRoom }

// over reports whether no more frames will be handled.
func (s inputState) over() bool { return s >= closing }
