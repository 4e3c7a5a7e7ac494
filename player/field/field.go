// Package field is the vocabulary of player storage: owners and their fields, what can be done
// to them and what comes of it, what landers and operators are told, and the names that all
// this has in the state store and in databases. It does nothing by itself: package player
// does.
package field

import (
	"fmt"

	"confcenter/access"
	"confcenter/codes"
	"confcenter/kv"
)

// DefaultID is the app and the region of those who name none.
const DefaultID = "1"

// MaxFields is how many fields one write may have: as many as a transaction has operations,
// where Restore with a token needs two for each.
const MaxFields = kv.MaxOps / 2

// Owner is who fields belong to. Each part may be any text that Check accepts.
type Owner struct {
	App    string `kv:"appId,else=1"`    // with Region: which table; programs that have none say "1"
	Region string `kv:"regionId,else=1"` // likewise
	Logic  string `kv:"logicType"`       // the kind of owner, as the game's logic divides its data
	ID     string `kv:"ownerId"`
}

// Field is one field as it is now.
type Field struct {
	Name  string
	Value []byte // shared: not to be changed; of a removed field the last one
	// Version rises with each change. The versions of different fields can be compared
	// as well: a later change has the greater one.
	Version int64
	Removed bool
	Updated int64 // when, in ms since 1970
}

// Kind is the kind of a Write.
type Kind uint8

// The kinds of writes.
const (
	Update  Kind = iota + 1 // sets Fields, and leaves all others; a removed field lives again
	Incr                    // adds Deltas, all or none; an absent field counts as 0
	Remove                  // removes Names so that Restore can bring them back; absent ones are no error
	Restore                 // gives the removed ones of Names their last value again; codes.NotFound if one is absent
)

var kindNames = [...]string{Update: "update", Incr: "increment", Remove: "remove", Restore: "restore"}

func (k Kind) String() string {
	if k >= Update && k <= Restore {
		return kindNames[k]
	}
	return "unknown"
}

// Delta is one field to add to.
type Delta struct {
	Name string
	By   int64
}

// Write is one change to the fields of an owner. It takes effect as a whole or not at all.
type Write struct {
	Owner  Owner
	Kind   Kind
	Fields []Field  // Update: names and values, which belong to the store from then on
	Deltas []Delta  // Incr
	Names  []string // Remove, Restore

	// Expect makes the write conditional: each of these fields must have that version, where
	// 0 is for absent or removed. Otherwise it fails with a *Mismatch.
	Expect map[string]int64
	// WantPrev asks for the fields as they were before.
	WantPrev bool
	// Token makes a repetition harmless: the second Write with it gets the outcome of the
	// first one, whose Prev is only there if the first one asked for it. codes.TokenReused if it asks for something else.
	Token string
	Actor *access.Actor
}

// Outcome is what came of a Write.
type Outcome struct {
	// Revision is the one that made the change, or at which there was nothing to change.
	Revision kv.Revision
	// Fields are those that were written, in the order of their names, with their versions.
	// Incr and Restore also tell their values.
	Fields []Field
	// Prev is, with WantPrev, what these fields were before. Those absent or removed then are
	// left out.
	Prev []Field
	// Replayed says that the token was known: nothing was changed this time.
	Replayed bool
}

// Mismatch is the error, of codes.Conflict, of a Write whose Expect does not hold.
type Mismatch struct {
	Fields []Field // those that do not have the expected version, as they are; absent ones have version 0
}

func (m *Mismatch) Error() string {
	return fmt.Sprintf("%d fields do not have the expected versions (the first is %q); read them again and decide", len(m.Fields), m.Fields[0].Name)
}

// Unwrap gives the error its code.
func (m *Mismatch) Unwrap() error { return codes.Errorf(codes.Conflict, "%s", m.Error()) }

// Ask says which part of an owner's fields to read.
type Ask struct {
	After string `kv:"after,omit"`       // continue after the field of that name; "" from the beginning
	Limit int    `kv:"limit,count,omit"` // maximum number of fields; 0 or more than kv.MaxList: kv.MaxList
	// Revision continues at the state of an earlier page; 0: the newest. Pages of a state
	// that is no longer kept fail with codes.Compacted: begin again.
	Revision kv.Revision `kv:"rev,count,omit"`
}

// Page is a part of an owner's fields, in the order of the bytes of their keys in the state
// store, all of the same state.
type Page struct {
	Fields   []Field
	Revision kv.Revision // to ask for the next page with
	More     bool        // ask again After the last one
}
