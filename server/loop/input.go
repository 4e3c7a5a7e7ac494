package loop

import "slices"

// input is the undecoded input of a connection. The zero value is empty.
type input struct {
	kept    []byte
	off     int  // kept is decoded up to here
	need    int  // size of the next frame, 0 if its header has not come
	stopped bool // the transport does not read
}

// roomy is the size in bytes up to which the room for input is neither measured nor made
// smaller.
const roomy = 16 << 10

func (i *input) waiting() int { return len(i.kept) - i.off }

// holds is its memory in bytes.
func (i *input) holds() int { return cap(i.kept) }

// keep appends data.
func (i *input) keep(data []byte) {
	n := i.waiting() + len(data)
	switch {
	case i.off+n <= cap(i.kept):
	case n <= cap(i.kept) && i.off >= cap(i.kept)/2:
		i.kept = i.kept[:copy(i.kept, i.front())]
		i.off = 0
	case i.need > n:
		// The rest of a frame is coming. Whoever announces much and sends little gets room
		// for little.
		i.move(min(i.need, 2*n))
	case n <= roomy:
		i.move(2 * n)
	default:
		i.move(n + n/4)
	}
	i.kept = append(i.kept, data...)
}

// move moves the input to new room of so many bytes.
func (i *input) move(size int) {
	i.kept = append(slices.Grow([]byte(nil), size), i.front()...)
	i.off = 0
}

// whole returns false if the next frame is known to be incomplete.
func (i *input) whole() bool { return i.waiting() > 0 && i.waiting() >= i.need }

// front returns the input to be decoded.
func (i *input) front() []byte { return i.kept[i.off:] }

// took drops n bytes from the front. The input may have been forgotten since front.
func (i *input) took(n int) {
	i.off += n
	switch left := i.waiting(); {
	case left <= 0:
		i.kept, i.off = nil, 0
	case cap(i.kept) > roomy && left < cap(i.kept)/4:
		i.move(max(left, min(i.need, 2*left)))
	}
}
