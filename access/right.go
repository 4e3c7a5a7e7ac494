package access

import "fmt"

// Right is the right that a request needs, as its row in the command or route table
// states it. The object of the right – the document, or the namespace and key – is known
// only from the request itself.
type Right uint8

// The rights. The zero Right is none of them: a row without one is a mistake.
const (
	Anyone Right = iota + 1 // everyone has it
	Nobody                  // no client has it

	ConfigRead   // documents, their names and versions
	ConfigWatch  // to be notified of their changes
	ConfigWrite  // to create and change them; an empty SETCONFIG also deletes
	ConfigDelete // to delete them

	ConfigHistory // older versions of documents, who made them and why
	HistoryWrite  // to remove older versions of documents

	KVRead    // values, keys, namespaces
	KVWatch   // to be notified of changes
	KVWrite   // puts, increments, restoring
	KVDelete  // keys, prefixes, namespaces
	KVHistory // older versions of keys
	KVLock    // to acquire, wait for and release locks
	KVLease   // to grant, keep, inspect and revoke leases
	KVEach    // several operations, each of which needs its own right

	StorageRead  // players' fields and owners
	StorageWrite // to update, increment, remove and restore fields
	LandingRead  // what is not in the database yet, and what it refused
	LandingWrite // to try again what it refused, or to give it up
	LandingLand  // to write fields to the database, as a lander does

	FlowRead   // applications, their nodes, workers and schedulers
	FlowWrite  // to register, claim, change and remove them
	BenchRead  // nodes and jobs
	BenchWrite // to register nodes, to submit jobs, and to say how they get on

	RolesRead  // roles and tokens, and what they allow
	RolesGrant // to make and revoke tokens

	AuditRead  // who did what
	AuditWatch // to be told at once of who does what

	ReviewRead  // changes that wait for approval: those that the caller may read or approve, or has asked for
	ReviewWrite // to approve, reject and withdraw them: likewise

	ClientsRead   // who is connected, with their properties
	ClientsSend   // messages to other clients
	ServicesRead  // the service registry
	ServicesWrite // to register in it
	LogRead       // the operation log
	BackupRead    // everything there is, as one file
	StatusRead    // metrics and figures of the server
	StatusProfile // what the server spends its time and memory on, for `go tool pprof`
)

var rightNames = [...]string{
	Anyone: "anyone", Nobody: "nobody",
	ConfigRead: "config:read", ConfigWatch: "config:watch", ConfigWrite: "config:write", ConfigDelete: "config:delete", ConfigHistory: "config:history", HistoryWrite: "history:write",
	KVRead: "kv:read", KVWatch: "kv:watch", KVWrite: "kv:write", KVDelete: "kv:delete", KVHistory: "kv:history",
	KVLock: "kv:lock", KVLease: "kv:lease", KVEach: "kv:each",
	StorageRead: "storage:read", StorageWrite: "storage:write", LandingRead: "landing:read", LandingWrite: "landing:write", LandingLand: "landing:land",
	FlowRead: "flow:read", FlowWrite: "flow:write", BenchRead: "bench:read", BenchWrite: "bench:write",
	RolesRead: "roles:read", RolesGrant: "roles:grant", AuditRead: "audit:read", AuditWatch: "audit:watch", ReviewRead: "review:read", ReviewWrite: "review:write",
	ClientsRead: "clients:read", ClientsSend: "clients:send", ServicesRead: "services:read", ServicesWrite: "services:write",
	LogRead: "log:read", BackupRead: "backup:read", StatusRead: "status:read", StatusProfile: "status:profile",
}

// Known reports whether r is one of the rights above.
func (r Right) Known() bool { return int(r) < len(rightNames) && rightNames[r] != "" }

func (r Right) String() string {
	if r.Known() {
		return rightNames[r]
	}
	return fmt.Sprintf("right %d", uint8(r))
}
