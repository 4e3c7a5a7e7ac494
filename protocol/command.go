package protocol

import (
	"fmt"

	"confcenter/access"
	"confcenter/kv"
	"confcenter/op"
)

// Command is the id in a frame's header.
type Command uint16

// replyBit turns a request's id into its reply's.
const replyBit Command = 0x1000

// CppCloud's commands. The ids are the wire's and never change; the comment
// names the body of request → reply. A conversation starts with WHOAMI, which
// is answered before anything else is let through; then, usually, GETCONFIG and
// BOOKCFGCHANGE for each file, and EVNOTIFY from the server whenever one of
// them changes.
const (
	Whoami        Command = 0x0001 // properties → code, svrid, mconf, epoch
	GetCli        Command = 0x0002 // svrid, key, after, limit → code, data[], count, more
	Hungup        Command = 0x0003 // op, svrid → code, data[]
	GetLogr       Command = 0x0004 // size → code, data[]
	Exchang       Command = 0x0005 // to, anything → relayed to client `to`
	SetArgs       Command = 0x0006 // properties, warn → code
	GetWarn       Command = 0x0007 // filter_key, filter_val → code, data[]
	Iamserv       Command = 0x0008 // server to server
	KeepAlive     Command = 0x0009 // nothing → nothing; both ways
	Broadcast     Command = 0x000A // server to server
	Cliera        Command = 0x000B // server to server
	Testing       Command = 0x000C // cmd → nothing
	UpdateEra     Command = 0x000D // server to server
	GetConfig     Command = 0x000E // file_pattern, key_pattern, gt_mtime, incbase, marks → code, mtime, file_pattern, contents, deleted, broken | 1
	SetConfig     Command = 0x000F // filename, mtime, contents, if_mtime, author, comment, token → code, mtime, desc
	GetCfgName    Command = 0x0010 // nothing → {name:[flag,mtime]}
	HoCfgNew      Command = 0x0011 // server to server
	SetConfig2    Command = 0x0012 // server to server
	SetConfig3    Command = 0x0013 // server to server
	BookCfgChange Command = 0x0014 // file_pattern, incbase, mtime, key_pattern, unsubscribe, missing_ok → code, desc, mtime
	EvNotify      Command = 0x0015 // notify, … → pushed by the server, routed between clients
	SvrRegister   Command = 0x0016 // service registry, reserved
	SvrRegister2  Command = 0x0017 // server to server
	SvrSearch     Command = 0x0018 // service registry, reserved
	SvrShow       Command = 0x0019 // service registry, reserved
	AppRunLog     Command = 0x001A // to, … → routed between clients
	TCPSvr        Command = 0x001B // between applications, never through a server
	SvrStat       Command = 0x001C // array of counters → nothing
	WebCtrl       Command = 0x001D // unused
)

// The state store's commands, which are our own. A client may read and write at any time.
// To follow changes it sends KVWATCH. To let keys end with the program it takes a lease
// with KVLEASE and renews it with KVALIVE.
const (
	KVGet       Command = 0x0100 // ns, key, rev → code, rev, the entry
	KVPut       Command = 0x0101 // ns, key, value → code, rev, create, mod, version, updated
	KVDel       Command = 0x0102 // ns, key → code, rev, deleted
	KVDelPrefix Command = 0x0103 // ns, prefix, confirm → code, rev, deleted, more
	KVList      Command = 0x0104 // ns, prefix, after, limit → code, rev, entries[] | keys[], count, more
	KVNames     Command = 0x0105 // after, limit → code, rev, namespaces[], more
	KVDrop      Command = 0x0106 // ns, confirm → code, rev, deleted, more
	KVMGet      Command = 0x0107 // ns, keys[] → code, rev, entries[]
	KVTxn       Command = 0x0108 // if[], then[], else[] → code, rev, held, results[]
	KVCas       Command = 0x0109 // ns, key, expect, value → as KVPUT
	KVIncr      Command = 0x010A // ns, key, by → as KVPUT, and value
	KVHistory   Command = 0x010B // ns, key, before, limit → code, rev, versions[], more, floor
	KVRestore   Command = 0x010C // ns, key, rev → as KVPUT
	KVStat      Command = 0x010D // nothing → code, numbers
	KVLease     Command = 0x0110 // ttl → code, rev, lease, ttl
	KVAlive     Command = 0x0111 // lease → code, lease, ttl
	KVRevoke    Command = 0x0112 // lease → code, rev, deleted
	KVLeaseInfo Command = 0x0113 // lease → code, lease, ttl, left, keys
	KVLock      Command = 0x0118 // ns, key, lease, wait → code, granted, fence
	KVUnlock    Command = 0x0119 // ns, key, fence | lease → code, rev
	KVGrant     Command = 0x011A // pushed: ns, key, lease, fence
	KVWatch     Command = 0x0120 // ns, key | prefix, from | state → code, rev, watch
	KVUnwatch   Command = 0x0121 // watch → code
	KVEvent     Command = 0x0122 // pushed: watch, rev, events[]
)

