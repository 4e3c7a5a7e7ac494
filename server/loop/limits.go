package loop

import (
	"cmp"
	"time"
)

// Limits bound what peers can make the server hold. Zero fields take the
// default; each has a counter in Stats that tells how often it was met.
type Limits struct {
	// Input is the undecoded input of one session in bytes, also of one that is
	// parked. It must hold one frame of the largest size. Default 8 MiB.
	Input int
	// Pending is how much output, in bytes, may wait for a peer that does not
	// read before its requests are no longer taken. Default 64 KiB.
	Pending int
	// Frames is how many pieces of output may wait for one peer before it is
	// closed; pushes for one subscription coalesce and count once. Default 4096.
	Frames int
	// Writes is how many writes of one session may be on their way to the store;
	// further requests wait. Default 64.
	Writes int
	// Subscriptions of one session. Default 4096.
	Subscriptions int
	// LockWaits is how many locks one session may wait for. Default 1024.
	LockWaits int
	// Watches of one session on the state store. Default 1024.
	Watches int
	// Backlog is how many bytes of changes of the state store may wait to be told
	// by one loop; beyond it the loop's watches read them back from the store. As
	// many of documents may wait; beyond it they are joined, and of each document
	// only the newest version is told. Default 32 MiB.
	Backlog int64
	// Properties is the size of one client's properties in bytes. Default 16 KiB.
	Properties int
	// Memory is what all input, output and routed frames together may hold in
	// bytes; beyond it the peer that has been reading least is closed. A body
	// that many peers wait for counts once a loop. Default 512 MiB.
	Memory int64
	// Stall is how long a peer may read nothing of what waits for it. Default 60 s.
	Stall time.Duration
	// Linger is how long a connection that is being closed may rest from reading the
	// last reply. Default 2 s.
	Linger time.Duration
}

// WithDefaults fills in what is zero.
func (l Limits) WithDefaults() Limits {
	l.Input = cmp.Or(l.Input, 8<<20)
	l.Pending = cmp.Or(l.Pending, 64<<10)
	l.Frames = cmp.Or(l.Frames, 4096)
	l.Writes = cmp.Or(l.Writes, 64)
	l.Subscriptions = cmp.Or(l.Subscriptions, 4096)
	l.LockWaits = cmp.Or(l.LockWaits, 1024)
	l.Watches = cmp.Or(l.Watches, 1024)
	l.Backlog = cmp.Or(l.Backlog, 32<<20)
	l.Properties = cmp.Or(l.Properties, 16<<10)
	l.Memory = cmp.Or(l.Memory, 512<<20)
	l.Stall = cmp.Or(l.Stall, 60*time.Second)
	l.Linger = cmp.Or(l.Linger, 2*time.Second)
	return l
}
