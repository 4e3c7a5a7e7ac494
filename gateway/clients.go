package gateway

import (
	"net/http"
)

// The body of /v1/clients.
type (
	clientsBody struct {
		Clients []clientBody `json:"clients"`
		Streams []viewerBody `json:"streams"`
		More    int          `json:"more_streams"` // streams that are not listed
	}
	clientBody struct {
		ID            int32              `json:"id"`
		Name          string             `json:"name"`
		Tag           string             `json:"tag"`
		Address       string             `json:"address"`
		Since         int64              `json:"since_ms"`
		Main          string             `json:"main"`
		Subscriptions []subscriptionBody `json:"subscriptions"`
		More          int                `json:"more"`    // subscriptions that are not listed
		Watches       int                `json:"watches"` // those that are not listed included
		Watching      []keysBody         `json:"watching"`
		Locks         []lockBody         `json:"locks"`
		Leases        []leaseBody        `json:"leases"`
	}
	subscriptionBody struct {
		File string `json:"file"`
		Path string `json:"path,omitempty"`
		Told int32  `json:"told"`
	}
	// keysBody names keys: all of all namespaces, all of one, those with a prefix, one.
	keysBody struct {
		NS     string `json:"ns,omitempty"`
		Key    string `json:"key,omitempty"`
		Prefix string `json:"prefix,omitempty"`
	}
	lockBody struct {
		NS    string `json:"ns"`
		Key   string `json:"key"`
		Lease int64  `json:"lease"`
		Fence int64  `json:"fence,omitempty"` // of who holds it; absent: it waits
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

// clients tells who is connected by TCP and who follows a stream by HTTP.
func (g *Gateway) clients(w http.ResponseWriter, _ *http.Request) error {
	body := clientsBody{Clients: []clientBody{}}
	body.Streams, body.More = g.viewers.list()
	if g.fleet == nil {
		return sendStruct(w, &body)
	}
	for _, c := range g.fleet.Clients() {
		body.Clients = append(body.Clients, clientBodyOf(&c))
	}
	return sendStruct(w, &body)
}

func clientBodyOf(c *Client) clientBody {
	one := clientBody{
		ID: c.ID, Name: c.Name, Tag: c.Tag, Address: c.Address, Since: c.Since.UnixMilli(), Main: c.Main,
		Subscriptions: make([]subscriptionBody, len(c.Subscriptions)), More: c.More, Watches: c.Watches,
		Watching: make([]keysBody, len(c.Watching)), Locks: make([]lockBody, len(c.Locks)), Leases: make([]leaseBody, len(c.Leases)),
	}
	for i, sub := range c.Subscriptions {
		one.Subscriptions[i] = subscriptionBody(sub)
	}
	for i, filter := range c.Watching {
		if one.Watching[i].NS = filter.NS; filter.Exact {
			one.Watching[i].Key = filter.Text
		} else {
			one.Watching[i].Prefix = filter.Text
		}
	}
	for i, lock := range c.Locks {
		one.Locks[i] = lockBody{NS: lock.NS, Key: lock.Key, Lease: int64(lock.Lease), Fence: int64(lock.Fence)}
	}
	for i, lease := range c.Leases {
		one.Leases[i] = leaseBody{ID: int64(lease.ID), TTL: lease.TTL.Milliseconds(), Left: lease.Left.Milliseconds(), Keys: lease.Keys}
	}
	return one
}
