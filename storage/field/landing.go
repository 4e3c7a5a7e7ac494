package field

import "confcenter/kv"

// Row is a field as a database has it.
type Row struct {
	Owner Owner
	Name  string
	Value []byte // of a removed one its last value
	// Version is 0 for a row that was written by others.
	Version int64
	Removed bool
	// When, in ms since 1970: removed (0 if it is not), made, changed last.
	RemovedAt, Created, Updated int64
}

// Batch is what a lander has to write to the database at a time: the oldest dirty fields of
// a dirty table, and refused ones whose time has come again.
type Batch struct {
	Table  int // the dirty table
	Tables int // of how many
	// After and Through say which changes the batch has: those after the one revision, up to
	// the other one.
	After, Through kv.Revision
	Rows           []DirtyRow
	// Count is how many rows the batch had, for a caller of Landed that gives back only some of
	// Rows. 0: all of Rows are there.
	Count int
	// More says that there are more: another batch can be taken at once.
	More bool
}

// DirtyRow is one row to write.
type DirtyRow struct {
	Row
	Revision kv.Revision // of the change
	// Noted says that the field is in the list of errors; the row has to be given back to
	// Landed, which takes it off.
	Noted bool
}

// Failure is a row that the database refused for itself, whatever else was in its statement.
type Failure struct {
	Table, Key string // the table's name and the row's primary_key, see Row.Table and Row.Key
	Reason     string
}

// ErrorRow is a field that the database refused, as the list of errors has it.
type ErrorRow struct {
	Owner    Owner
	Name     string
	List     string // of the dirty table, with the suffix of errors
	Revision kv.Revision
	Reason   string
	Attempts int
	First    int64 // when it was refused first, in ms since 1970
	Next     int64 // when it is tried again; 0: never, because it was dropped
	Dropped  bool
}

// Ref names the field.
func (e *ErrorRow) Ref() Ref { return Ref{e.Owner, e.Name} }

// Ref is the name of a field among those of all owners.
type Ref struct {
	Owner Owner
	Name  string
}

// TableStatus is how it stands with one dirty table.
type TableStatus struct {
	Table   int
	List    string // its name for operators
	Saving  string // the name of what is being landed, if something is
	Errors  string // the name of its list of errors
	Dirty   int64  // fields that the database has not got yet
	Oldest  int64  // when the oldest of them was written, in ms since 1970; 0: none
	Refused int64  // fields in the list of errors
	Dropped int64  // fields that an operator has given up
	Landed  uint64 // rows landed since the start
	Last    int64  // when rows were landed last, in ms since 1970; 0: not since the start
	Rate    int64  // rows a second, of the last minute
	Cursor  int64  // all changes up to this revision are landed or in the list of errors
}

// Claim is what came of asking for a dirty table.
type Claim struct {
	// Fence is not 0 if the lander has the table now: it goes with Landed and Release.
	Fence kv.Revision
	// Idle says that nothing in the table is to be landed, so that no lander needs a claim.
	Idle bool
	// Holder is the lander that has the table.
	Holder string
}
