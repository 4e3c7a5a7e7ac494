package gateway

import (
	"time"

	"confcenter/internal/metric"
	"confcenter/kv"
)

// Fleet is what the gateway shows of the server that programs are connected to.
// All methods may be called from any goroutine.
type Fleet interface {
	// Clients are the identified connections, ordered by id. It may take some
	// milliseconds: the event loops are asked one after the other.
	Clients() []Client
	// Stats are its numbers, under the names they have in /metrics. It is cheap.
	Stats() metric.Readings
	// Live says why the server has to be started anew: it has ended by itself, or
	// one of its event loops stands still. nil: all is well. It is cheap.
	Live() error
	// Ready says why no new requests are taken although the server lives: it is
	// stopping. It is cheap.
	Ready() error
	// Slow are the requests that took longest to be answered lately, newest first,
	// at most maxSlow.
	Slow() []metric.Slow
}

// Client is an identified connection.
type Client struct {
	ID      int32
	Name    string // what it calls itself, its svrname
	Tag     string
	Address string // host:port
	Since   time.Time
	Main    string // its main configuration, empty if _meta.json gives it none
	// Subscriptions are ordered by file; of a connection that has very many, the
	// rest is only counted in More.
	Subscriptions []Subscription
	More          int
	Watches       int // on the state store
	// Watching, Locks and Leases are each at most a few hundred: what the state store
	// is watched for, the locks that the connection holds or waits for, and the leases
	// it was granted, as far as they are remembered and still so.
	Watching []kv.Filter
	Locks    []Lock
	Leases   []kv.Lease
}

// Lock is a lock that a connection holds or, with Fence 0, waits for.
type Lock struct {
	NS, Key string
	Lease   kv.LeaseID
	Fence   kv.Revision
}

// Subscription is a file that a connection wants to be told of.
type Subscription struct {
	File string
	Path string // of the part it wants to be told of, empty for the whole document
	Told int32  // the mtime it was last told of, 0 for none
}
