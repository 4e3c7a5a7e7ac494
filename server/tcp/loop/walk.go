package loop

// Walk visits a loop's connections over several turns, from the end of the list, so that it
// misses none if others leave in between; it may visit one twice. The zero value has not
// begun.
type Walk struct {
	begun bool
	left  int
}

// Done reports whether all connections have been visited.
func (w *Walk) Done() bool { return w.begun && w.left == 0 }

// Next returns the next connection, nil if there is none.
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
