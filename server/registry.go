package server

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"confcenter/access"
	"confcenter/protocol"
)

// client is an identified session as other loops may see it. Its fields are
// guarded by the registry's mu unless they say otherwise.
type client struct {
	id      int32               // set at open
	session *session            // set at open; only its set-at-open part may be read
	props   []protocol.Property // replaced, never changed: lists are made of it without the lock
	actor   *access.Actor       // nil: to be made of props; written by the session's loop only, which reads it without the lock
	main    string              // main config, empty if none
	warn    string              // ok or ng while on the warn list
}

// prop is the value of a property, empty if the client has none.
func (c *client) prop(name string) string {
	for _, p := range c.props {
		if p.Name == name {
			return p.Value
		}
	}
	return ""
}

// setPropLocked gives the client another value of a property.
func (c *client) setPropLocked(name, value string) {
	props := slices.DeleteFunc(slices.Clone(c.props), func(p protocol.Property) bool { return p.Name == name })
	c.props = append(props, protocol.Property{Name: name, Value: value})
}

// registry knows every session and who it says it is.
type registry struct {
	mu sync.Mutex
	// guarded by mu
	next     int32 // last id given out
	byID     map[int32]*client
	sessions map[*session]*client // nil before WHOAMI
}

func (r *registry) init(serverID int) {
	r.next = int32(serverID)*1000 + 1000
	r.byID = make(map[int32]*client)
	r.sessions = make(map[*session]*client)
}

// enter makes a session known, unless there are max already.
func (r *registry) enter(s *session, max int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.sessions) >= max {
		return false
	}
	r.sessions[s] = nil
	return true
}

func (r *registry) counts() (connections, clients int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.sessions), len(r.byID)
}

// identify gives s the id it wants, or a free one for wanted <= 0. It returns
// nil if the id belongs to another live connection.
func (r *registry) identify(s *session, wanted int32, props []protocol.Property) *client {
	r.mu.Lock()
	defer r.mu.Unlock()
	if wanted <= 0 {
		wanted = r.freeLocked()
	} else if r.byID[wanted] != nil {
		return nil
	}
	c := &client{id: wanted, session: s, props: props}
	r.byID[wanted] = c
	r.sessions[s] = c
	return c
}

// freeLocked counts up, past ids that clients have claimed for themselves.
func (r *registry) freeLocked() int32 {
	for {
		if r.next++; r.next <= 0 {
			r.next = 1
		}
		if r.byID[r.next] == nil {
			return r.next
		}
	}
}

// leave forgets a session.
func (r *registry) leave(s *session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.sessions[s]; c != nil {
		delete(r.byID, c.id)
	}
	delete(r.sessions, s)
}

// find is the session of client id, nil if there is none.
func (r *registry) find(id int32) *session {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.byID[id]; c != nil {
		return c.session
	}
	return nil
}

// merge adds props to those of c, newer values in place of older ones. It
// reports false, with nothing changed, if they would become larger than limit
// bytes.
func (r *registry) merge(c *client, props []protocol.Property, limit int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	merged := slices.Clone(c.props)
	for _, p := range props {
		if i := slices.IndexFunc(merged, func(q protocol.Property) bool { return q.Name == p.Name }); i >= 0 {
			merged[i] = p
		} else {
			merged = append(merged, p)
		}
	}
	if propsSize(merged) > limit || len(merged) > protocol.MaxProperties {
		return false
	}
	c.props, c.actor = slices.Clip(merged), nil
	return true
}

func propsSize(props []protocol.Property) (size int) {
	for _, p := range props {
		size += len(p.Name) + len(p.Value)
	}
	return size
}

// set changes c under the lock.
func (r *registry) set(fn func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fn()
}

// label is what logs call a client.
func (r *registry) label(c *client) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return clientLabel(c)
}

// actor is who the session's writes are by, made for the first of them.
func (s *session) actor() *access.Actor {
	if c := s.client; c.actor == nil {
		s.gate.registry.set(func() {
			name := fmt.Sprintf("%d-%s@%s", c.id, cmp.Or(c.prop("clitype"), "0"), c.prop("svrname"))
			c.actor = &access.Actor{Name: name, Origin: access.OverTCP, Address: s.peer.String()}
		})
	}
	return s.client.actor
}

func clientLabel(c *client) string {
	name := c.prop("svrname")
	if name == "" {
		name = "client"
	}
	return name + "#" + strconv.Itoa(int(c.id))
}

// records are the properties of the sessions that match, each with those the
// server keeps, sorted by name. match is called under the registry's lock, which
// every loop needs; the rest of the work is done without it.
func (r *registry) records(match func(s *session, c *client) bool) [][]protocol.Property {
	found := r.collect(match)
	list := make([][]protocol.Property, len(found))
	for i := range found {
		list[i] = found[i].record()
	}
	return list
}

// seen is a session and its client as they were at one moment.
type seen struct {
	session    *session // its set-at-open part
	identified bool
	client     client
}

func (r *registry) collect(match func(s *session, c *client) bool) []seen {
	r.mu.Lock()
	defer r.mu.Unlock()
	var found []seen
	for s, c := range r.sessions {
		if !match(s, c) {
			continue
		}
		one := seen{session: s}
		if c != nil {
			one.identified, one.client = true, *c
		}
		found = append(found, one)
	}
	return found
}

func (o *seen) record() []protocol.Property {
	s, c := o.session, &o.client
	record := []protocol.Property{
		{Name: "_ip", Value: s.peer.Addr().Unmap().String()},
		{Name: "atime", Value: strconv.FormatInt(s.active.Load()/1e9, 10)},
		{Name: "clisock", Value: s.peer.String()},
		{Name: "fd", Value: strconv.Itoa(s.fd)},
	}
	if o.identified {
		record = append(record, protocol.Property{Name: "svrid", Value: strconv.Itoa(int(c.id))})
		if c.main != "" {
			record = append(record, protocol.Property{Name: "_mainconf", Value: c.main})
		}
		record = append(record, c.props...)
	}
	slices.SortFunc(record, func(a, b protocol.Property) int { return strings.Compare(a.Name, b.Name) })
	return record
}
