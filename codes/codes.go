// Package codes is the one list of error codes that confcenter's TCP protocol,
// HTTP interface, Go client and command line share, and the error type that
// carries one of them.
//
// Codes never change: rows are added at the end of their range and never renumbered,
// renamed or reused, because programs in other languages compare the number. The texts
// are for people and may be improved at any time. Errors that CppCloud has on its wire
// keep CppCloud's number and meaning; numbers from 1001 on are our own. A test compares
// the table with testdata/codes.golden.
//
// A newcomer reads the table below, then Errorf (how an error gets its code) and
// Of (how an edge asks for it).
package codes

import "strconv"

// Code is the number of an error as it stands in a reply's "code" member. A Code
// is itself an error, so that errors.Is(err, codes.Older) works however deep the
// code is wrapped. OK as an error value is a mistake of the caller: success is
// nil.
type Code int

// CppCloud's numbers, and numbers of HTTP where CppCloud has none.
const (
	OK             Code = 0   // success
	BadRequest     Code = 400 // a parameter is missing, of the wrong type or out of range
	NotIdentified  Code = 401 // a command before WHOAMI
	BadOp          Code = 402 // the command has no such operation
	NotFound       Code = 404 // the named file, client or key does not exist
	Older          Code = 409 // the write carries an mtime below the one last given or found
	Conflict       Code = 412 // if_mtime does not match what is stored
	TooLarge       Code = 413 // beyond a size limit, which the text names
	NotSubscribed  Code = 420 // BOOKCFGCHANGE for a file that does not exist yet; its creation will be pushed
	Internal       Code = 500 // a fault of the server; also the code of an error that has none
	NotImplemented Code = 501 // a command reserved for later
	Busy           Code = 503 // a queue is full; nothing was done, try again later
	Storage        Code = 507 // the disk is full or cannot be written; nothing was changed
)

// Our own numbers.
const (
	BadJSON     Code = 1001 // a body or document is not valid JSON; CppCloud's wire says 404 instead
	BadName     Code = 1002 // a file name, or a scope of flow, that is not allowed
	Closed      Code = 1003 // the store, server or client is shutting down or closed
	Unreachable Code = 1004 // no server answers; whether the requested thing exists is not known
	Limit       Code = 1005 // too many connections, subscriptions, files, ...; the text names the limit
	ReadOnly    Code = 1006 // this server accepts no writes
	Timeout     Code = 1007 // no answer in time; whether the request took effect is not known
)

// Our own numbers for the state store.
const (
	BadType        Code = 1008 // a value type the store does not know
	BadValue       Code = 1009 // a value whose text does not fit its type
	BadKey         Code = 1010 // a namespace, key or token that is empty or has control characters; a name that flow does not take
	NameTooLong    Code = 1011 // a namespace, key, prefix or token beyond its length
	TooManyOps     Code = 1012 // more operations, compares or keys than one request may have
	BadTTL         Code = 1013 // a time to live or lease time that is negative or too long
	Overflow       Code = 1014 // an increment that leaves 64 bits
	OutOfBounds    Code = 1015 // an increment that leaves the bounds it was given
	WrongType      Code = 1016 // an operation on a value of another type, like an increment of a text
	FutureRevision Code = 1017 // a revision that is not reached yet
	Compacted      Code = 1018 // a revision whose changes or versions are no longer kept
	TokenReused    Code = 1019 // a request token that belongs to another request
	FenceLost      Code = 1020 // if_fence names a lock that is not, or no longer, held with that token
	LeaseGone      Code = 1021 // a lease that does not exist or has ended
	Quota          Code = 1022 // the store is full; deletes still work
	Locked         Code = 1023 // the lock is held by someone else and the request does not wait
)

// Our own numbers for HTTP.
const (
	BadMethod Code = 1024 // a method that the path does not support
	Forbidden Code = 1025 // no role allows it; or, over HTTP, another web site may have made the browser send it
)

// Unconfirmed is for requests that destroy much at once, over every interface.
const Unconfirmed Code = 1026 // confirm does not repeat the name, or the number, of what would be lost

// Reserved is our own number for what belongs to the server.
const Reserved Code = 1027 // a namespace that peers may read, but not write directly

// Our own numbers for models of a cluster's state.
const (
	AlreadyExists Code = 1028 // there is something by that name already
	InvalidConfig Code = 1029 // a specification that cannot be carried out; the text lists all that is wrong with it
)

// Held is our own number for changes that need another person's approval.
const Held Code = 1030 // the change is not made but kept until someone approves it; the text has its number

// Row describes one code.
type Row struct {
	Code       Code
	Name       string // lower case with underscores; as stable as the number; for logs, metrics and scripts
	HTTPStatus int    // the status of the HTTP reply that carries the code
	Text       string // one sentence for people: what it means and what to do
}

