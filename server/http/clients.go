package http

import (
	"net/http"

	jsoniter "github.com/json-iterator/go"

	"confcenter/access/policy"
	"confcenter/internal/memory"
	"confcenter/internal/roster"
	"confcenter/op"
	"confcenter/server/http/status"
)

// TCPServer is what the gateway shows of the TCP server. All methods may be called from
// any goroutine.
type TCPServer interface {
	status.TCP
	// Clients are a page of the identified connections with ids above after, ordered by id,
	// at most so many. Next is where the next page begins, 0 if there is none. It may take
	// some milliseconds: the event loops are asked one after the other.
	Clients(after int32, most int) (list []roster.Client, next int32)
}

// Parts of the body of /v1/clients.
type (
	clientBody struct {
		ID            int32                 `json:"id"`
		Name          string                `json:"name"`
		Tag           string                `json:"tag"`
		Address       string                `json:"address"`
		Since         int64                 `json:"since_ms"`
		Main          string                `json:"main"`
		Subscriptions []roster.Subscription `json:"subscriptions"`
		More          int                   `json:"more"`    // subscriptions that are not listed
		Watches       int                   `json:"watches"` // those that are not listed included
		Watching      []keysBody            `json:"watching"`
		Locks         []roster.Lock         `json:"locks"`
		Leases        []leaseBody           `json:"leases"`
	}
	// keysBody selects keys: those of every namespace, of one namespace, with a
	// prefix, or a single key.
	keysBody struct {
		NS     string `json:"ns,omitempty"`
		Key    string `json:"key,omitempty"`
		Prefix string `json:"prefix,omitempty"`
	}
	leaseBody struct {
		ID   int64 `json:"id"`
		TTL  int64 `json:"ttl_ms"`
		Left int64 `json:"left_ms"`
		Keys int   `json:"keys"`
	}
	viewerBody struct {
		Kind    string `json:"kind"` // config, store or plum
		Address string `json:"address"`
		Since   int64  `json:"since_ms"`
		keysBody
	}
)

const (
	clientsPiece = 32 << 10 // bytes of a list of clients that are sent in one go
	clientsPage  = 256      // clients that are asked for at a time
)

// clients lists the TCP connections that may be read and, if all may, the open HTTP streams. There may be very many, so they
// are asked for and sent a page at a time.
func (g *Gateway) clients(w *reply, _ *http.Request) error {
	if err := w.grow(clientsPiece); err != nil {
		return err
	}
	w.Header()["Cache-Control"] = noStore
	list := listWriter{g: g, w: w}
	if err := list.clients(); err != nil || list.gone {
		return err
	}
	if err := list.reserve(memory.VersionCost * g.streams.count()); err != nil {
		return err
	}
	var streams []viewerBody
	more := 0
	if w.May().Sees(op.Whole(policy.Read, policy.Clients)) { // who reads them has no name
		streams, more = g.streams.list()
	}
	w.b, list.separator = append(w.b, `],"streams":[`...), ""
	for i := range streams {
		if !streams[i].named(w.May()) {
			streams[i].keysBody = keysBody{}
		}
		if err := list.add(&streams[i], streams[i].size()); err != nil || list.gone {
			return err
		}
	}
	w.b = append(appendNumber(w.b, `],"more_streams":`, int64(more)), "}\n"...)
	return w.sendRest()
}

// listWriter writes a list that is never in memory as a whole.
type listWriter struct {
	g         *Gateway
	w         *reply
	separator string
	held      int  // reserved for what is being written
	gone      bool // the peer
}

// reserve has n bytes reserved in all, for a page.
func (l *listWriter) reserve(n int) error {
	if n <= l.held {
		return nil
	}
	if err := l.w.take(int64(n - l.held)); err != nil {
		return err
	}
	l.held = n
	return nil
}

