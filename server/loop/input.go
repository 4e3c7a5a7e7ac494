package loop

// input is what has arrived on a connection and is not decoded yet. The zero value
// is empty.
type input struct {
	kept []byte
	off  int // kept is decoded up to here
	need int // bytes the next frame takes, 0 if its header is not known
}

func (i *input) waiting() int { return len(i.kept) - i.off }

// holds is how much memory it takes, in bytes.
func (i *input) holds() int { return cap(i.kept) }

// keep appends data.
func (i *input) keep(data []byte) {
	if i.off > len(i.kept)/2 {
		i.kept = i.kept[:copy(i.kept, i.kept[i.off:])]
		i.off = 0
	}
	i.kept = append(i.kept, data...)
}

// whole is false as long as the next frame is known not to be there.
func (i *input) whole() bool { return i.waiting() > 0 && i.waiting() >= i.need }

// front is what is kept, to be decoded.
func (i *input) front() []byte { return i.kept[i.off:] }

// took drops n bytes from the front. What was kept may have been forgotten since
// front.
func (i *input) took(n int) {
	if i.off += n; i.off >= len(i.kept) {
		*i = input{need: i.need}
	}
}
