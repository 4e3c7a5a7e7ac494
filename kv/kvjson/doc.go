// Package kvjson is the JSON form of the state store: values, entries, events,
// compares, operations, transactions, results. There is one form, that of
// PROTOCOL.md; a [Dialect] adds what the wire, HTTP and the command line have
// published besides, and how strictly they read.
//
// Begin with [Reader] and [Writer], then op.go, which has both sides of an
// operation. Nothing here allocates more than the result keeps.
package kvjson

// Dialect is the variant of JSON that a message is written in.
type Dialect uint8

// The dialects.
const (
	// Wire is the form of PROTOCOL.md: unknown members are ignored, and values may
	// follow the JSON as octets.
	Wire Dialect = iota
	// File is the form of the command line: transactions written by people, and output
	// of -o json. It differs from Wire in that it refuses misspelt members, accepts
	// ttl_ms and expires_ms for times, and takes "" for absent; it writes numbers and
	// booleans without quotes.
	File
	// HTTPTxn is a transaction over HTTP: like File, but it also refuses members that
	// have no meaning in their place, flags are true, 1, false or 0, and there are no
	// octets.
	HTTPTxn
	// HTTP is HTTPTxn with times called ttl_ms and expires_ms only: the form that
	// docs/http.md gives everything but transactions.
	HTTP
)

// http reports whether it is one of the forms of docs/http.md.
func (d Dialect) http() bool { return d >= HTTPTxn }
