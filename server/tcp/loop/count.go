package loop

import (
	"sync/atomic"

	"confcenter/internal/metric"
	"confcenter/protocol"
)

// Counters are the server's counters. They are declared only here.
//
// wide: a list of numbers.
type Counters struct {
	Opened           atomic.Uint64 `metric:"server_connections_opened_total" help:"TCP connections accepted."`
	Closed           atomic.Uint64 `metric:"server_connections_closed_total" help:"TCP connections ended."`
	HandshakesFailed atomic.Uint64 `metric:"server_tls_handshakes_failed_total" help:"TLS connections closed because their handshake failed."`
	Replies          atomic.Uint64 `metric:"server_replies_total" help:"Replies sent to TCP peers."`
	Pushes           atomic.Uint64 `metric:"server_pushes_total" help:"Notices of changed configurations."`
	Coalesced        atomic.Uint64 `metric:"server_pushes_coalesced_total" help:"Notices that took the place of one the peer had not read."`
	Watches          atomic.Int64  `metric:"server_watches" help:"Watches on the state store."`
	WatchFrames      atomic.Uint64 `metric:"server_watch_frames_total" help:"Frames of events sent to watches."`
	WatchesBehind    atomic.Uint64 `metric:"server_watches_behind_total" help:"How often a watch fell behind because its peer did not read."`
	WatchResyncs     atomic.Uint64 `metric:"server_watch_resyncs_total" help:"How often a watch had to begin again with the whole state."`
	KeepAlives       atomic.Uint64 `metric:"server_keepalives_total" help:"Silent peers asked for a sign of life."`
	Parked           atomic.Uint64 `metric:"server_sessions_parked_total" help:"How often a connection had to wait for its writes, the store or its peer."`
	Rests            atomic.Uint64 `metric:"server_sessions_rested_total" help:"How often a connection was not read for a while because its peer sends more than it may."`
	Panics           atomic.Uint64 `metric:"server_panics_total" help:"Panics that were contained; mostly they closed one connection."`
	StateWrites      atomic.Uint64 `metric:"server_state_writes_total" help:"Writes that the state store took from TCP peers."`
	StateRefused     atomic.Uint64 `metric:"server_state_refused_total" help:"Requests about the state store answered with an error."`

	// Connections that were closed:
	BadFrames    atomic.Uint64 `metric:"server_limits_met_total" label:"limit=frame" help:"How often TCP peers met a limit."` // a wrong header or an oversize body
	Unidentified atomic.Uint64 `metric:"server_limits_met_total" label:"limit=identify"`
	Handshake    atomic.Uint64 `metric:"server_limits_met_total" label:"limit=handshake"` // it took too long
	Idle         atomic.Uint64 `metric:"server_limits_met_total" label:"limit=idle"`      // the keep-alive was not answered
	OutputLimit  atomic.Uint64 `metric:"server_limits_met_total" label:"limit=output"`
	MemoryLimit  atomic.Uint64 `metric:"server_limits_met_total" label:"limit=memory"`
	Stalled      atomic.Uint64 `metric:"server_limits_met_total" label:"limit=stall"`
	// Requests that were refused or had to wait:
	InputLimit        atomic.Uint64 `metric:"server_limits_met_total" label:"limit=input"` // the socket was not read for a while
	SubscriptionLimit atomic.Uint64 `metric:"server_limits_met_total" label:"limit=subscriptions"`
	WatchLimit        atomic.Uint64 `metric:"server_limits_met_total" label:"limit=watches"`
	WatchBacklog      atomic.Uint64 `metric:"server_limits_met_total" label:"limit=backlog"` // batches that were too much for a loop
	LockWaitLimit     atomic.Uint64 `metric:"server_limits_met_total" label:"limit=lock_waits"`
	BesidesLimit      atomic.Uint64 `metric:"server_limits_met_total" label:"limit=besides"` // requests that wait for the database
	StateBusy         atomic.Uint64 `metric:"server_limits_met_total" label:"limit=queue"`   // the store's queue was full
	IgnoredPeers      atomic.Uint64 `metric:"server_limits_met_total" label:"limit=role"`    // server-to-server commands from clients
}

// Readings returns everything that the loops count and measure, under the names of
// /metrics. Any goroutine may call it.
func (g *Group) Readings() metric.Readings {
	paused := int64(0)
	for _, l := range g.allLoops() {
		paused += int64(l.pauses.n.Load())
	}
	list := append(metric.Of(&g.Count),
		metric.Reading{Name: "server_sessions_resting", Help: "Connections that are not read for a while because their peers send more than they may.", N: paused},
		metric.Reading{Name: "server_memory_bytes", Help: "Input and output held for TCP peers.", N: g.Memory.Held()})
	return append(append(list, g.commands()...), g.latency()...)
}

// otherCommands counts requests with commands that are unknown or not for clients.
const otherCommands = "OTHER"

// commands returns the requests by command, including commands that no one has sent.
func (g *Group) commands() (list metric.Readings) {
	counted := make([]int64, protocol.IDs())
	for _, l := range g.allLoops() {
		for i := range counted {
			counted[i] += int64(l.meter.commands[i].Load())
		}
	}
	add := func(name string, n int64) {
		list = append(list, metric.Reading{Name: "server_requests_total", Help: "Requests of TCP peers.", Labels: []metric.Label{{Name: "command", Value: name}}, N: n})
	}
	for _, row := range protocol.Commands {
		switch row.Role {
		case protocol.Served, protocol.Routed, protocol.Accepted, protocol.Reserved:
			add(row.Name, counted[row.ID])
			counted[row.ID] = 0
		}
	}
	var others int64
	for _, n := range counted {
		others += n
	}
	add(otherCommands, others)
	return list
}

// latency returns how long requests took, from the start of handling to the reply's
// sending. It does not include the wait before, for the socket to be read or for earlier
// writes of the connection.
func (g *Group) latency() (list metric.Readings) {
	for p := range paces {
		times := &metric.Times{}
		for _, l := range g.allLoops() {
			times.Add(&l.meter.latency[p])
		}
		list = append(list, metric.Reading{
			Name:   "server_request_duration_seconds",
			Help:   "Time from taking a TCP request up to its reply's way out: answered from memory (of which some are timed), by a worker, or written.",
			Labels: []metric.Label{{Name: "kind", Value: paceNames[p]}}, Times: times,
		})
	}
	return list
}
