package audit

// Sums is how many refusals are told apart at the moment.
func (a *Audit) Sums() int {
	a.notes.mu.Lock()
	defer a.notes.mu.Unlock()
	return len(a.notes.sums) + len(a.notes.ofOne)
}
