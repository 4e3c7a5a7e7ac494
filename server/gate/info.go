package gate

import (
	"time"

	"confcenter/kv"
)

// ClientInfo is what the server knows of an identified connection.
type ClientInfo struct {
	ID      int32
	Name    string // its svrname
	Tag     string
	Address string // host:port
	Since   time.Time
	Main    string // main config, empty if none
	// Subscriptions are ordered by file and path. Not all are told of who has
	// many; More counts the rest.
	Subscriptions []SubscriptionInfo
	More          int
	Watches       int // on the state store
	// Watching, Locks and Leases are not all either.
	Watching []kv.Filter
	Locks    []LockInfo // held ones first
	Leases   []kv.Lease // granted to the connection and still there
}

// LockInfo is a lock that a connection holds or, with Fence 0, waits for.
type LockInfo struct {
	NS, Key string
	Lease   kv.LeaseID
	Fence   kv.Revision
}

// SubscriptionInfo is a subscription to a config file.
type SubscriptionInfo struct {
	File string // full name
	Path string // of the part, empty for the whole document
	Told int32  // version the client was last told of, 0 for none
}

// Many is how much there is in info of what there can be many of.
func (info *ClientInfo) Many() int { return len(info.Subscriptions) + len(info.Watching) }
