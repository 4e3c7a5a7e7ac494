package landingtest

import (
	"context"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/kv"
	"confcenter/player/field"
)

// Source is a landing.Source in memory, with up to four dirty tables: that of an owner is drawn
// by the length of its id.
type Source struct {
	mu sync.Mutex

	// guarded by mu
	settings field.Settings
	revision kv.Revision
	base     int64
	dirty    [4]map[string]field.DirtyRow // of each dirty table
	noted    map[string]field.DirtyRow    // refused; those that are due are given again
	reasons  map[string]string
	due      bool
	cursors  [4]kv.Revision
	claims   [4]claim
	taken    int // batches
	asked    int // claims
	err      error
	steal    bool              // the next batch's claim is lost before it is landed
	newest   map[string]string // by table and key
}

// claim is who has a table.
type claim struct {
	holder string
	fence  kv.Revision
}

// NewSource makes a source with the default settings in which nothing is dirty.
func NewSource() *Source {
	s := &Source{settings: field.Defaults(), noted: map[string]field.DirtyRow{}, reasons: map[string]string{}, newest: map[string]string{}}
	for i := range s.dirty {
		s.dirty[i] = map[string]field.DirtyRow{}
	}
	return s
}

// Put changes a field.
func (s *Source) Put(o field.Owner, name, value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revision++
	r := Row(o, name, value, int64(s.revision))
	r.Revision = s.revision
	delete(s.noted, r.Key())
	s.dirty[len(o.ID)%s.settings.Tables][r.Key()] = r
	s.newest[r.Table()+" "+r.Key()] = value
}

// Change changes the settings.
func (s *Source) Change(change func(*field.Settings)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.settings)
}

// Left is how many fields are not in the database.
func (s *Source) Left() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.dirty {
		n += len(s.dirty[i])
	}
	return n + len(s.noted)
}

// LeftIn is how many fields of a dirty table are neither landed nor refused.
func (s *Source) LeftIn(table int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.dirty[table])
}

// Reasons are why fields were refused, by key.
func (s *Source) Reasons() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.reasons)
}

// Retry has what was refused be due.
func (s *Source) Retry() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.due = true
}

// Taken is how many batches were taken.
func (s *Source) Taken() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.taken
}

// Asked is how often a claim was asked for.
func (s *Source) Asked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

// Fail has all requests fail from now on, or not any more if err is nil.
func (s *Source) Fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

// Steal has the claim of the next batch end before it is landed.
func (s *Source) Steal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.steal = true
}

// Hold gives a dirty table to a holder, or to no one if that is empty.
func (s *Source) Hold(table int, holder string, fence kv.Revision) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.claims[table] = claim{holder, fence}
}

// Holder is who has a dirty table.
func (s *Source) Holder(table int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.claims[table].holder
}

// Settings implements landing.Source.
func (s *Source) Settings(context.Context) (field.Settings, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.settings, s.err
}

// Claim implements landing.Source.
func (s *Source) Claim(_ context.Context, table int, who string) (field.Claim, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	c := &s.claims[table]
	switch {
	case s.err != nil:
		return field.Claim{}, s.err
	case len(s.dirty[table]) == 0 && !s.due:
		return field.Claim{Idle: true}, nil
	case c.holder != "" && c.holder != who:
		return field.Claim{Holder: c.holder}, nil
	case c.holder == "":
		s.revision++
		*c = claim{who, s.revision}
	}
	return field.Claim{Fence: c.fence}, nil
}

// Release implements landing.Source.
func (s *Source) Release(_ context.Context, table int, fence kv.Revision) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.claims[table].fence != fence {
		return codes.FenceLost
	}
	s.claims[table].holder = ""
	return nil
}

// Dirty implements landing.Source.
func (s *Source) Dirty(_ context.Context, table, limit int) (*field.Batch, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := &field.Batch{Table: table, After: s.cursors[table]}
	if s.due {
		for _, r := range s.noted {
			r.Noted = true
			b.Rows = append(b.Rows, r)
		}
	}
	rows := slices.SortedFunc(maps.Values(s.dirty[table]), func(a, b field.DirtyRow) int { return int(a.Revision - b.Revision) })
	b.More = len(rows) > limit
	b.Rows = append(b.Rows, rows[:min(len(rows), limit)]...)
	if len(b.Rows) == 0 {
		return nil, s.err
	}
	b.Through = s.revision
	if b.More {
		b.Through = rows[limit-1].Revision
	}
	for i := range b.Rows {
		b.Rows[i].Version += s.base
	}
	s.taken++
	return b, s.err
}

// Landed implements landing.Source.
func (s *Source) Landed(_ context.Context, fence kv.Revision, b *field.Batch, failed []field.Failure) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.steal {
		s.steal = false
		s.revision++
		s.claims[b.Table] = claim{fence: s.revision}
	}
	switch {
	case s.err != nil:
		return s.err
	case s.claims[b.Table].fence != fence:
		return codes.Errorf(codes.FenceLost, "another one has it")
	case s.cursors[b.Table] != b.After:
		return codes.Errorf(codes.Conflict, "not the next batch")
	}
	s.cursors[b.Table] = b.Through
	s.due = false
	for _, r := range b.Rows {
		if s.dirty[b.Table][r.Key()].Revision == r.Revision {
			delete(s.dirty[b.Table], r.Key())
		}
		delete(s.noted, r.Key())
		if i := slices.IndexFunc(failed, func(f field.Failure) bool { return f.Key == r.Key() && f.Table == r.Table() }); i >= 0 {
			r.Version -= s.base
			s.noted[r.Key()], s.reasons[r.Key()] = r, failed[i].Reason
		}
	}
	return nil
}

// Newer implements landing.Source.
func (s *Source) Newer(_ context.Context, version int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.base = max(s.base, version)
	return s.err
}

// Agree compares the database with all that was ever put.
func (s *Source) Agree(t testing.TB, d *Database) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, want := range s.newest {
		table, primary := key[:3], key[4:]
		f, ok := field.ParseField(table, primary)
		require.True(t, ok)
		rows, err := d.Fields(ctx, f.Owner, []string{f.Name})
		require.NoError(t, err)
		require.Len(t, rows, 1, key)
		require.Equal(t, want, string(rows[0].Value), key)
	}
}
