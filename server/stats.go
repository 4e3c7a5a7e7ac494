package server

import "sync/atomic"

// counters are the server's, each named after what it counts.
type counters struct {
	opened, closed           atomic.Uint64
	turnedAway               atomic.Uint64
	replies                  atomic.Uint64
	pushes, coalesced        atomic.Uint64
	badFrames                atomic.Uint64
	unidentified             atomic.Uint64
	inputLimit, outputLimit  atomic.Uint64
	memoryLimit, stalled     atomic.Uint64
	parked                   atomic.Uint64
	subscriptionLimit        atomic.Uint64
	ignoredPeers, keepAlives atomic.Uint64
	idleClosed               atomic.Uint64
	watches                  atomic.Int64
	watchFrames, watchLimit  atomic.Uint64
	watchBehind              atomic.Uint64
	watchResyncs             atomic.Uint64
	watchBacklog             atomic.Uint64
	stateWrites, stateBusy   atomic.Uint64
	stateRefused             atomic.Uint64
	lockWaitLimit            atomic.Uint64
}

// Stats is a moment's counters and gauges.
type Stats struct {
	Connections    int    // open now
	Clients        int    // of these, identified
	Opened, Closed uint64 // connections since start
	// TurnedAway counts connections beyond MaxConnections.
	TurnedAway uint64
	// Requests counts frames handled, Replies the answers, Pushes the EVNOTIFY
	// frames for config changes; Coalesced are pushes that replaced one the peer
	// had not read yet.
	Requests, Replies, Pushes, Coalesced uint64
	// BadFrames counts connections closed for a wrong header or an oversize
	// body, Unidentified those that never sent WHOAMI, Idle those that did not
	// answer the keep-alive.
	BadFrames, Unidentified, Idle uint64
	// How often each limit of Limits closed a connection.
	InputLimit, OutputLimit, MemoryLimit, Stalled uint64
	// Parked counts how often a session had to wait, for its own writes, the
	// store's queue or a peer that does not read.
	Parked uint64
	// SubscriptionLimit counts subscriptions refused.
	SubscriptionLimit uint64
	// StateWrites counts the writes that the state store took from sessions,
	// StateBusy how often its queue was full and a session waited, StateRefused
	// the requests answered with an error.
	StateWrites, StateBusy, StateRefused uint64
	// LockWaitLimit counts requests for locks refused because the session waits
	// for too many.
	LockWaitLimit uint64
	// IgnoredPeers counts server-to-server commands that clients sent.
	IgnoredPeers uint64
	// Watches is how many there are now on the state store, WatchFrames how many
	// KVEVENT frames they were sent, WatchLimit how many were refused.
	Watches                 int64
	WatchFrames, WatchLimit uint64
	// WatchBehind counts how often a watch fell behind because its peer did not
	// read, WatchResyncs how often one had to begin again with the whole state,
	// WatchBacklog batches that were too much for a loop to be told.
	WatchBehind, WatchResyncs, WatchBacklog uint64
	// KeepAlives counts the server's own keep-alive requests.
	KeepAlives uint64
	// Memory is what is held for peers, in bytes.
	Memory int64
}

// Stats reads the counters; any goroutine may.
func (s *Server) Stats() Stats {
	c := &s.count
	counted := s.countRequests()
	connections, clients := s.registry.counts()
	return Stats{
		Connections: connections, Clients: clients,
		Opened: c.opened.Load(), Closed: c.closed.Load(), TurnedAway: c.turnedAway.Load(),
		Requests: sum(counted[:]), Replies: c.replies.Load(),
		Pushes: c.pushes.Load(), Coalesced: c.coalesced.Load(),
		BadFrames: c.badFrames.Load(), Unidentified: c.unidentified.Load(), Idle: c.idleClosed.Load(),
		InputLimit: c.inputLimit.Load(), OutputLimit: c.outputLimit.Load(),
		MemoryLimit: c.memoryLimit.Load(), Stalled: c.stalled.Load(),
		Parked: c.parked.Load(), SubscriptionLimit: c.subscriptionLimit.Load(),
		StateWrites: c.stateWrites.Load(), StateBusy: c.stateBusy.Load(), StateRefused: c.stateRefused.Load(),
		LockWaitLimit: c.lockWaitLimit.Load(),
		IgnoredPeers:  c.ignoredPeers.Load(), KeepAlives: c.keepAlives.Load(),
		Watches: c.watches.Load(), WatchFrames: c.watchFrames.Load(), WatchLimit: c.watchLimit.Load(),
		WatchBehind: c.watchBehind.Load(), WatchResyncs: c.watchResyncs.Load(), WatchBacklog: c.watchBacklog.Load(),
		Memory: s.memory.used.Load(),
	}
}
