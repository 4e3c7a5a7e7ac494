package loop

import (
	"math/bits"
	"slices"
	"sync"
)

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
		// The rest of a frame is coming. A peer that announces much and sends little gets room
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
	room := roomFor(size)
	room = append(room, i.front()...)
	giveRoom(i.kept)
	i.kept, i.off = room, 0
}

// rooms have room that was given back, of twice roomy, four times and so on: a peer that sends long
// frames would otherwise have the loop make it, and collect it, for each.
var rooms [4]sync.Pool

// roomClass says which of them has such room.
func roomClass(size int) (class int, ok bool) {
	class = bits.Len(uint(size-1)/roomy) - 1
	return class, size > roomy && class < len(rooms)
}

func roomFor(size int) []byte {
	class, ok := roomClass(size)
	if !ok {
		return slices.Grow([]byte(nil), size)
	}
	if b, ok := rooms[class].Get().(*[]byte); ok {
		return *b
	}
	return make([]byte, 0, roomy<<(class+1))
}

// giveRoom gives back room that nothing refers to any more.
func giveRoom(b []byte) {
	if class, ok := roomClass(cap(b)); ok && cap(b) == roomy<<(class+1) {
		b = b[:0]
		rooms[class].Put(&b)
	}
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
		giveRoom(i.kept)
		i.kept, i.off = nil, 0
	case cap(i.kept) > roomy && left < cap(i.kept)/4:
		i.move(max(left, min(i.need, 2*left)))
	}
}