// The commands of the watch on documents, which are our own. Those about their history have the
// ids before.
const (
	CfWatch   Command = 0x0380 // name | prefix, resolved, path, from | state → code, rev, watch
	CfUnwatch Command = 0x0381 // watch → code
	CfEvent   Command = 0x0382 // pushed: watch, rev, events[]
)

// The commands of player storage, which are our own: fields of owners, kept in memory and
// landed in SQL.
const (
	StGet     Command = 0x0200 // owner, names[] → code, fields, bytes
	StAll     Command = 0x0201 // owner, after, limit, rev → code, rev, fields, bytes, more
	StUpdate  Command = 0x0202 // owner, fields, bytes → code, rev, versions
	StIncr    Command = 0x0203 // owner, deltas → code, rev, values, versions
	StRemove  Command = 0x0204 // owner, names[] → code, rev
	StRestore Command = 0x0205 // owner, names[] → code, rev, fields, bytes, versions
	StOwners  Command = 0x0206 // appId, regionId, logicType, after, limit → code, owners[], more, next
	StStatus  Command = 0x0207 // nothing → code, tables[]
	StErrors  Command = 0x0208 // after, limit → code, errors[], more
	StRetry   Command = 0x0209 // rows[] or since → code, count
	StDrop    Command = 0x020A // rows[], confirm → code, count
	StRescan  Command = 0x020B // appId, regionId, version → code

	LdSettings Command = 0x0210 // nothing → code, settings
	LdClaim    Command = 0x0211 // table, who → code, fence | idle | holder
	LdTake     Command = 0x0212 // table, limit → code, a batch
	LdLanded   Command = 0x0213 // fence, a batch without values, failed[] → code
	LdNewer    Command = 0x0214 // version → code
	LdRelease  Command = 0x0215 // table, fence → code
)

// familyBits are the bits of an id that name its family of commands.
const (
	familyBits Command = 0xFF00
	familySize         = 0x100
)

// IsCppCloud reports whether c, a request or a reply, is of CppCloud's protocol, not of our own.
func (c Command) IsCppCloud() bool { return c.Request() < KVGet }

// IsState reports whether c, a request or a reply, belongs to the state store: octets may
// follow the JSON in its body, as ParseTailed reads it.
func (c Command) IsState() bool { return c.Request()&familyBits == KVGet }

// IsStorage reports whether c, a request or a reply, belongs to player storage.
func (c Command) IsStorage() bool { return c.Request()&familyBits == StGet }

// Reply is the id under which c is answered.
func (c Command) Reply() Command { return c | replyBit }

// IsReply reports whether c is a reply. Replies are never answered, so that two peers
// cannot answer each other forever.
func (c Command) IsReply() bool { return c >= replyBit }

// Request is the id that c answers; c itself if it is a request.
func (c Command) Request() Command { return c &^ replyBit }

// String is the table's name, with _RSP for a reply, or the id in hex.
func (c Command) String() string {
	row := Lookup(c.Request())
	if row == nil || c > 0x1FFF {
		return fmt.Sprintf("0x%04X", uint16(c))
	}
	if c.IsReply() {
		return row.Name + "_RSP"
	}
	return row.Name
}

// Role is what a server does with a command that a client sends.
type Role uint8

// The roles a command can have.
const (
	Served   Role = iota + 1 // answered, or acted on where the wire has no answer
	Routed                   // handed to another client
	Accepted                 // taken without an answer and without effect
	Reserved                 // answered with code 501 until it is built
	Peers                    // server to server: from a client ignored and logged, never obeyed
	Unused                   // ignored like any unknown id
	Pushed                   // sent by the server only: from a client ignored like any unknown id
)

var roleNames = [...]string{Served: "served", Routed: "routed", Accepted: "accepted", Reserved: "reserved", Peers: "peers", Unused: "unused", Pushed: "pushed"}

