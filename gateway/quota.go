package gateway

import (
	"net/http"

	"confcenter/access"
	"confcenter/access/quota"
	"confcenter/codes"
	"confcenter/kv"
)

// quotas counts what senders use; nil: nothing does.
func (g *Gateway) quotas() *quota.Book { return g.cfg.Control.Quotas() }

// count has the connection be counted among those of who asks, and w have their account. Probes,
// metrics and status are answered in any case.
func (p *peer) count(b *quota.Book, w *reply, id *access.Identity) error {
	if p == nil || b == nil || id == nil {
		return nil
	}
	at := &p.socket.account
	if !(*at).Is(id) {
		p.socket.leave()
		account := b.Enter(id)
		if err := account.Connect(); err != nil {
			account.Leave()
			if w.route.quiet {
				return nil
			}
			w.Header().Set("Connection", "close")
			return err
		}
		*at = account
	}
	w.account = *at
	return nil
}

// leave ends what count began. The connection's requests come one after the other, and this after
// the last.
func (s *socket) leave() {
	if s.account != nil {
		s.account.Disconnect()
		s.account.Leave()
		s.account = nil
	}
}

// pays charges a request, or refuses one beyond the rate of the connection, its address or its
// sender. Probes, metrics and status are free. A body of unknown length is paid for as it is read.
func (p *peer) pays(g *Gateway, w *reply, r *http.Request) error {
	if p == nil || w.route.quiet {
		return nil
	}
	meter, account := p.socket.Place.Meter, w.account
	w.size = min(max(0, r.ContentLength), w.route.body) // more is refused unread
	if meter == nil && !account.Metered() {
		return nil
	}
	if r.ContentLength < 0 {
		r.Body = &paidBody{r.Body, func(n int) {
			if meter != nil {
				meter.Charge(g.clock.Now(), 0, int64(n))
			}
			account.Charge(g.clock.Now(), 0, int64(n))
		}}
	}
	now := g.clock.Now()
	switch {
	case meter == nil:
	case account.Administrator():
		meter.Charge(now, 1, w.size)
	default:
		if err := meter.Take(now, w.size); err != nil {
			return err
		}
	}
	return account.Take(now, w.size)
}

// spend charges the request to a namespace that it names, or refuses it; empty: none pays.
func (g *Gateway) spend(w *reply, ns string) error {
	if ns == "" || !g.quotas().Limiting() || w.account.Administrator() {
		return nil
	}
	return g.quotas().Spend([]byte(ns), g.clock.Now(), w.size)
}

// spendTxn charges the request to each namespace that a transaction writes or reads, or refuses it.
func (g *Gateway) spendTxn(w *reply, txn *kv.Txn) error {
	if g.quotas() == nil {
		return nil
	}
	return txn.EachNamespace(func(ns string) error { return g.spend(w, ns) })
}

// tire has a connection that is refused again and again wait for its next request, until ctx ends.
func (p *peer) tire(g *Gateway, w *reply, r *http.Request) {
	if p == nil {
		return
	}
	wait := p.socket.refusals.Tire(w.account, g.clock.Now())
	if wait == 0 {
		return
	}
	_ = http.NewResponseController(w).Flush()
	g.traffic.rests.Add(1)
	g.traffic.rest.Add(1)
	defer g.traffic.rest.Add(-1)
	g.pause(w, r, wait)
}

// tires reports whether a refusal is of those that have a connection wait.
func tires(err error) bool { return codes.Of(err) == codes.Busy && codes.RetryAfter(err) > 0 }

// watchNamespace counts a stream of a namespace, which is empty for one of all of them, or refuses it.
func (g *Gateway) watchNamespace(w *reply, ns string) (counted quota.Watch, err error) {
	if ns == "" {
		return counted, nil
	}
	if err = g.spend(w, ns); err != nil {
		return counted, err
	}
	return g.quotas().Watch(nil, ns)
}
