package loop

import (
	"cmp"
	"time"
)

// Limits bound what peers can make the server hold. Zero fields get their defaults. Each
// limit has a counter in Stats that tells how often it was reached.
type Limits struct {
	// Input is how much input of one session may wait, in bytes, before its socket is no
	// longer read. Default 8 MiB.
	Input int
	// Pending is how much output, in bytes, may wait for a peer before its requests are no
	// longer handled. Default 64 KiB.
	Pending int
	// Frames is how many pieces of output may wait for one peer before it is
	// closed; pushes for one subscription coalesce and count once. Default 4096.
	Frames int
	// Writes is how many writes of one session may be in progress; further requests wait.
	// Default 64.
	Writes int
	// Subscriptions of one session. Default 4096.
	Subscriptions int
	// LockWaits is how many locks one session may wait for. Default 1024.
	LockWaits int
	// Besides is how many requests of one session may wait for a network beside each other.
	// Default 1024.
	Besides int
	// Watches of one session on the state store. Default 1024.
	Watches int
	// Backlog is how many bytes of changes of the state store may wait in one loop; beyond
	// it the loop's watches read them from the store. As many bytes of changes of documents
	// may wait; beyond it they are joined, and only the newest version of each document is
	// pushed. It is at most an eighth of the memory. Default 32 MiB.
	Backlog int64
	// Properties is the size of one client's properties in bytes. Default 16 KiB.
	Properties int
	// Memory is the size of all input, output and routed frames together, in bytes, where
	// no pool is given; beyond it the peer that has not read for longest is closed. A body
	// that many peers wait for counts once per loop. Default 512 MiB.
	Memory int64
	// Stall is how long a peer may read nothing of its output. Default 60 s.
	Stall time.Duration
	// Linger is how long a connection that is being closed may pause reading its last
	// replies. Default 2 s.
	Linger time.Duration
}

// WithDefaults replaces zero fields by their defaults.
func (l Limits) WithDefaults() Limits {
	l.Input = cmp.Or(l.Input, 8<<20)
	l.Pending = cmp.Or(l.Pending, 64<<10)
	l.Frames = cmp.Or(l.Frames, 4096)
	l.Writes = cmp.Or(l.Writes, 64)
	l.Subscriptions = cmp.Or(l.Subscriptions, 4096)
	l.LockWaits = cmp.Or(l.LockWaits, 1024)
	l.Besides = cmp.Or(l.Besides, 1024)
	l.Watches = cmp.Or(l.Watches, 1024)
	l.Backlog = cmp.Or(l.Backlog, 32<<20)
	l.Properties = cmp.Or(l.Properties, 16<<10)
	l.Memory = cmp.Or(l.Memory, 512<<20)
	l.Stall = cmp.Or(l.Stall, 60*time.Second)
	l.Linger = cmp.Or(l.Linger, 2*time.Second)
	return l
}