func (r Role) String() string {
	if int(r) < len(roleNames) && roleNames[r] != "" {
		return roleNames[r]
	}
	return fmt.Sprintf("role %d", uint8(r))
}

// Row is one line of the command table.
type Row struct {
	ID   Command
	Name string
	Role Role
	// MaxBody limits the body once the connection is identified, in bytes;
	// before that MaxAnonymousBody does. A longer one closes the connection.
	MaxBody uint32
	// Anonymous commands are allowed before WHOAMI has succeeded; any other is refused
	// with code 401, and the connection is closed.
	Anonymous bool
	// Right is the right that the client needs before the body is read: with something if there are Things or
	// the row Filters, else with everything.
	Right access.Right
	// Things appends what a request is about, a pointer to what the body is read into; nil: nothing by name.
	Things func(request any, things []op.Thing) []op.Thing
	// Filters: whom or what it may be done with is decided when it is found. What the client may not see is left
	// out, or answered as if it were not there.
	Filters bool
	// Push is true if the server also sends the request.
	Push bool
	// Op is the request's operation, if it is a transaction of one operation.
	Op kv.OpKind
	// Request and Response name the members of the bodies, for people.
	Request, Response string
}

// Named reports whether the row's right is needed with something only, because each name is decided about.
func (r *Row) Named() bool { return r.Things != nil || r.Filters }

