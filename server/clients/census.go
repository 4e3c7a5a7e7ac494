package clients

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"confcenter/kv"
	"confcenter/server/gate"
	"confcenter/server/loop"
)

// Limits of what Census lists.
const (
	maxListed      = 256
	maxListedInAll = 200_000
)

// censusSlice is how many sessions a census looks at in one turn of a loop.
const censusSlice = 512

// A unit of a turn's budget is about one send, which takes longer than looking at 64
// subscriptions.
const subscriptionsPerUnit = 64

// census asks one loop for its clients.
type census struct {
	walk   loop.Walk
	room   int // subscriptions that may still be listed
	found  []counted
	answer chan<- []counted // takes one without waiting
}

// counted is a client as its loop knows it.
type counted struct {
	client *gate.Client
	info   gate.ClientInfo
}

func (c *census) Deliver(l *loop.Loop, budget int) (int, bool) {
	used := 0
	for seen := 0; seen < censusSlice && used < budget; seen++ {
		conn := c.walk.Next(l)
		if conn == nil {
			break
		}
		if s := gate.SessionOf(conn); s.Client != nil {
			used += 1 + c.look(s)/subscriptionsPerUnit
		}
	}
	if c.walk.Done() {
		c.answer <- c.found
	}
	return used + 1, c.walk.Done()
}

// look records what only the loop knows, and returns how much that was.
func (c *census) look(s *gate.Session) (listed int) {
	one := counted{client: s.Client, info: gate.ClientInfo{Since: time.Unix(0, s.Opened), Address: s.Peer.String()}}
	s.Describe(&one.info, maxListed, c.room)
	c.room -= one.info.Many()
	c.found = append(c.found, one)
	return one.info.Many() + len(one.info.Locks)
}

// Census lists the clients. It asks one loop after another by mail, for one caller at a
// time. Once stopped is closed the result is nil: the sessions have ended with the loops.
func (f *Handlers) Census(stopped <-chan struct{}) []gate.ClientInfo {
	f.asking.Lock()
	defer f.asking.Unlock()
	var found []counted
	room := maxListedInAll
	for _, d := range f.gate.Desks() {
		answer := make(chan []counted, 1)
		d.Loop.Post(&census{room: room, answer: answer})
		select {
		case more := <-answer:
			for i := range more {
				room -= more[i].info.Many()
			}
			found = append(found, more...)
		case <-stopped:
			return nil
		}
	}
	return describe(&f.gate.Registry, found)
}

// describe adds what the registry knows and sorts the clients.
func describe(r *gate.Registry, found []counted) []gate.ClientInfo {
	slices.SortFunc(found, func(a, b counted) int { return cmp.Compare(a.client.ID, b.client.ID) })
	found = slices.CompactFunc(found, func(a, b counted) bool { return a.client.ID == b.client.ID })
	list := make([]gate.ClientInfo, 0, len(found))
	for some := range slices.Chunk(found, censusSlice) {
		r.Do(func() { // every loop needs the lock
			for _, one := range some {
				c := one.client
				one.info.ID, one.info.Main, one.info.Name, one.info.Tag = c.ID, c.Main, c.Prop("svrname"), c.Prop("tag")
				list = append(list, one.info)
			}
		})
	}
	for i := range list {
		slices.SortFunc(list[i].Watching, func(a, b kv.Filter) int {
			return cmp.Or(strings.Compare(a.NS, b.NS), strings.Compare(a.Text, b.Text))
		})
		slices.SortFunc(list[i].Subscriptions, func(a, b gate.SubscriptionInfo) int {
			return cmp.Or(strings.Compare(a.File, b.File), strings.Compare(a.Path, b.Path))
		})
	}
	return list
}
