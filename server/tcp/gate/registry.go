package gate

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"confcenter/access"
	"confcenter/access/policy"
	"confcenter/op"
	"confcenter/protocol"
)

// Client is an identified session as other loops may see it. Its fields are
// guarded by the registry's mu unless they say otherwise.
type Client struct {
	ID      int32               // set at open
	session *Session            // set at open; only its set-at-open part may be read
	props   []protocol.Property // replaced, never modified: lists are made of it without the lock
	actor   *access.Actor       // nil: not made from props yet; only the session's loop writes it, and reads it without the lock
	Profile string              // set at open: what CppCloud calls it, by its address and what it said first
	Main    string              // main config, empty if none
	Warn    string              // ok or ng while on the warn list
}

// Prop is the value of a property, empty if the client has none.
func (c *Client) Prop(name string) string {
	for _, p := range c.props {
		if p.Name == name {
			return p.Value
		}
	}
	return ""
}

// SetPropLocked gives the client another value of a property.
func (c *Client) SetPropLocked(name, value string) {
	props := slices.DeleteFunc(slices.Clone(c.props), func(p protocol.Property) bool { return p.Name == name })
	c.props = append(props, protocol.Property{Name: name, Value: value})
}

// Registry has all sessions and clients.
type Registry struct {
	mu sync.Mutex
	// guarded by mu
	next     int32 // last id given out
	own      int32 // the server's
	byID     map[int32]*Client
	sessions map[*Session]*Client // nil before WHOAMI
}

func (r *Registry) init(serverID int) {
	r.own = int32(serverID)
	r.next = r.own*1000 + 1000
	r.byID = make(map[int32]*Client)
	r.sessions = make(map[*Session]*Client)
}

// enter makes a session known.
func (r *Registry) enter(s *Session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sessions[s] = nil
}

// Counts returns the number of connections, and how many of them are clients.
func (r *Registry) Counts() (connections, clients int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.sessions), len(r.byID)
}

// identify gives s the id it wants, or a free one for wanted <= 0. It returns
// nil if the id is the server's or belongs to another live connection.
func (r *Registry) identify(s *Session, wanted int32, props []protocol.Property) *Client {
	r.mu.Lock()
	defer r.mu.Unlock()
	if wanted <= 0 {
		wanted = r.freeLocked()
	} else if wanted == r.own || r.byID[wanted] != nil {
		return nil
	}
	c := &Client{ID: wanted, session: s, props: props}
	c.Profile = s.Peer.String() + "@" + c.signatureLocked()
	r.byID[wanted] = c
	r.sessions[s] = c
	return c
}

// freeLocked counts up, skipping ids that clients have chosen themselves.
func (r *Registry) freeLocked() int32 {
	for {
		if r.next++; r.next <= 0 {
			r.next = 1
		}
		if r.next != r.own && r.byID[r.next] == nil {
			return r.next
		}
	}
}

// unidentify takes identify back.
func (r *Registry) unidentify(c *Client) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.byID, c.ID)
	r.sessions[c.session] = nil
}

// leave forgets a session.
func (r *Registry) leave(s *Session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.sessions[s]; c != nil {
		delete(r.byID, c.ID)
	}
	delete(r.sessions, s)
}

// Reach returns the session of client id if s may do v with it, nil if not and if there is none. With
// itself a client may do everything.
func (s *Session) Reach(v policy.Verb, id int32) *Session {
	r := &s.Gate.Registry
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.byID[id]
	if c == nil || c.session != s && !s.Rights.Sees(op.Client(v, c.Prop("svrname"))) {
		return nil
	}
	return c.session
}

// Behind returns the clients with ids above after, in the order of these, but at most so many,
// and whether there are more. There may be very many: no more than twice as many as are asked
// for are kept and sorted at a time.
func (r *Registry) Behind(after int32, most int) (list []*Client, more bool) {
	first := func(n int) {
		slices.SortFunc(list, func(a, b *Client) int { return cmp.Compare(a.ID, b.ID) })
		list = list[:min(n, len(list))]
	}
	last := int32(math.MaxInt32)
	r.mu.Lock()
	for id, c := range r.byID {
		if id <= after || id > last {
			continue
		}
		if list = append(list, c); len(list) == 2*(most+1) {
			first(most + 1)
			last = list[most].ID
		}
	}
	r.mu.Unlock()
	first(most + 1)
	if len(list) <= most {
		return list, false
	}
	return list[:most], true
}

