package gateway

import (
	"net/http"

	"confcenter/internal/roster"
)

// The body of /v1/clients.
type (
	clientsBody struct {
		Clients []clientBody `json:"clients"`
		Streams []viewerBody `json:"streams"`
		More    int          `json:"more_streams"` // streams that are not listed
	}
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

// clients lists the TCP connections and the open HTTP streams.
func (g *Gateway) clients(w *reply, _ *http.Request) error {
	body := clientsBody{Clients: []clientBody{}}
	body.Streams, body.More = g.streams.list()
	if g.fleet == nil {
		return w.sendStruct(&body)
	}
	for _, c := range g.fleet.Clients() {
		body.Clients = append(body.Clients, clientBodyOf(&c))
	}
	return w.sendStruct(&body)
}

func clientBodyOf(c *roster.Client) clientBody {
	one := clientBody{
		ID: c.ID, Name: c.Name, Tag: c.Tag, Address: c.Address, Since: c.Since.UnixMilli(), Main: c.Main,
		Subscriptions: append([]roster.Subscription{}, c.Subscriptions...), More: c.More, Watches: c.Watches,
		Watching: make([]keysBody, len(c.Watching)), Locks: append([]roster.Lock{}, c.Locks...), Leases: make([]leaseBody, len(c.Leases)),
	}
	for i, filter := range c.Watching {
		if one.Watching[i].NS = filter.NS; filter.Exact {
			one.Watching[i].Key = filter.Text
		} else {
			one.Watching[i].Prefix = filter.Text
		}
	}
	for i, lease := range c.Leases {
		one.Leases[i] = leaseBody{ID: int64(lease.ID), TTL: lease.TTL.Milliseconds(), Left: lease.Left.Milliseconds(), Keys: lease.Keys}
	}
	return one
}
