package loop

// Walk goes through a loop's connections in several turns, from the end of the list, so
// that those that leave in between make it miss nobody; it can meet one twice. The zero
// value has not begun.
type Walk struct {
	begun bool
	left  int
}

// Done is true once Next has met all.
func (w *Walk) Done() bool { return w.begun && w.left == 0 }

// Next is the next connection, nil if there is none.
func (w *Walk) Next(l *Loop) *Conn {
	if !w.begun {
		w.begun, w.left = true, len(l.conns)
	}
	w.left = min(w.left, len(l.conns))
	if w.left == 0 {
		return nil
	}
	w.left--
	return l.conns[w.left]
}