func (l *listWriter) clients() error {
	l.w.b = append(l.w.b, `{"clients":[`...)
	if l.g.tcp == nil {
		return nil
	}
	for after, most := int32(0), clientsPage; ; {
		if err := l.reserve(most * memory.WatchCost / 4); err != nil {
			return err
		}
		page, next := l.g.tcp.Clients(after, most)
		size := 0
		for i := range page {
			size += sizeOfClient(&page[i])
		}
		if err := l.reserve(size); err != nil {
			return err
		}
		for i := range page {
			if !l.w.May().Sees(op.Client(policy.Read, page[i].Name)) {
				continue
			}
			one := clientBodyOf(&page[i], l.w.May())
			if err := l.add(&one, sizeOfClient(&page[i])); err != nil || l.gone {
				return err
			}
		}
		if next == 0 {
			return nil
		}
		after, most = next, min(clientsPage, 2*max(1, len(page))) // the next ones may have as much
	}
}

// add writes one element, of about size bytes.
func (l *listWriter) add(v any, size int) error {
	if len(l.w.b) > 0 && len(l.w.b)+size > clientsPiece && !l.g.sendPiece(l.w) {
		l.gone = true
		return nil
	}
	text, err := jsoniter.ConfigCompatibleWithStandardLibrary.Marshal(v)
	if err != nil {
		return err
	}
	l.w.b = append(append(l.w.b, l.separator...), text...)
	l.separator = ","
	return nil
}

// sizeOfClient is about what listing a client takes, in bytes.
func sizeOfClient(c *roster.Client) int {
	size := memory.WatchCost + len(c.Name) + len(c.Tag) + len(c.Main) + memory.VersionCost*(c.Many()+len(c.Locks)+len(c.Leases))
	for i := range c.Subscriptions {
		size += len(c.Subscriptions[i].File) + len(c.Subscriptions[i].Path)
	}
	for i := range c.Watching {
		size += len(c.Watching[i].NS) + len(c.Watching[i].Text)
	}
	for i := range c.Locks {
		size += len(c.Locks[i].NS) + len(c.Locks[i].Key)
	}
	return size
}

func (b *viewerBody) size() int { return memory.VersionCost + len(b.NS) + len(b.Key) + len(b.Prefix) }

// clientBodyOf is what is told of a client. What it follows and holds is listed as far as the caller may
// read that: its name is no one else's business.
func clientBodyOf(c *roster.Client, may op.May) clientBody {
	one := clientBody{
		ID: c.ID, Name: c.Name, Tag: c.Tag, Address: c.Address, Since: c.Since.UnixMilli(), Main: c.Main,
		Subscriptions: []roster.Subscription{}, More: c.More, Watches: c.Watches,
		Watching: []keysBody{}, Locks: []roster.Lock{}, Leases: make([]leaseBody, len(c.Leases)),
	}
	if c.Main != "" && !may.Names(c.Main) {
		one.Main = ""
	}
	for _, s := range c.Subscriptions {
		if may.Names(s.File) {
			one.Subscriptions = append(one.Subscriptions, s)
		} else {
			one.More++
		}
	}
	for _, filter := range c.Watching {
		keys := keysBody{NS: filter.NS, Prefix: filter.Text}
		if filter.Exact {
			keys = keysBody{NS: filter.NS, Key: filter.Text}
		}
		if keys.named(may) {
			one.Watching = append(one.Watching, keys)
		}
	}
	for _, lock := range c.Locks {
		if may.Sees(op.Key(policy.Read, lock.NS, lock.Key)) {
			one.Locks = append(one.Locks, lock)
		}
	}
	for i, lease := range c.Leases {
		one.Leases[i] = leaseBody{ID: int64(lease.ID), TTL: lease.TTL.Milliseconds(), Left: lease.Left.Milliseconds(), Keys: lease.Keys}
	}
	return one
}

// named reports whether who asks may be told which keys these are.
func (b *keysBody) named(may op.May) bool {
	switch {
	case b.NS == "":
		return true // those of all namespaces: that is no name
	case b.Key != "":
		return may.Sees(op.Key(policy.Read, b.NS, b.Key))
	}
	return may.Sees(op.Keys(policy.Read, op.Every, b.NS, b.Prefix))
}

// named reports whether who asks may be told what the stream is of.
func (b *viewerBody) named(may op.May) bool {
	switch {
	case b.Kind != "config":
		return b.keysBody.named(may)
	case b.Key != "":
		return may.Names(b.Key)
	}
	return b.Prefix == "" || may.Sees(op.Documents(policy.Read, b.Prefix))
}