// ownCommands are the rows of all commands but the models'.
var ownCommands = []Row{
	{ID: Whoami, Name: "WHOAMI", Role: Served, MaxBody: MaxBody, Right: access.Anyone, Anonymous: true, Request: "svrid, svrname, tag, …", Response: "code, svrid, mconf, epoch"},
	{ID: GetCli, Name: "GETCLI", Role: Served, MaxBody: MaxBody, Right: access.ClientsRead, Filters: true, Request: "svrid, key, after, limit", Response: "code, desc, data, count, more"},
	{ID: Hungup, Name: "HUNGUP", Role: Served, MaxBody: MaxBody, Right: access.ClientsRead, Filters: true, Request: "op, svrid", Response: "code, desc, data"},
	{ID: GetLogr, Name: "GETLOGR", Role: Served, MaxBody: MaxBody, Right: access.LogRead, Request: "size", Response: "code, desc, data"},
	{ID: Exchang, Name: "EXCHANG", Role: Routed, MaxBody: MaxBody, Right: access.ClientsSend, Filters: true, Request: "to, …", Response: "to, …"},
	{ID: SetArgs, Name: "SETARGS", Role: Served, MaxBody: MaxBody, Right: access.Anyone, Request: "warn, …", Response: "code, desc"},
	{ID: GetWarn, Name: "GETWARN", Role: Served, MaxBody: MaxBody, Right: access.ClientsRead, Filters: true, Request: "filter_key, filter_val", Response: "code, desc, data"},
	{ID: Iamserv, Name: "IAMSERV", Role: Peers, MaxBody: MaxBody, Right: access.Nobody, Anonymous: true},
	{ID: KeepAlive, Name: "KEEPALIVE", Role: Served, MaxBody: MaxBody, Right: access.Anyone, Push: true, Request: "–", Response: "–"},
	{ID: Broadcast, Name: "BROADCAST", Role: Peers, MaxBody: MaxBody, Right: access.Nobody},
	{ID: Cliera, Name: "CLIERA", Role: Peers, MaxBody: MaxBody, Right: access.Nobody},
	{ID: Testing, Name: "TESTING", Role: Served, MaxBody: MaxBody, Right: access.Anyone, Request: "cmd", Response: "–"},
	{ID: UpdateEra, Name: "UPDATEERA", Role: Peers, MaxBody: MaxBody, Right: access.Nobody},
	{ID: GetConfig, Name: "GETCONFIG", Role: Served, MaxBody: MaxBody, Right: access.ConfigRead, Things: op.Of[*ConfigQuery], Request: "file_pattern, key_pattern, gt_mtime, incbase, marks", Response: "code, mtime, file_pattern, contents, deleted, broken"},
	{ID: SetConfig, Name: "SETCONFIG", Role: Served, MaxBody: MaxBody, Right: access.ConfigWrite, Things: op.Of[*ConfigUpdate], Request: "filename, mtime, contents, if_mtime, author, comment, token", Response: "code, mtime, desc"},
	{ID: GetCfgName, Name: "GETCFGNAME", Role: Served, MaxBody: MaxBody, Right: access.ConfigRead, Filters: true, Request: "detail", Response: "name: [flag, mtime], …"},
	{ID: HoCfgNew, Name: "HOCFGNEW", Role: Peers, MaxBody: MaxBody, Right: access.Nobody},
	{ID: SetConfig2, Name: "SETCONFIG2", Role: Peers, MaxBody: MaxBody, Right: access.Nobody},
	{ID: SetConfig3, Name: "SETCONFIG3", Role: Peers, MaxBody: MaxBody, Right: access.Nobody},
	{ID: BookCfgChange, Name: "BOOKCFGCHANGE", Role: Served, MaxBody: MaxBody, Right: access.ConfigWatch, Things: op.Of[*Subscription], Request: "file_pattern, incbase, mtime, key_pattern, unsubscribe, missing_ok", Response: "code, desc, mtime"},
	{ID: EvNotify, Name: "EVNOTIFY", Role: Routed, MaxBody: MaxBody, Right: access.ClientsSend, Filters: true, Push: true, Request: "notify, filename, mtime, key_pattern; to, from, …", Response: "code, notify_r"},
	{ID: SvrRegister, Name: "SVRREGISTER", Role: Reserved, MaxBody: MaxBody, Right: access.ServicesWrite, Request: "regname, svrprop", Response: "code, desc"},
	{ID: SvrRegister2, Name: "SVRREGISTER2", Role: Peers, MaxBody: MaxBody, Right: access.Nobody},
	{ID: SvrSearch, Name: "SVRSEARCH", Role: Reserved, MaxBody: MaxBody, Right: access.ServicesRead, Request: "regname, …", Response: "code, desc"},
	{ID: SvrShow, Name: "SVRSHOW", Role: Reserved, MaxBody: MaxBody, Right: access.ServicesRead, Request: "regname", Response: "code, desc"},
	{ID: AppRunLog, Name: "APPRUNLOG", Role: Routed, MaxBody: MaxBody, Right: access.ClientsSend, Filters: true, Request: "to, …", Response: "to, …"},
	{ID: TCPSvr, Name: "TCP_SVR", Role: Unused, MaxBody: MaxBody, Right: access.Nobody},
	{ID: SvrStat, Name: "SVRSTAT", Role: Accepted, MaxBody: MaxBody, Right: access.Anyone, Request: "array of counters"},
	{ID: WebCtrl, Name: "WEBCTRL", Role: Unused, MaxBody: MaxBody, Right: access.Nobody},
	{ID: KVGet, Name: "KVGET", Role: Served, MaxBody: MaxBody, Right: access.KVRead, Things: op.Of[*KVRead], Request: "ns, key, rev, min_rev, raw, reveal", Response: "code, rev, type, value, raw, create, mod, version, updated, expires, lease"},
	{ID: KVPut, Name: "KVPUT", Role: Served, MaxBody: MaxBody, Right: access.KVWrite, Things: op.Of[*KVWrite], Op: kv.OpPut, Request: "ns, key, type, value, raw, seal, ttl, expires, lease, prev, reveal, token, if_fence, if_mod", Response: "code, rev, create, mod, version, updated, expires, lease, prev, current, replayed"},
	{ID: KVDel, Name: "KVDEL", Role: Served, MaxBody: MaxBody, Right: access.KVDelete, Things: op.Of[*KVWrite], Op: kv.OpDelete, Request: "ns, key, prev, reveal, token, if_fence, if_mod, raw", Response: "code, rev, deleted, prev, current, replayed"},
	{ID: KVDelPrefix, Name: "KVDELPREFIX", Role: Served, MaxBody: MaxBody, Right: access.KVDelete, Things: op.Of[*KVWrite], Op: kv.OpDeletePrefix, Request: "ns, prefix, confirm, limit, token, if_fence", Response: "code, rev, deleted, more, replayed"},
	{ID: KVList, Name: "KVLIST", Role: Served, MaxBody: MaxBody, Right: access.KVRead, Things: op.Of[*KVListQuery], Request: "ns, prefix, after, limit, keys_only, count_only, min_rev, raw, reveal", Response: "code, rev, entries, keys, count, more"},
	{ID: KVNames, Name: "KVNAMES", Role: Served, MaxBody: MaxBody, Right: access.KVRead, Filters: true, Request: "after, limit", Response: "code, rev, namespaces, more"},
	{ID: KVDrop, Name: "KVDROP", Role: Served, MaxBody: MaxBody, Right: access.KVDelete, Things: op.Of[*KVWrite], Op: kv.OpDeletePrefix, Request: "ns, confirm, limit, token, if_fence", Response: "code, rev, deleted, more, replayed"},
	{ID: KVMGet, Name: "KVMGET", Role: Served, MaxBody: MaxBody, Right: access.KVRead, Things: op.Of[*KVMGetQuery], Request: "ns, keys, min_rev, raw, reveal", Response: "code, rev, entries"},
	{ID: KVTxn, Name: "KVTXN", Role: Served, MaxBody: MaxBody, Right: access.KVEach, Things: op.Of[*KVWrite], Request: "ns, if, then, else, token, if_fence, raw, reveal", Response: "code, rev, held, results, replayed"},
	{ID: KVCas, Name: "KVCAS", Role: Served, MaxBody: MaxBody, Right: access.KVWrite, Things: op.Of[*KVWrite], Op: kv.OpPut, Request: "ns, key, expect, type, value, raw, seal, ttl, expires, lease, prev, reveal, token, if_fence", Response: "code, rev, create, mod, version, updated, expires, lease, prev, current, replayed"},
	{ID: KVIncr, Name: "KVINCR", Role: Served, MaxBody: MaxBody, Right: access.KVWrite, Things: op.Of[*KVWrite], Op: kv.OpIncr, Request: "ns, key, by, initial, min, max, ttl, expires, lease, prev, reveal, token, if_fence, raw", Response: "code, rev, type, value, create, mod, version, updated, expires, lease, prev, replayed"},
	{ID: KVHistory, Name: "KVHISTORY", Role: Served, MaxBody: MaxBody, Right: access.KVHistory, Things: op.Of[*KVHistoryQuery], Request: "ns, key, before, limit, raw, reveal", Response: "code, rev, versions, more, floor"},
	{ID: KVRestore, Name: "KVRESTORE", Role: Served, MaxBody: MaxBody, Right: access.KVWrite, Things: op.Of[*KVRestoration], Op: kv.OpPut, Request: "ns, key, rev, ttl, expires, lease, prev, reveal, token, if_fence, if_mod, raw", Response: "code, rev, create, mod, version, updated, expires, lease, prev, current, replayed"},
	{ID: KVStat, Name: "KVSTAT", Role: Served, MaxBody: MaxBody, Right: access.StatusRead, Request: "–", Response: "code, revision, keys, …"},
	{ID: KVLease, Name: "KVLEASE", Role: Served, MaxBody: MaxBody, Right: access.KVLease, Things: op.Of[*KVWrite], Op: kv.OpGrant, Request: "ttl, ns, token, if_fence", Response: "code, rev, lease, ttl, replayed"},
	{ID: KVAlive, Name: "KVALIVE", Role: Served, MaxBody: MaxBody, Right: access.KVLease, Filters: true, Request: "lease", Response: "code, lease, ttl"},
	{ID: KVRevoke, Name: "KVREVOKE", Role: Served, MaxBody: MaxBody, Right: access.KVLease, Things: op.Of[*KVWrite], Op: kv.OpRevoke, Request: "lease, ns, token, if_fence", Response: "code, rev, deleted, replayed"},
	{ID: KVLeaseInfo, Name: "KVLEASEINFO", Role: Served, MaxBody: MaxBody, Right: access.KVLease, Filters: true, Request: "lease", Response: "code, lease, ttl, left, keys"},
	{ID: KVLock, Name: "KVLOCK", Role: Served, MaxBody: MaxBody, Right: access.KVLock, Things: op.Of[*KVLockRequest], Request: "ns, key, lease, type, value, raw, wait", Response: "code, rev, granted, fence, current"},
	{ID: KVUnlock, Name: "KVUNLOCK", Role: Served, MaxBody: MaxBody, Right: access.KVLock, Things: op.Of[*KVUnlockRequest], Request: "ns, key, fence, lease", Response: "code, rev"},
	{ID: KVGrant, Name: "KVGRANT", Role: Pushed, MaxBody: MaxBody, Right: access.Nobody, Push: true, Request: "ns, key, lease, fence, code, desc"},
	{ID: KVWatch, Name: "KVWATCH", Role: Served, MaxBody: MaxBody, Right: access.KVWatch, Things: op.Of[*KVWatchRequest], Request: "ns, key, prefix, from, state, prev, coalesce, raw, reveal", Response: "code, rev, watch"},
	{ID: KVUnwatch, Name: "KVUNWATCH", Role: Served, MaxBody: MaxBody, Right: access.KVWatch, Filters: true, Request: "watch", Response: "code"},
	{ID: KVEvent, Name: "KVEVENT", Role: Pushed, MaxBody: MaxBody, Right: access.Nobody, Push: true, Request: "watch, rev, events, state, synced, resync, more"},
	{ID: StGet, Name: "STGET", Role: Served, MaxBody: MaxBody, Right: access.StorageRead, Things: op.Of[*StorageRead], Request: "appId, regionId, logicType, ownerId, names, versions", Response: "code, fields, bytes, versions"},
	{ID: StAll, Name: "STALL", Role: Served, MaxBody: MaxBody, Right: access.StorageRead, Things: op.Of[*StorageQuery], Request: "appId, regionId, logicType, ownerId, after, limit, rev, versions", Response: "code, rev, fields, bytes, versions, more, next"},
	{ID: StUpdate, Name: "STUPDATE", Role: Served, MaxBody: MaxBody, Right: access.StorageWrite, Things: fieldsWritten, Request: "appId, regionId, logicType, ownerId, fields, bytes, expect, prev, token", Response: "code, rev, versions, prev, replayed"},
	{ID: StIncr, Name: "STINCR", Role: Served, MaxBody: MaxBody, Right: access.StorageWrite, Things: fieldsWritten, Request: "appId, regionId, logicType, ownerId, deltas, expect, prev, token", Response: "code, rev, values, versions, prev, replayed"},
	{ID: StRemove, Name: "STREMOVE", Role: Served, MaxBody: MaxBody, Right: access.StorageWrite, Things: fieldsWritten, Request: "appId, regionId, logicType, ownerId, names, expect, prev, token", Response: "code, rev, prev, replayed"},
	{ID: StRestore, Name: "STRESTORE", Role: Served, MaxBody: MaxBody, Right: access.StorageWrite, Things: fieldsWritten, Request: "appId, regionId, logicType, ownerId, names, expect, prev, token", Response: "code, rev, fields, bytes, versions, prev, replayed"},
	{ID: StOwners, Name: "STOWNERS", Role: Served, MaxBody: MaxBody, Right: access.StorageRead, Things: op.Of[*StorageOwnersQuery], Request: "appId, regionId, logicType, after, limit, count", Response: "code, owners, more, next, count"},
}

