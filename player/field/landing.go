package field

import "confcenter/kv"

// Row is a field as a database has it.
type Row struct {
	Owner Owner
	Name  string `kv:"name"`
	Value []byte `kv:"value"` // of a removed one its last value
	// Version is 0 for a row that was written by others.
	Version   int64 `kv:"version,omit"`
	Removed   bool  `kv:"removed"`
	RemovedAt int64 `kv:"removed_at,omit"` // when, in ms since 1970; 0: it is not
	Created   int64 `kv:"created,omit"`    // likewise
	Updated   int64 `kv:"updated,omit"`    // likewise: changed last
}

// Batch is what a lander has to write to the database at a time: the oldest dirty fields of
// a dirty table, and refused ones whose time has come again.
type Batch struct {
	Table  int `kv:"table,count"`  // the dirty table
	Tables int `kv:"tables,count"` // of how many
	// After and Through say which changes the batch has: those after the one revision, up to
	// the other one.
	After   kv.Revision `kv:"after"`
	Through kv.Revision `kv:"through"`
	// Count is how many rows the batch had, for a caller of Landed that gives back only some of
	// Rows. 0: all of Rows are there.
	Count int `kv:"count,count,omit"`
	// More says that there are more: another batch can be taken at once.
	More bool       `kv:"more"`
	Rows []DirtyRow `kv:"rows"`
}

// DirtyRow is one row to write.
type DirtyRow struct {
	Row
	Revision kv.Revision `kv:"rev"` // of the change
	// Noted says that the field is in the list of errors; the row has to be given back to
	// Landed, which takes it off.
	Noted bool `kv:"noted"`
}

// Failure is a row that the database refused for itself, whatever else was in its statement.
type Failure struct {
	Table  string `kv:"table"` // its name, see Row.Table
	Key    string `kv:"key"`   // the row's primary_key, see Row.Key
	Reason string `kv:"reason"`
}

// ErrorRow is a field that the database refused, as the list of errors has it.
type ErrorRow struct {
	Owner    Owner
	Name     string      `kv:"name"`
	List     string      `kv:"list"` // of the dirty table, with the suffix of errors
	Revision kv.Revision `kv:"rev"`
	Reason   string      `kv:"reason"`
	Attempts int         `kv:"attempts"`
	First    int64       `kv:"first"` // when it was refused first, in ms since 1970
	Next     int64       `kv:"next"`  // when it is tried again; 0: never, because it was dropped
	Dropped  bool        `kv:"dropped"`
}

// Ref names the field.
func (e *ErrorRow) Ref() Ref { return Ref{e.Owner, e.Name} }

// Ref is the name of a field among those of all owners.
type Ref struct {
	Owner Owner
	Name  string `kv:"name"`
}

// TableStatus is how it stands with one dirty table.
type TableStatus struct {
	Table   int    `kv:"table"`
	List    string `kv:"list"`        // its name for operators
	Saving  string `kv:"saving,omit"` // the name of what is being landed, if something is
	Errors  string `kv:"errors_list"` // the name of its list of errors
	Dirty   int64  `kv:"dirty"`       // fields that the database has not got yet
	Oldest  int64  `kv:"oldest"`      // when the oldest of them was written, in ms since 1970; 0: none
	Refused int64  `kv:"errors"`      // fields in the list of errors
	Dropped int64  `kv:"dropped"`     // fields that an operator has given up
	Last    int64  `kv:"last"`        // when rows were landed last, in ms since 1970; 0: not since the start
	Rate    int64  `kv:"rate"`        // rows a second, of the last minute
	Cursor  int64  `kv:"cursor"`      // all changes up to this revision are landed or in the list of errors
	Landed  uint64 `kv:"landed"`      // rows landed since the start
}

// Claim is what came of asking for a dirty table.
type Claim struct {
	// Fence is not 0 if the lander has the table now: it goes with Landed and Release.
	Fence kv.Revision `kv:"fence,omit"`
	// Idle says that nothing in the table is to be landed, so that no lander needs a claim.
	Idle bool `kv:"idle"`
	// Holder is the lander that has the table.
	Holder string `kv:"holder,omit"`
}
