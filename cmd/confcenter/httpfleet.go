package main

import (
	"confcenter/gateway"
	"confcenter/server"
)

// fleet shows the HTTP side the TCP server, which it does not know.
type fleet struct{ server *server.Server }

// Live implements gateway.Fleet.
func (f fleet) Live() error { return f.server.Live() }

// Ready implements gateway.Fleet.
func (f fleet) Ready() error { return f.server.Ready() }

// Clients implements gateway.Fleet.
func (f fleet) Clients() []gateway.Client {
	found := f.server.Clients()
	list := make([]gateway.Client, len(found))
	for i, c := range found {
		list[i] = gateway.Client{
			ID: c.ID, Name: c.Name, Tag: c.Tag, Address: c.Address, Since: c.Since, Main: c.Main,
			Subscriptions: make([]gateway.Subscription, len(c.Subscriptions)), More: c.More, Watches: c.Watches,
			Watching: c.Watching, Locks: make([]gateway.Lock, len(c.Locks)), Leases: c.Leases,
		}
		for j, sub := range c.Subscriptions {
			list[i].Subscriptions[j] = gateway.Subscription(sub)
		}
		for j, lock := range c.Locks {
			list[i].Locks[j] = gateway.Lock(lock)
		}
	}
	return list
}

// Slow implements gateway.Fleet.
func (f fleet) Slow() []gateway.Slow {
	var list []gateway.Slow
	for _, slow := range f.server.Slow() {
		list = append(list, gateway.Slow{When: slow.When, Name: slow.Command, Duration: slow.Duration})
	}
	return list
}

// Stats implements gateway.Fleet.
func (f fleet) Stats() gateway.FleetStats {
	stats := fleetStats(f.server.Stats())
	stats.Commands, stats.Latency = f.commands(), f.latency()
	return stats
}

func fleetStats(s server.Stats) gateway.FleetStats {
	return gateway.FleetStats{
		Connections: s.Connections, Clients: s.Clients, Watches: s.Watches, MemoryBytes: s.Memory,
		Opened: s.Opened, Closed: s.Closed, Requests: s.Requests, Replies: s.Replies,
		Pushes: s.Pushes, Coalesced: s.Coalesced, WatchFrames: s.WatchFrames,
		WatchesBehind: s.WatchBehind, WatchResyncs: s.WatchResyncs,
		KeepAlives: s.KeepAlives, Parked: s.Parked, StateWrites: s.StateWrites, StateRefused: s.StateRefused,
		LimitsMet: []gateway.Count{
			{Name: "connections", N: s.TurnedAway}, {Name: "frame", N: s.BadFrames}, {Name: "identify", N: s.Unidentified}, {Name: "idle", N: s.Idle},
			{Name: "input", N: s.InputLimit}, {Name: "output", N: s.OutputLimit}, {Name: "memory", N: s.MemoryLimit}, {Name: "stall", N: s.Stalled},
			{Name: "subscriptions", N: s.SubscriptionLimit}, {Name: "watches", N: s.WatchLimit}, {Name: "backlog", N: s.WatchBacklog},
			{Name: "lock_waits", N: s.LockWaitLimit}, {Name: "queue", N: s.StateBusy}, {Name: "role", N: s.IgnoredPeers},
		},
	}
}

func (f fleet) commands() []gateway.Count {
	var list []gateway.Count
	for _, c := range f.server.Commands() {
		list = append(list, gateway.Count{Name: c.Command, N: c.Requests})
	}
	return list
}

func (f fleet) latency() []gateway.Latency {
	var list []gateway.Latency
	for _, l := range f.server.Latency() {
		one := gateway.Latency{Kind: l.Kind, Sum: l.Sum}
		for i, n := range l.Counts {
			one.Count += n
			if i < len(l.Bounds) {
				one.Buckets = append(one.Buckets, gateway.Bucket{UpTo: l.Bounds[i], Count: n})
			}
		}
		list = append(list, one)
	}
	return list
}
