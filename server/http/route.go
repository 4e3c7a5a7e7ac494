package http

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"

	"confcenter/access"
	"confcenter/codes"
	"confcenter/internal/memory"
	"confcenter/protocol"
)

// route is one path and method, and what answers it.
type route struct {
	method  string   // "GET"…; "" for a handler that distinguishes the methods listed in methods
	methods []string // only without method
	pattern string   // of net/http's ServeMux, without method
	name    string   // such as "store.get": for metrics, the log and the OpenAPI document
	uses    []*route // only without method: the requests that the handler distinguishes, each with its own name
	right   access.Right
	named   bool  // the handler asks for the right to each thing that the request names
	body    int64 // longest request body in bytes; 0: none
	stream  bool  // long-lived: writing has no overall time limit
	plain   bool  // errors are plain text as Plum's, else {code, error, detail}
	bare    bool  // there are no parameters in its query
	quiet   bool  // polled by machines: not in the access log
	handle  handler
}

// of is a route that needs the rights of a command, which does the same.
func of(cmd protocol.Command, rt route) route {
	row := protocol.Lookup(cmd)
	rt.right, rt.named = row.Right, row.Named()
	return rt
}

// handler answers a request, or returns the error that is answered.
type handler = func(w *reply, r *http.Request) error

// routes returns the whole table.
func (g *Gateway) routes() []route {
	return slices.Concat(
		g.plumRoutes(),
		g.configRoutes(),
		g.storeRoutes(),
		g.storageRoutes(),
		g.modelRoutes(),
		g.auditRoutes(),
		g.adminRoutes(),
		g.sessionRoutes(),
		g.openapiRoutes(),
		g.consoleRoutes(),
	)
}

// allowed returns the methods of the route.
func (rt *route) allowed() []string {
	if rt.method == "" {
		return rt.methods
	}
	return []string{rt.method}
}

// newMux finds the rows of the table, whose requests are counted. Rows with the same path differ by method.
// Unknown paths below /v1 get an error in our form, others the text of net/http.
func newMux(g *Gateway, table []route) http.Handler {
	mux := http.NewServeMux()
	places := map[string]*place{}
	g.traffic.Route(unrouted.name)
	for i := range table {
		rt := &table[i]
		g.traffic.Route(rt.name)
		for _, use := range rt.uses {
			g.traffic.Route(use.name)
		}
		p := places[rt.pattern]
		if p == nil {
			p = &place{gateway: g}
			places[rt.pattern] = p
			mux.Handle(rt.pattern, p)
		}
		p.routes = append(p.routes, rt)
	}
	for _, p := range places {
		p.allow = p.methods()
	}
	unknown := func(plain bool) *place { return &place{gateway: g, unknown: &route{name: "unknown", plain: plain}} }
	g.traffic.Route("unknown")
	all := &paths{ServeMux: mux, keys: places[plumRoot+"/"], unknown: unknown(false), plain: unknown(true)}
	mux.Handle("/v1", all.unknown) // or it is redirected to the next
	mux.Handle("/v1/", all.unknown)
	mux.Handle("/", all.plain)
	return all
}

// place is one path with all its routes.
type place struct {
	gateway *Gateway
	routes  []*route
	allow   string // the header Allow
	unknown *route // set if the path has no routes
}

func (p *place) methods() string {
	list := []string{http.MethodOptions}
	for _, rt := range p.routes {
		list = append(list, rt.allowed()...)
		if rt.takesHead() {
			list = append(list, http.MethodHead)
		}
	}
	slices.Sort(list)
	return strings.Join(slices.Compact(list), ", ")
}

// takesHead reports whether HEAD is answered like GET; net/http drops the body.
// Plum refuses HEAD, and for a stream it means nothing.
func (rt *route) takesHead() bool { return rt.method == http.MethodGet && !rt.stream && !rt.plain }

func (p *place) find(method string) *route {
	for _, rt := range p.routes {
		if rt.method == method || rt.method == "" || method == http.MethodHead && rt.takesHead() {
			return rt
		}
	}
	return nil
}

