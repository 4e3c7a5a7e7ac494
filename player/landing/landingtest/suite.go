// Package landingtest is what every database must do for package landing, on whichever kinds of
// databases a test has: [Run] is run on SQLite beside package landing, where nothing else is
// needed, and on MariaDB and PostgreSQL in integration/landing.
//
// What the checks are made of serves other tests of landing as well: a [Database] whose parts
// can be seen, a [Source] in memory, and a [Lander] on a clock of the test's.
package landingtest

import (
	"slices"
	"testing"
)

// Kind is a kind of databases. All of its functions must be set.
type Kind struct {
	Name string
	// New makes an empty database, which is cleaned up with t.Cleanup, and returns its DSN.
	New func(t testing.TB) string
	// Away takes a database away, in the middle of what it does, until back is called.
	Away func(t testing.TB, d *Database) (back func())
	// ReadOnly has a database refuse to write for reader, until again is called, which returns
	// the one to write with.
	ReadOnly func(t testing.TB, d *Database) (reader *Database, again func() *Database)
}

// Open makes an empty database, and closes it at the end of the test.
func (k Kind) Open(t testing.TB) *Database {
	t.Helper()
	d := Open(t, k.New(t))
	d.Kind = k
	return d
}

// On runs a test on an empty database of each kind, as a subtest of its name.
func On(t *testing.T, kinds []Kind, test func(t *testing.T, d *Database)) {
	for _, k := range kinds {
		t.Run(k.Name, func(t *testing.T) { test(t, k.Open(t)) })
	}
}

// Run runs all checks on each kind of databases.
func Run(t *testing.T, kinds ...Kind) {
	for _, c := range checks {
		t.Run(c.name, func(t *testing.T) { On(t, kinds, c.run) })
	}
}

// check is one named part of the suite.
type check struct {
	name string
	run  func(t *testing.T, d *Database)
}

// checks is the suite, in the order in which it runs.
var checks = slices.Concat(rowChecks, faultChecks, identityChecks, purgeChecks, proofChecks, importChecks, landerChecks, storageChecks, coldChecks)