// table is in the order of the numbers.
var table = []Row{
	{OK, "ok", 200, "success"},
	{BadRequest, "bad_request", 400, "a parameter is missing or not acceptable; correct the request"},
	{NotIdentified, "not_identified", 401, "the connection has not identified itself; send WHOAMI first"},
	{BadOp, "bad_op", 400, "there is no such operation; see the command's description"},
	{NotFound, "not_found", 404, "there is nothing by that name; check the name"},
	{Older, "older", 409, "older than what is stored; read the current version and write again"},
	{Conflict, "conflict", 412, "changed by someone else since it was read; read it again and decide"},
	{TooLarge, "too_large", 413, "larger than the limit; send less"},
	{NotSubscribed, "not_subscribed", 404, "there is no such file to subscribe to; create it first"},
	{Internal, "internal", 500, "the server failed; its log says why"},
	{NotImplemented, "not_implemented", 501, "the server does not offer this command yet"},
	{Busy, "busy", 503, "the server has too much to do; nothing was changed, try again later"},
	{Storage, "storage", 507, "the server cannot write to its disk; nothing was changed, free space or check permissions"},
	{BadJSON, "bad_json", 400, "the text is not valid JSON; check it with confcenter check"},
	{BadName, "bad_name", 400, "the file name is not allowed; use a relative path that ends in .json"},
	{Closed, "closed", 503, "closed or shutting down; connect again"},
	{Unreachable, "unreachable", 502, "no server can be reached; check address and network"},
	{Limit, "limit", 429, "a limit on how many is reached; give something up"},
	{ReadOnly, "read_only", 403, "this server takes no writes; write to another one"},
	{Timeout, "timeout", 504, "no answer in time; read the state before trying again"},
	{BadType, "bad_type", 400, "there is no such value type; use string, int, double, bool, bytes or json"},
	{BadValue, "bad_value", 400, "the value does not fit its type; correct the value or the type"},
	{BadKey, "bad_key", 400, "the namespace, key or token is not allowed; use UTF-8 text without control characters"},
	{NameTooLong, "name_too_long", 400, "the namespace, key, prefix or token is too long; shorten it"},
	{TooManyOps, "too_many_ops", 413, "too many operations for one request; send several"},
	{BadTTL, "bad_ttl", 400, "the time to live is not acceptable; give milliseconds above 0, or leave it out"},
	{Overflow, "overflow", 409, "the result does not fit 64 bits; nothing was changed"},
	{OutOfBounds, "out_of_bounds", 409, "the result is outside the bounds given; nothing was changed"},
	{WrongType, "wrong_type", 409, "the stored value is of another type; nothing was changed"},
	{FutureRevision, "future_revision", 400, "the store has not reached that revision; use one that it answered with"},
	{Compacted, "compacted", 410, "that revision is no longer kept; read the current state and go on from there"},
	{TokenReused, "token_reused", 409, "the token was used for another request; use a new one"},
	{FenceLost, "fence_lost", 412, "the lock is not held with that fencing token; take the lock again"},
	{LeaseGone, "lease_gone", 404, "the lease does not exist or has ended; take a new one"},
	{Quota, "quota", 507, "the store is full; delete something"},
	{Locked, "locked", 423, "another client holds the lock; wait for it or try again later"},
	{BadMethod, "bad_method", 405, "the path does not take this method; see the header Allow"},
	{Forbidden, "forbidden", 403, "no role allows it: ask an administrator; or another web site may be behind the request: name its origin or host in the server's settings"},
	{Unconfirmed, "unconfirmed", 400, "this would destroy much at once; repeat as confirm what that is, or how many"},
	{Reserved, "reserved", 403, "the namespace belongs to the server; it can be read, and is written by the operations that it is for"},
	{AlreadyExists, "already_exists", 409, "there is something by that name already; use another name, or update what is there"},
	{InvalidConfig, "invalid_config", 400, "the specification cannot be carried out; correct what the text lists"},
	{Held, "held", 409, "not changed yet: someone else has to approve it; see confcenter review"},
}

// byCode is filled once and then only read.
var byCode = func() map[Code]Row {
	m := make(map[Code]Row, len(table))
	for _, row := range table {
		m[row.Code] = row
	}
	return m
}()

// All returns every row in the order of the numbers. The slice is the caller's.
func All() []Row { return append([]Row(nil), table...) }

// Name is the stable name of c, for example "not_found", or "code_N" for a number
// this build does not know (a newer server's, or CppCloud's negative ones).
func (c Code) Name() string {
	if row, ok := byCode[c]; ok {
		return row.Name
	}
	return "code_" + strconv.Itoa(int(c))
}

// HTTPStatus is the status that goes with c; 500 for an unknown number.
func (c Code) HTTPStatus() int {
	if row, ok := byCode[c]; ok {
		return row.HTTPStatus
	}
	return Internal.HTTPStatus()
}

// String is the name, so that a Code in a log line reads as a word.
func (c Code) String() string { return c.Name() }

// Error is the sentence of c's row.
func (c Code) Error() string {
	if row, ok := byCode[c]; ok {
		return row.Text
	}
	return "error code " + strconv.Itoa(int(c))
}