// configWatchCommands are the rows of the watch on documents.
var configWatchCommands = []Row{
	{ID: CfWatch, Name: "CFWATCH", Role: Served, MaxBody: MaxBody, Right: access.ConfigWatch, Things: documentsWatched, Request: "name, prefix, resolved, path, from, state, prev, changes, reveal", Response: "code, rev, watch"},
	{ID: CfUnwatch, Name: "CFUNWATCH", Role: Served, MaxBody: MaxBody, Right: access.ConfigWatch, Filters: true, Request: "watch", Response: "code"},
	{ID: CfEvent, Name: "CFEVENT", Role: Pushed, MaxBody: MaxBody, Right: access.Nobody, Push: true, Request: "watch, rev, events, state, synced, resync, code, desc, more"},
}

// rowOf finds a row by its id.
var rowOf = func() []*Row {
	rows := make([]*Row, models[len(models)-1].first+familySize)
	for i := range Commands {
		rows[Commands[i].ID] = &Commands[i]
	}
	return rows
}()

// ofOp is the first command for each operation, 0 if there is none.
var ofOp = func() (list [1 << 8]Command) {
	for i := range Commands {
		if op := Commands[i].Op; op != 0 && list[op] == 0 {
			list[op] = Commands[i].ID
		}
	}
	return list
}()

// IDs is the length of a list that is indexed by the ids of Commands.
func IDs() int { return len(rowOf) }

// Lookup is the row of request id c, nil if the table has none.
func Lookup(c Command) *Row {
	if int(c) < len(rowOf) {
		return rowOf[c]
	}
	return nil
}

// BodyLimit is the largest body in bytes that is accepted with header id c,
// request, reply or unknown.
func BodyLimit(c Command, identified bool) uint32 {
	if !identified {
		return MaxAnonymousBody
	}
	if row := Lookup(c.Request()); row != nil {
		return row.MaxBody
	}
	return MaxBody
}
