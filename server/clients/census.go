package clients

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"confcenter/internal/roster"
	"confcenter/kv"
	"confcenter/server/tcp/gate"
	"confcenter/server/tcp/loop"
)

// Limits of what Census lists. The page is the smaller, the more its clients have.
const (
	maxListed       = 256  // of each kind, for one client
	maxListedAtOnce = 2048 // in a page, of all clients
	maxCensus       = 256  // clients in a page
)

// A unit of a turn's budget is about one send, which takes longer than looking at 64
// subscriptions.
const subscriptionsPerUnit = 64

// census asks one loop for some of its clients.
type census struct {
	clients []*gate.Client
	next    int
	room    int // subscriptions that may still be listed
	found   []counted
	answer  chan<- *census // takes one without waiting
}

// counted is a client as its loop knows it.
type counted struct {
	client *gate.Client
	info   roster.Client
}

func (c *census) Deliver(_ *loop.Loop, budget int) (int, bool) {
	used := 0
	for ; c.next < len(c.clients) && used < budget; c.next++ {
		if s := c.clients[c.next].Session(); s.Client != nil && !s.Gone() {
			used += 1 + c.look(s)/subscriptionsPerUnit
		}
	}
	done := c.next == len(c.clients)
	if done {
		c.answer <- c
	}
	return used + 1, done
}

// look records what only the loop knows, and returns how much that was.
func (c *census) look(s *gate.Session) (listed int) {
	one := counted{client: s.Client, info: roster.Client{Since: time.Unix(0, s.Opened), Address: s.Peer.String()}}
	s.Describe(&one.info, maxListed, c.room)
	c.room -= one.info.Many()
	c.found = append(c.found, one)
	return one.info.Many() + len(one.info.Locks)
}

// Census lists clients with ids above after, by id, for one caller at a time: a page of them,
// at most so many. Next is where the next page begins, 0 if there is none. It asks one loop
// after another by mail. Once stopped is closed there are none: the sessions have ended
// with the loops.
func (f *Handlers) Census(after int32, most int, stopped <-chan struct{}) (list []roster.Client, next int32) {
	f.asking.Lock()
	defer f.asking.Unlock()
	for most = min(most, maxCensus); ; {
		page, more := f.gate.Registry.Behind(after, most)
		if len(page) == 0 {
			return nil, 0
		}
		found, room, ok := f.ask(page, stopped)
		switch {
		case !ok:
			return nil, 0
		case room <= 0 && len(page) > 1: // a client is not listed in full
			most = len(page) / 2
			continue
		case more:
			next = page[len(page)-1].ID
		}
		return describe(&f.gate.Registry, found), next
	}
}

// ask returns what the loops know of clients, and how much more could have been listed; false
// if they have stopped.
func (f *Handlers) ask(page []*gate.Client, stopped <-chan struct{}) (found []counted, room int, ok bool) {
	room = maxListedAtOnce
	for _, d := range f.gate.Locals() {
		answer := make(chan *census, 1)
		mine := slices.DeleteFunc(slices.Clone(page), func(c *gate.Client) bool { return c.Session().Local != d })
		if len(mine) == 0 {
			continue
		}
		d.Loop.Post(&census{clients: mine, room: room, answer: answer})
		select {
		case c := <-answer:
			room, found = c.room, append(found, c.found...)
		case <-stopped:
			return nil, 0, false
		}
	}
	return found, room, true
}

// describe adds what the registry knows and sorts the clients.
func describe(r *gate.Registry, found []counted) []roster.Client {
	slices.SortFunc(found, func(a, b counted) int { return cmp.Compare(a.client.ID, b.client.ID) })
	list := make([]roster.Client, 0, len(found))
	r.Do(func() { // every loop needs the lock
		for _, one := range found {
			c := one.client
			one.info.ID, one.info.Main, one.info.Name, one.info.Tag = c.ID, c.Main, c.Prop("svrname"), c.Prop("tag")
			list = append(list, one.info)
		}
	})
	for i := range list {
		slices.SortFunc(list[i].Watching, func(a, b kv.Filter) int {
			return cmp.Or(strings.Compare(a.NS, b.NS), strings.Compare(a.Text, b.Text))
		})
		slices.SortFunc(list[i].Subscriptions, func(a, b roster.Subscription) int {
			return cmp.Or(strings.Compare(a.File, b.File), strings.Compare(a.Path, b.Path))
		})
	}
	return list
}