// ServeHTTP implements http.Handler.
func (p *place) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	w := rw.(*reply)
	body := r.Body
	rt := p.unknown
	var err error
	switch {
	case rt != nil:
		err = unknownPath(sentPath(r.URL))
	default:
		if rt = p.find(r.Method); rt == nil {
			rt = p.routes[0]
			w.Header().Set("Allow", p.allow)
			err = codes.Errorf(codes.BadMethod, "the path does not take %.16q; see the header Allow", r.Method)
		}
	}
	w.route = rt
	peer := peerOf(r)
	long := err == nil && rt.body > 0 && r.ContentLength > rt.body
	var denied error
	switch {
	case long: // no matter who sent it
		w.Deny()
		w.Header().Set("Connection", "close") // instead of reading all of it before the reply
		err = bodyLimit(&http.MaxBytesError{Limit: rt.body})
	case err == nil:
		denied = p.gateway.identify(w, r)
		err = peer.count(w)
	}
	if err == nil && w.known() {
		err = peer.settle(w)
	} else {
		peer.spoke()
	}
	if refusal := peer.pays(p.gateway, w, r); refusal != nil && !long {
		err = refusal
	}
	if err == nil {
		if err = denied; err == nil {
			err = w.Rights.Right(rt.right, rt.named)
		}
	}
	if err == nil {
		err = p.gateway.limitBody(w, r, rt)
	}
	if err == nil && rt.bare {
		err = parametersOf(r).end()
	}
	switch {
	case err != nil:
	case rt.stream:
		r, err = p.gateway.serveStream(w, r, rt)
	default:
		err = rt.handle(w, r)
	}
	if err != nil {
		p.gateway.fail(w, r, rt, err)
		w.letGo()
	}
	if err != nil && (codes.Of(err) == codes.TooLarge || codes.RetryAfter(err) > 0) {
		letFinish(w, r, body, 4*rt.body)
	}
	if codes.Of(err) == codes.Busy && codes.RetryAfter(err) > 0 {
		peer.slowDown(p.gateway, w, r)
	}
}

// serveStream has the route's handler serve a stream, which is counted, and cut off when its sender may do less:
// the request that it returns says whether it was.
func (g *Gateway) serveStream(w *reply, r *http.Request, rt *route) (*http.Request, error) {
	if err := swallow(w, r); err != nil {
		return r, err
	}
	if err := g.takeStream(); err != nil {
		return r, err
	}
	defer g.cfg.Memory.Connections.Give(memory.StreamCost)
	var err error
	if w.watch, err = w.Watch(""); err != nil {
		return r, err
	}
	defer func() { w.watch.End() }()
	ctx, cut := context.WithCancel(r.Context())
	defer cut()
	live := r.WithContext(ctx)
	defer g.streams.enter(w, stream{viewer: g.viewerOf(r, rt), by: w.Apart(), cut: cut})()
	if err = rt.handle(w, live); ctx.Err() != nil {
		r = live
	}
	return r, err
}

// letFinish reads up to most bytes more of a body that was not taken. Many clients
// read the reply only after they have sent everything, and would otherwise see a
// broken connection.
func letFinish(w *reply, r *http.Request, body io.Reader, most int64) {
	if r.Header.Get("Expect") != "" { // the client waits for permission to send
		return
	}
	_ = http.NewResponseController(w).Flush() // the whole reply, since its length is set
	_, _ = io.CopyN(io.Discard, body, most)
}

// limitBody refuses a body for which there is no memory now, and limits the reading of one without a length.
func (g *Gateway) limitBody(w *reply, r *http.Request, rt *route) error {
	switch {
	case r.ContentLength == 0 || rt.body == 0:
	case r.ContentLength < 0:
		r.Body = http.MaxBytesReader(w.ResponseWriter, r.Body, rt.body)
	default:
		return w.take(r.ContentLength)
	}
	return nil
}

// maxSwallowed is the longest body where a body is ignored.
const maxSwallowed = 4 << 10

// swallow reads the body of a request for a stream within the time for bodies.
// Otherwise net/http would read it before it sends the first piece, when there is
// no time limit any more.
func swallow(w *reply, r *http.Request) error {
	if r.ContentLength == 0 {
		return nil
	}
	_, err := io.Copy(io.Discard, http.MaxBytesReader(w.ResponseWriter, r.Body, maxSwallowed))
	if err != nil {
		w.Header().Set("Connection", "close")
		return bodyError(err)
	}
	return nil
}
