package http

import (
	"net/http"

	"confcenter/op"
)

// count has the connection be counted among those of who asks, and w have their account. Probes,
// metrics and status are answered in any case.
func (p *socket) count(w *reply) error {
	who := w.Rights.Identity()
	if p == nil || who == nil {
		return nil
	}
	conn := &p.conn
	err := conn.Enter(w.Edge, who)
	if err == nil {
		err = conn.Connect()
	}
	switch {
	case err == nil:
		w.Account = conn.Account
	case !w.route.quiet:
		w.Header().Set("Connection", "close")
		return err
	}
	return nil
}

// pays charges a request, or refuses one beyond the rate of the connection, its address or its
// sender. Probes, metrics and status are free. A body of unknown length is paid for as it is read.
func (p *socket) pays(g *Gateway, w *reply, r *http.Request) error {
	if p == nil || w.route.quiet {
		return nil
	}
	w.Meter = p.Place.Meter
	w.Size = min(max(0, r.ContentLength), w.route.body) // more is refused unread
	if !w.Metered() {
		return nil
	}
	if r.ContentLength < 0 {
		charged := w.Request // the reply may serve another when the rest of the body comes
		r.Body = &paidBody{r.Body, func(n int) { charged.Charge(g.clock.Now(), 0, int64(n)) }}
	}
	return w.Pay(g.clock.Now())
}

// judge decides about all that the request reads, changes or learns of.
func (g *Gateway) judge(w *reply, things []op.Thing) error { return w.Judge(g.clock.Now(), things) }

// asks ends the reading of a query, and decides about what that is about.
func (g *Gateway) asks(w *reply, p *parameters, things ...op.Thing) error {
	if err := p.end(); err != nil {
		return err
	}
	return g.judge(w, append(w.Things(), things...))
}

// slowDown has a connection that is refused again and again wait for its next request, until ctx ends.
func (p *socket) slowDown(g *Gateway, w *reply, r *http.Request) {
	if p == nil {
		return
	}
	wait := p.conn.Backoff(w.Account, g.clock.Now())
	if wait == 0 {
		return
	}
	_ = http.NewResponseController(w).Flush()
	g.traffic.Rested.Add(1)
	g.traffic.Resting.Add(1)
	defer g.traffic.Resting.Add(-1)
	g.pause(w, r, wait)
}
