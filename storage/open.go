package storage

import (
	"context"
	"fmt"
	"time"

	"confcenter/codes"
	"confcenter/internal/clock"
	"confcenter/internal/memory"
	"confcenter/kv"

	"github.com/rs/zerolog"
)

// Config sets up a Storage. Only Store must be set.
type Config struct {
	Store kv.Store
	// Backing is the database that fields are landed in. Without one nothing is dirty, and
	// nothing leaves memory.
	Backing  Backing
	Settings Settings    // the zero value: Defaults
	Clock    clock.Clock // nil: the machine's
	Log      zerolog.Logger
	// Cold is what loaded rows may take in memory; nil: one of 16 MiB.
	Cold *memory.Pool
	// IdleAfter is how long an owner is neither read nor written before its landed fields
	// leave memory; 0: an hour; negative: never.
	IdleAfter time.Duration
}

// Storage keeps the fields of owners in a store. Its methods may be called from any
// goroutine.
type Storage struct{}

// Open makes a Storage. It reads what is in the store's memory, and must be closed before the
// store.
func Open(Config) (*Storage, error) { return nil, errLater }

// Close ends what is under way in the background. Writes that wait for the database fail with
// codes.Closed.
func (s *Storage) Close() error { return errLater }

var errLater = codes.Errorf(codes.NotImplemented, "player storage is not built yet")

// Get appends those of the fields that there are, all of one state, to dst. It reads memory,
// without waiting: it may be called on an event loop. ok is false if one of them may be in the
// database only: then Load has to be called instead, which waits.
func (s *Storage) Get(o Owner, names []string, dst []Field) (fields []Field, ok bool) {
	return dst, true
}

// Load is Get for fields that may have to be read from the database. Many who ask for fields
// of one owner cost one query.
func (s *Storage) Load(ctx context.Context, o Owner, names []string) ([]Field, error) {
	return nil, errLater
}

// GetAll reads a page of an owner's fields. It may wait for the database.
func (s *Storage) GetAll(ctx context.Context, o Owner, ask Ask) (Page, error) {
	return Page{}, errLater
}

// Do makes a change. It does not wait: done is called exactly once, from any goroutine, also
// before Do returns, and must not hold that goroutine up. Writes to one owner take effect in the order of the
// calls. The write and what it refers to belong to the Storage from then on.
func (s *Storage) Do(w *Write, done func(*Outcome, error)) { done(nil, errLater) }

// Owners lists at most limit owners that have a field, of one kind or (logic is "") of all, in
// the order of their Key, after that one. It may wait for the database.
func (s *Storage) Owners(ctx context.Context, app, region, logic, after string, limit int) (list []Owner, more bool, err error) {
	return nil, false, errLater
}

// Count counts what Owners lists.
func (s *Storage) Count(ctx context.Context, app, region, logic string) (int64, error) {
	return 0, errLater
}

// Regions lists the pairs of App and Region that have fields in memory.
func (s *Storage) Regions() []Owner { return nil }

// Base is what the revision of an entry is added to for the version of its field; 0 as long
// as there are no fields.
func (s *Storage) Base() int64 { return 0 }

// Change is what happened to a field.
type Change struct {
	FieldName
	Field Field // Removed: it was removed
}

// Changes appends what events say about fields; other events are passed over. With a base of
// 0 the versions are revisions.
func Changes(dst []Change, events []kv.Event, base int64) []Change { return dst }

// Settings are those in force.
func (s *Storage) Settings() Settings { return Defaults() }

// Set puts other settings in force. If the number of dirty tables changes, what is dirty is
// found in the new ones, at once and without loss.
func (s *Storage) Set(ctx context.Context, set Settings) error { return errLater }

// Dirty returns the oldest dirty fields of a dirty table, and refused ones whose time has come:
// about limit rows (0: the settings'), and more if one transaction wrote more. It returns nil if
// there is nothing to land, and waits for nothing.
func (s *Storage) Dirty(table, limit int) (*Batch, error) { return nil, errLater }

// Landed says that all rows of a batch are in the database, in that version or a later one,
// except those that failed, which go to the list of errors. Of Rows only those that are Noted,
// and those that failed, need to be there. It fails with codes.FenceLost
// if the lock of LockOf is not held with that fence, and with codes.Conflict if the batch is
// not the table's next one any more: take another one then.
func (s *Storage) Landed(ctx context.Context, fence kv.Revision, b *Batch, failed []Failure) error {
	return errLater
}

// Newer says that the database has a row with that version, which is not below the one that
// was to be written. All fields get greater versions. The batch has to be taken again.
func (s *Storage) Newer(ctx context.Context, version int64) error { return errLater }

// Errors lists fields that the database refused, after that one in the order of Errors.
func (s *Storage) Errors(after FieldName, limit int) (list []ErrorRow, more bool) { return nil, false }

// Retry has refused fields landed again at once: those, or all. It returns how many.
func (s *Storage) Retry(ctx context.Context, fields []FieldName) (int, error) { return 0, errLater }

// Drop gives up landing these refused fields. They stay in memory, and are landed again when
// they change.
func (s *Storage) Drop(ctx context.Context, fields []FieldName) (int, error) { return 0, errLater }

// Status is how it stands with each dirty table.
func (s *Storage) Status() []TableStatus { return nil }

func (m *Mismatch) Error() string {
	return fmt.Sprintf("%d fields do not have the expected versions; read them again and decide", len(m.Fields))
}

// Unwrap gives the error its code.
func (m *Mismatch) Unwrap() error { return codes.Conflict }
