package landing

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/kv"
	"confcenter/storage"
	"confcenter/storage/field"
)

// source is a Source in memory, whose owners' tables are drawn by their ids.
type source struct {
	mu sync.Mutex

	// guarded by mu
	settings storage.Settings
	revision kv.Revision
	base     int64
	dirty    [4]map[string]storage.DirtyRow // of each dirty table
	noted    map[string]storage.DirtyRow    // refused; those that are due are given again
	reasons  map[string]string
	due      bool
	cursors  [4]kv.Revision
	fences   [4]kv.Revision
	holders  [4]string
	taken    int // batches
	claims   int // asked for
	err      error
	steal    bool // the next batch's claim is lost before it is landed
	newest   map[string]string
}

func newSource() *source {
	s := &source{settings: field.Defaults(), noted: map[string]storage.DirtyRow{}, reasons: map[string]string{}, newest: map[string]string{}}
	for i := range s.dirty {
		s.dirty[i] = map[string]storage.DirtyRow{}
	}
	return s
}

// put changes a field.
func (s *source) put(o storage.Owner, name, value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revision++
	r := row(o, name, value, int64(s.revision))
	r.Revision = s.revision
	delete(s.noted, r.Key())
	s.dirty[len(o.ID)%s.settings.Tables][r.Key()] = r
	s.newest[r.Table()+" "+r.Key()] = value
}

func (s *source) change(f func(*storage.Settings)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.settings)
}

// left is how many fields are not in the database.
func (s *source) left() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.dirty {
		n += len(s.dirty[i])
	}
	return n + len(s.noted)
}

func (s *source) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

func (s *source) Settings(context.Context) (storage.Settings, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.settings, s.err
}

func (s *source) Claim(_ context.Context, table int, who string) (storage.Claim, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.claims++
	switch {
	case s.err != nil:
		return storage.Claim{}, s.err
	case len(s.dirty[table]) == 0 && !s.due:
		return storage.Claim{Idle: true}, nil
	case s.holders[table] != "" && s.holders[table] != who:
		return storage.Claim{Holder: s.holders[table]}, nil
	case s.holders[table] == "":
		s.revision++
		s.holders[table], s.fences[table] = who, s.revision
	}
	return storage.Claim{Fence: s.fences[table]}, nil
}

func (s *source) Release(_ context.Context, table int, fence kv.Revision) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fences[table] != fence {
		return codes.FenceLost
	}
	s.holders[table] = ""
	return nil
}

func (s *source) Dirty(_ context.Context, table, limit int) (*storage.Batch, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := &storage.Batch{Table: table, After: s.cursors[table]}
	if s.due {
		for _, r := range s.noted {
			r.Noted = true
			b.Rows = append(b.Rows, r)
		}
	}
	var rows []storage.DirtyRow
	for _, r := range s.dirty[table] {
		rows = append(rows, r)
	}
	slices.SortFunc(rows, func(a, b storage.DirtyRow) int { return int(a.Revision - b.Revision) })
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

func (s *source) Landed(_ context.Context, fence kv.Revision, b *storage.Batch, failed []storage.Failure) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.steal {
		s.steal = false
		s.revision++
		s.holders[b.Table], s.fences[b.Table] = "", s.revision
	}
	switch {
	case s.err != nil:
		return s.err
	case s.fences[b.Table] != fence:
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
		if i := slices.IndexFunc(failed, func(f storage.Failure) bool { return f.Key == r.Key() && f.Table == r.Table() }); i >= 0 {
			r.Version -= s.base
			s.noted[r.Key()], s.reasons[r.Key()] = r, failed[i].Reason
		}
	}
	return nil
}

func (s *source) Newer(_ context.Context, version int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.base = max(s.base, version)
	return s.err
}

// agree compares the database with all that was ever put.
func (s *source) agree(t testing.TB, d *Database) {
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