// Session is the client's. Only its own loop may read more than what was set at open.
func (c *Client) Session() *Session { return c.session }

// Merge adds props to those of c; new values replace old ones. It returns false and changes
// nothing if the result would be larger than limit bytes.
func (r *Registry) Merge(c *Client, props []protocol.Property, limit int) bool {
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
	if PropertiesSize(merged) > limit || len(merged) > protocol.MaxProperties {
		return false
	}
	c.props, c.actor = slices.Clip(merged), nil
	return true
}

// PropertiesSize is the size of names and values in bytes.
func PropertiesSize(props []protocol.Property) (size int) {
	for _, p := range props {
		size += len(p.Name) + len(p.Value)
	}
	return size
}

// Do calls fn under the lock, to read or change clients.
func (r *Registry) Do(fn func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fn()
}

// label is a client's name in logs.
func (r *Registry) label(c *Client) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return clientLabel(c)
}

// Actor is the actor of the session's writes. The first call makes it.
func (s *Session) Actor() *access.Actor {
	if c := s.Client; c.actor == nil {
		s.Gate.Registry.Do(func() {
			c.actor = &access.Actor{Name: c.signatureLocked(), Origin: access.OverTCP, Address: s.Peer.String(), Identity: s.Rights.Identity()}
		})
	}
	return s.Client.actor
}

// signatureLocked is ID-CLITYPE@SVRNAME.
func (c *Client) signatureLocked() string {
	return fmt.Sprintf("%d-%s@%s", c.ID, cmp.Or(c.Prop("clitype"), "0"), c.Prop("svrname"))
}

func clientLabel(c *Client) string {
	name := cmp.Or(c.Prop("svrname"), "client")
	return name + "#" + strconv.Itoa(int(c.ID))
}

// Seen is a copy of a session and its client.
type Seen struct {
	session    *Session // its set-at-open part
	identified bool
	client     Client
}

// Select copies the sessions that match. Only match is called under the registry's lock, which
// every loop needs.
func (r *Registry) Select(match func(s *Session, c *Client) bool) []Seen {
	r.mu.Lock()
	defer r.mu.Unlock()
	var found []Seen
	for s, c := range r.sessions {
		if !match(s, c) {
			continue
		}
		one := Seen{session: s}
		if c != nil {
			one.identified, one.client = true, *c
		}
		found = append(found, one)
	}
	return found
}

// ID is the client's; 0 before WHOAMI.
func (o *Seen) ID() int32 { return o.client.ID }

// recordSize is about what the properties that the server sets take in a list, in bytes.
const recordSize = 192

// Size is about how long the record is in a list, in bytes.
func (o *Seen) Size() int {
	return recordSize + len(o.client.Main) + PropertiesSize(o.client.props) + 8*len(o.client.props)
}

// Record returns the properties, including those that the server sets, sorted by name.
func (o *Seen) Record() []protocol.Property {
	s, c := o.session, &o.client
	record := []protocol.Property{
		{Name: "_ip", Value: s.Peer.Addr().Unmap().String()},
		{Name: "atime", Value: strconv.FormatInt(s.Active.Load()/1e9, 10)},
		{Name: "clisock", Value: s.Peer.String()},
		{Name: "fd", Value: strconv.Itoa(s.FD)},
	}
	if o.identified {
		record = append(record, protocol.Property{Name: "svrid", Value: strconv.Itoa(int(c.ID))})
		if c.Main != "" {
			record = append(record, protocol.Property{Name: "_mainconf", Value: c.Main})
		}
		record = append(record, c.props...)
	}
	slices.SortFunc(record, func(a, b protocol.Property) int { return strings.Compare(a.Name, b.Name) })
	return record
}
