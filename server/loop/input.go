package loop

// input is the undecoded input of a connection. The zero value is empty.
type input struct {
	kept []byte
	off  int // kept is decoded up to here
	need int // size of the next frame, 0 if its header has not come
}

func (i *input) waiting() int { return len(i.kept) - i.off }

// holds is its memory in bytes.
func (i *input) holds() int { return cap(i.kept) }

// keep appends data.
func (i *input) keep(data []byte) {
	if i.off > len(i.kept)/2 {
		i.kept = i.kept[:copy(i.kept, i.kept[i.off:])]
		i.off = 0
	}
	i.kept = append(i.kept, data...)
}

// whole returns false if the next frame is known to be incomplete.
func (i *input) whole() bool { return i.waiting() > 0 && i.waiting() >= i.need }

// front returns the input to be decoded.
func (i *input) front() []byte { return i.kept[i.off:] }

// took drops n bytes from the front. The input may have been forgotten since front.
func (i *input) took(n int) {
	if i.off += n; i.off >= len(i.kept) {
		*i = input{need: i.need}
	}
}
