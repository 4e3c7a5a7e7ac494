// Package kvjson spells what the state store knows as JSON: values, entries,
// events, compares, operations, transactions, results. There is one spelling,
// PROTOCOL.md's; a [Dialect] says what the wire, HTTP and the command line have
// published besides, and how strictly they read.
//
// A newcomer reads [Reader] and [Writer], then op.go, which has both sides of an
// operation. Nothing here allocates but what the result keeps.
package kvjson

// Dialect is who writes or reads a message.
type Dialect uint8

// The dialects.
const (
	// Wire is PROTOCOL.md's: members that mean nothing are ignored, and values may
	// follow the JSON as octets.
	Wire Dialect = iota
	// File is the command line's: a transaction that a person has written, and what
	// is printed with -o json. It is Wire, but misspelt members are refused, times may
	// also be called ttl_ms and expires_ms, and "" counts as absent. Written, numbers
	// and truth values are not put in quotes.
	File
	// HTTPTxn is a transaction over HTTP: as File, but a member that does not mean
	// anything where it is is refused, flags are true, 1, false or 0, and there are no
	// octets.
	HTTPTxn
	// HTTP is HTTPTxn where times are called ttl_ms and expires_ms only. It is what
	// docs/http.md says of everything but transactions.
	HTTP
)

// http says that it is docs/http.md's form.
func (d Dialect) http() bool { return d >= HTTPTxn }
