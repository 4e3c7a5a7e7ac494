// Package storagejson is the JSON form of player storage: owners, fields, what is asked for
// and what is answered. It is made of the members, and read by the rules, of [kvjson], whose
// dialects it has.
//
// Values are bytes, and names are what a game has chosen. A value that is UTF-8 is a string
// in the object "fields", any other is base64 in the object "bytes"; both objects have the
// fields' names as their members.
package storagejson

import (
	"confcenter/kv"
)

// MaxFields is how many fields one request may name: those of one transaction.
const MaxFields = kv.MaxOps

// MaxOwners is how many owners one reply may list.
const MaxOwners = 1000

// DefaultID is the app and the region of messages that name none.
const DefaultID = "1"

// Owner is whose fields a message is about.
type Owner struct{ App, Region, Logic, ID string }

// Field is one field of an owner. Where values are written, Version has no meaning.
type Field struct {
	Name    string
	Value   []byte
	Version int64
}

// Number is a number for a field: an amount, a sum, or a version.
type Number struct {
	Name string
	N    int64
}

// Kind says which lists a write has; the values are those of package storage.
type Kind uint8

// The kinds of writes.
const (
	Update  Kind = iota + 1 // Fields
	Incr                    // Deltas
	Remove                  // Names
	Restore                 // Names
)

// Write is what a change to fields of one owner says besides the owner.
type Write struct {
	Fields []Field
	Deltas []Number
	Names  []string
	Expect []Number // versions that fields must have; 0: absent
	Prev   bool     // tell what the fields were before
	Token  string
}

// Written is what a write has done.
type Written struct {
	Revision kv.Revision
	Fields   []Field // those that the write left with a value
	Prev     []Field // if it was asked for, those that had a value before
	Replayed bool    // the token was known: nothing was done again
}
