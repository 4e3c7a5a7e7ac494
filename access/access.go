// Package access is the vocabulary of who asks and what they need for it: an
// [Actor] goes with every write, and every row of the command and route tables
// names a [Right]. Nothing is decided here, and nothing is refused yet.
package access

import "fmt"

// The origins of an Actor: by which way into the house a request came.
const (
	OverTCP  = "tcp"    // a connection that has sent WHOAMI
	OverHTTP = "http"   // our own paths, Plum's and the console's
	OnDisk   = "disk"   // somebody changed a file without asking the server
	Server   = "server" // the server itself
)

// Actor is who makes a change. It is shared by the requests of a connection, so
// nobody may write to one that was handed on. A nil Actor means that nobody said.
type Actor struct {
	// Name is what the actor is called: for a client of the wire CppCloud's
	// ID-CLITYPE@SVRNAME. The client chose it, so it proves nothing.
	Name    string
	Origin  string // one of the constants above
	Address string // of the peer, with its port; empty if the change came from no connection
	Comment string // why, as the actor put it
}

// String is how the operation log calls the actor.
func (a *Actor) String() string {
	switch {
	case a == nil:
		return ""
	case a.Name != "":
		return a.Address + "@" + a.Name
	case a.Address != "":
		return a.Origin + " " + a.Address
	}
	return a.Origin
}

// Right is what a request must be allowed, as far as its row in the command or
// route table tells. On what it must be allowed – the document, the namespace and
// key – only the request itself says.
type Right uint8

// The rights. The zero Right is none of them: a row without one is a mistake.
const (
	Anyone Right = iota + 1 // asks for nothing
	Nobody                  // is never carried out for a client

	ConfigRead   // documents, their names and versions
	ConfigWatch  // to be told of their changes
	ConfigWrite  // to create and change them; an empty SETCONFIG also deletes
	ConfigDelete // to delete them

	KVRead    // values, keys, namespaces
	KVWatch   // to be told of changes
	KVWrite   // puts, increments, restoring
	KVDelete  // keys, prefixes, namespaces
	KVHistory // what keys were before
	KVLock    // to take, wait for and give back locks
	KVLease   // to grant, keep, look at and end leases
	KVEach    // several operations, each of which needs its own right

	ClientsRead   // who is connected and what they say of themselves
	ClientsSend   // messages to other clients
	ServicesRead  // the service registry
	ServicesWrite // to register in it
	LogRead       // the operation log
	StatusRead    // metrics and figures of the server
)

var rightNames = [...]string{
	Anyone: "anyone", Nobody: "nobody",
	ConfigRead: "config:read", ConfigWatch: "config:watch", ConfigWrite: "config:write", ConfigDelete: "config:delete",
	KVRead: "kv:read", KVWatch: "kv:watch", KVWrite: "kv:write", KVDelete: "kv:delete", KVHistory: "kv:history",
	KVLock: "kv:lock", KVLease: "kv:lease", KVEach: "kv:each",
	ClientsRead: "clients:read", ClientsSend: "clients:send", ServicesRead: "services:read", ServicesWrite: "services:write",
	LogRead: "log:read", StatusRead: "status:read",
}

// Known says that r is one of the rights above.
func (r Right) Known() bool { return int(r) < len(rightNames) && rightNames[r] != "" }

func (r Right) String() string {
	if r.Known() {
		return rightNames[r]
	}
	return fmt.Sprintf("right %d", uint8(r))
}
