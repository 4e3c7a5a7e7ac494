package kvjson

// Field is a member of messages about the store. PROTOCOL.md explains them; those
// that only docs/http.md has are marked here.
type Field uint8

// The fields are named as they are written.
const (
	noField Field = iota
	After
	AppID // of player storage, as are the others that no section about the store has
	Attempts
	Batch
	Before
	By
	Bytes
	Changes // of documents, as are Contents, Mtime, New, Old, Path, Resolved and Reveal
	Coalesce
	Code
	Confirm
	Contents
	Count
	CountOnly
	Create
	Created
	Current
	Cursor
	Delay
	Delete // HTTP: in an item of a batch
	Deleted
	Deltas
	Desc
	Dirty
	Dropped
	Else
	Entries
	Errors
	ErrorsList
	ErrorSuffix
	Events
	Expect
	Expires
	ExpiresMs // HTTP: Expires
	Failed
	Fence
	Fields
	First
	Floor
	From
	Granted
	Held
	Holder
	Idle
	If
	IfAbsent // HTTP: a condition of a put
	IfFence
	IfMod
	Initial
	Items // HTTP: of a batch
	Key
	Keys
	KeysOnly
	Landed
	Last
	Lease
	Left
	Limit
	List
	LockTime
	LogicType
	Max
	Min
	MinRev
	Mod
	More
	Mtime
	Name // HTTP: NS in a list of namespaces
	Names
	Namespaces
	New
	Next // what the next page of a list comes after
	Noted
	NS
	Number
	Old
	Oldest
	Op
	OwnerID
	Owners
	Path
	Prefix
	Prev
	Rate
	Raw
	Reason
	RegionID
	Regions
	Removed
	RemovedAt
	Replayed
	Resolved
	Results
	Resync
	Rev
	Reveal
	Revision // HTTP: Rev
	Rows
	Saving
	SavingSuffix
	Seal
	Since
	Scanned // HTTP: the key at which a search has stopped
	Size    // HTTP: of a value, in bytes
	State
	Synced
	Table
	Tables
	Target
	Then
	Through
	Token
	TTL
	TTLMs // HTTP: TTL
	Type
	Updated
	UpdatedMs // HTTP: Updated
	Value
	Values
	Version
	Versions
	Wait
	Watch
	Who
	fieldCount // how many there are
)

var fieldNames = [fieldCount]string{
	After: "after", AppID: "appId", Attempts: "attempts", Batch: "batch", Before: "before", By: "by", Bytes: "bytes", Coalesce: "coalesce",
	Code: "code", Confirm: "confirm", Count: "count", CountOnly: "count_only", Create: "create", Created: "created", Current: "current",
	Cursor: "cursor", Delay: "delay", Delete: "delete", Deleted: "deleted", Deltas: "deltas", Desc: "desc", Dirty: "dirty",
	Dropped: "dropped", Else: "else", Entries: "entries", Errors: "errors", ErrorsList: "errors_list", ErrorSuffix: "error_suffix",
	Events: "events", Expect: "expect", Expires: "expires", ExpiresMs: "expires_ms", Failed: "failed", Fence: "fence", Fields: "fields",
	First: "first", Floor: "floor", From: "from", Granted: "granted", Held: "held", Holder: "holder", Idle: "idle", If: "if",
	IfAbsent: "if_absent", IfFence: "if_fence", IfMod: "if_mod", Initial: "initial", Items: "items", Key: "key", Keys: "keys",
	KeysOnly: "keys_only", Landed: "landed", Last: "last", Lease: "lease", Left: "left", Limit: "limit", List: "list",
	LockTime: "lock_time", LogicType: "logicType", Max: "max", Min: "min", MinRev: "min_rev", Mod: "mod", More: "more", Name: "name",
	Names: "names", Namespaces: "namespaces", Next: "next", Noted: "noted", NS: "ns", Number: "number", Oldest: "oldest",
	Op: "op", OwnerID: "ownerId", Owners: "owners", Prefix: "prefix", Prev: "prev", Rate: "rate", Raw: "raw", Reason: "reason",
	RegionID: "regionId", Regions: "regions", Removed: "removed", RemovedAt: "removed_at", Replayed: "replayed", Results: "results",
	Resync: "resync", Rev: "rev", Revision: "revision", Rows: "rows", Saving: "saving", SavingSuffix: "saving_suffix", Scanned: "scanned", Seal: "seal", Since: "since",
	Size: "size", State: "state", Synced: "synced", Table: "table", Tables: "tables", Target: "target", Then: "then", Through: "through",
	Token: "token", TTL: "ttl", TTLMs: "ttl_ms", Type: "type", Updated: "updated", UpdatedMs: "updated_ms", Value: "value",
	Values: "values", Version: "version", Versions: "versions", Wait: "wait", Watch: "watch", Who: "who",
	Changes: "changes", Contents: "contents", Mtime: "mtime", New: "new", Old: "old", Path: "path", Resolved: "resolved", Reveal: "reveal",
}

func (f Field) String() string { return fieldNames[f] }

// fieldStarts are the names as written after another member.
var fieldStarts = func() (keys [fieldCount]string) {
	for f := noField + 1; f < fieldCount; f++ {
		keys[f] = `,"` + fieldNames[f] + `":`
	}
	return keys
}()

// appendField begins a member, with a comma if needed.
func appendField(dst []byte, f Field) []byte {
	key := fieldStarts[f]
	if last := dst[len(dst)-1]; last == '{' || last == '[' {
		key = key[1:]
	}
	return append(dst, key...)
}

// fieldSlots is a hash table of the fields by name. Every member of every request
// is looked up once, and a map would take longer to hash a name than to compare it.
var fieldSlots = func() (slots [256]Field) {
	for f := noField + 1; f < fieldCount; f++ {
		at := fieldHash([]byte(fieldNames[f]))
		for slots[at] != noField {
			at++
		}
		slots[at] = f
	}
	return slots
}()

func fieldHash(name []byte) uint8 {
	n := len(name)
	if n == 0 {
		return 0
	}
	return uint8(n)*9 + name[0]*175 + name[n/2]*122 + name[n-1]*199
}

func fieldOf(name []byte) Field {
	for at := fieldHash(name); ; at++ {
		f := fieldSlots[at]
		if f == noField || string(name) == fieldNames[f] {
			return f
		}
	}
}
