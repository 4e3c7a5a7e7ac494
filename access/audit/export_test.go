package audit

import "context"

// Sums is how many events that are added up are told apart at the moment.
func (a *Audit) Sums() int {
	a.notes.mu.Lock()
	defer a.notes.mu.Unlock()
	return len(a.notes.refused.all) + len(a.notes.refused.ofOne) + len(a.notes.often.all) + len(a.notes.often.ofOne)
}

// Tidy is what Run does from time to time.
func (a *Audit) Tidy(ctx context.Context) error { return a.tidy(ctx) }
