// Package roster describes the programs that are connected to a server.
package roster

import (
	"time"

	"confcenter/kv"
)

// Client is an identified connection.
type Client struct {
	ID      int32
	Name    string // what it calls itself, its svrname
	Tag     string
	Address string // host:port
	Since   time.Time
	Main    string // its main configuration, empty if _meta.json gives it none
	// Subscriptions are ordered by file and path. A connection may have very many:
	// More counts those that are left out.
	Subscriptions []Subscription
	More          int
	Watches       int // on the state store
	// Watching, Locks and Leases are at most a few hundred each: what the state store
	// is watched for, the locks that the connection holds (these first) or waits for,
	// and the leases that it was granted and that have not ended.
	Watching []kv.Filter
	Locks    []Lock
	Leases   []kv.Lease
}

// Many is the number of subscriptions and watches listed: a client can have many.
func (c *Client) Many() int { return len(c.Subscriptions) + len(c.Watching) }

// Lock is a lock that a connection holds or, with Fence 0, waits for. The tags are
// those of GET /v1/clients.
type Lock struct {
	NS    string      `json:"ns"`
	Key   string      `json:"key"`
	Lease kv.LeaseID  `json:"lease"`
	Fence kv.Revision `json:"fence,omitempty"`
}

// Subscription is a file whose changes a connection is told; the tags are as Lock's.
type Subscription struct {
	File string `json:"file"`           // full name
	Path string `json:"path,omitempty"` // of the part that is followed, empty for the whole document
	Told int32  `json:"told"`           // the mtime that the connection was last told, 0 for none
}
