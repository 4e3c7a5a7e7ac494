package main

import (
	"confcenter/gateway"
	"confcenter/server"
)

// fleet shows the HTTP side the TCP server, which it does not know.
type fleet struct{ *server.Server }

// Clients implements gateway.Fleet.
func (f fleet) Clients() []gateway.Client {
	found := f.Server.Clients()
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
