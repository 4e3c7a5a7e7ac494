package server

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"confcenter/codes"
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
	// Subscriptions are ordered by file and path. At most maxListed of one
	// connection and maxListedInAll are told; More counts the rest.
	Subscriptions []SubscriptionInfo
	More          int
	Watches       int // on the state store
	// Watching, Locks and Leases are at most maxListed each.
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

// Limits of what Clients tells.
const (
	maxListed      = 256
	maxListedInAll = 200_000
)

// censusSlice is how many sessions a census looks at in one turn of a loop.
const censusSlice = 512

// A unit of a turn is about a send, which takes longer than looking at 64
// subscriptions.
const subscriptionsPerUnit = 64

// census asks one loop for its clients. It goes from the end of the list, so that
// sessions that leave in between make it miss nobody; it can meet one twice.
type census struct {
	next   int // -1: not begun
	room   int // subscriptions that may still be listed
	found  []counted
	answer chan<- []counted // takes one without waiting
}

// counted is a client as its loop knows it.
type counted struct {
	client *client
	info   ClientInfo
	leases []kv.LeaseID
}

func (c *census) deliver(l *loop, budget int) (int, bool) {
	if c.next < 0 {
		c.next = len(l.conns)
	}
	used := 0
	for seen := 0; c.next > 0 && seen < censusSlice && used < budget; seen++ {
		c.next--
		if c.next >= len(l.conns) {
			continue
		}
		if s := l.session(c.next); s.client != nil {
			used += 1 + c.look(s)/subscriptionsPerUnit
		}
	}
	if c.next > 0 {
		return used + 1, false
	}
	c.answer <- c.found
	return used + 1, true
}

// look notes what only the loop knows, and returns how much that was.
func (c *census) look(s *session) (listed int) {
	one := counted{client: s.client}
	one.info.Since = time.Unix(0, s.opened)
	one.info.Address = s.peer.String()
	if s.kv != nil {
		one.info.Watches = len(s.kv.byID)
		for _, w := range s.kv.byID {
			if len(one.info.Watching) == min(maxListed, c.room) {
				break
			}
			one.info.Watching = append(one.info.Watching, w.cursor.Filter())
		}
		c.room -= len(one.info.Watching)
		listed += len(one.info.Watching)
	}
	one.info.Locks, one.leases = slices.Clone(s.grants.locks), slices.Clone(s.grants.leases)
	for w := range s.waits {
		if len(one.info.Locks) == maxListed {
			break
		}
		one.info.Locks = append(one.info.Locks, LockInfo{NS: w.req.NS, Key: w.req.Key, Lease: w.req.Lease})
	}
	subs := min(len(s.subs), maxListed, c.room)
	c.room -= subs
	listed += subs + len(one.info.Locks)
	one.info.More = len(s.subs) - subs
	if subs > 0 {
		one.info.Subscriptions = make([]SubscriptionInfo, subs)
		for i, sub := range s.subs[:subs] {
			one.info.Subscriptions[i] = SubscriptionInfo{File: sub.file, Path: sub.path, Told: max(sub.told, sub.first)}
		}
	}
	c.found = append(c.found, one)
	return listed
}

// Clients are the identified connections, ordered by id. The loops are asked one
// after the other, each in the order of its mail, and one such question is asked at
// a time.
func (s *Server) Clients() []ClientInfo {
	s.asking.Lock()
	defer s.asking.Unlock()
	var found []counted
	room := maxListedInAll
	for _, l := range s.allLoops() {
		answer := make(chan []counted, 1)
		l.post(&census{next: -1, room: room, answer: answer})
		select {
		case more := <-answer:
			for i := range more {
				room -= len(more[i].info.Subscriptions) + len(more[i].info.Watching)
			}
			found = append(found, more...)
		case <-s.engine.done:
			return nil // with the loops their sessions have ended
		}
	}
	for i := range found {
		s.stillHeld(&found[i])
	}
	return s.registry.describe(found)
}

// stillHeld leaves out the locks and leases that have ended without the connection
// doing it.
func (s *Server) stillHeld(one *counted) {
	one.info.Locks = slices.DeleteFunc(one.info.Locks, func(l LockInfo) bool {
		if l.Fence == 0 {
			return false
		}
		e, _ := s.state.Get([]byte(l.NS), []byte(l.Key))
		return e == nil || e.Create != l.Fence
	})
	for _, id := range one.leases {
		if lease, err := s.state.Lease(id); err == nil {
			one.info.Leases = append(one.info.Leases, lease)
		}
	}
	slices.SortFunc(one.info.Watching, func(a, b kv.Filter) int {
		return cmp.Or(strings.Compare(a.NS, b.NS), strings.Compare(a.Text, b.Text))
	})
}

// describe adds what the registry knows and puts the clients into order.
func (r *registry) describe(found []counted) []ClientInfo {
	slices.SortFunc(found, func(a, b counted) int { return cmp.Compare(a.client.id, b.client.id) })
	found = slices.CompactFunc(found, func(a, b counted) bool { return a.client.id == b.client.id })
	list := make([]ClientInfo, len(found))
	for some := range slices.Chunk(indexes(len(found)), censusSlice) {
		r.set(func() { // every loop needs the lock
			for _, i := range some {
				c := found[i].client
				list[i] = found[i].info
				list[i].ID, list[i].Main = c.id, c.main
				list[i].Name, list[i].Tag = c.prop("svrname"), c.prop("tag")
			}
		})
	}
	for i := range list {
		slices.SortFunc(list[i].Subscriptions, func(a, b SubscriptionInfo) int {
			return cmp.Or(strings.Compare(a.File, b.File), strings.Compare(a.Path, b.Path))
		})
	}
	return list
}

func indexes(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}

// standstill is how long a loop may not have looked at its clock.
const standstill = 5 * tickPeriod

// Live says why the server should be started anew: it has ended by itself or one
// of its loops stands still; nil if all is well. It is cheap.
func (s *Server) Live() error {
	select {
	case <-s.engine.done:
		return codes.Errorf(codes.Closed, "the server has stopped")
	default:
	}
	now := s.cfg.Clock.Now().UnixNano()
	for i, l := range s.allLoops() {
		if still := time.Duration(now - l.ticked.Load()); still > standstill {
			return codes.Errorf(codes.Timeout, "event loop %d has not moved for %s", i, still.Round(time.Second))
		}
	}
	return nil
}

// Ready says why no requests are taken although the server lives: it is stopping.
func (s *Server) Ready() error {
	if s.draining.Load() {
		return codes.Errorf(codes.Closed, "the server is stopping")
	}
	return nil
}
