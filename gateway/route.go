package gateway

import (
	"io"
	"net/http"
	"slices"
	"strings"

	"confcenter/access"
	"confcenter/codes"
)

// route is one path and what may be asked there.
type route struct {
	method  string   // "GET"…; "" for a handler that tells its methods apart itself and lists them in methods
	methods []string // only without method
	pattern string   // of net/http's ServeMux, without method
	name    string   // such as "store.get": for metrics, the log and the OpenAPI document
	uses    []*route // only without method: what the handler may find a request to be, each with a name of its own
	right   access.Right
	body    int64 // most bytes of a request body; 0: there is none
	stream  bool  // long-lived: the time for writing is not limited as a whole
	plain   bool  // errors are Plum's plain text, else {code, error, detail}
	quiet   bool  // asked again and again by machines: not in the access log
	handle  handler
}

// handler answers a request, or returns the error that is answered.
type handler = func(w *reply, r *http.Request) error

// routes is everything that can be asked.
func (g *Gateway) routes() []route {
	return slices.Concat(
		g.plumRoutes(),
		g.configRoutes(),
		g.storeRoutes(),
		g.adminRoutes(),
		g.openapiRoutes(),
		g.consoleRoutes(),
	)
}

// allowed are the methods of the route.
func (rt *route) allowed() []string {
	if rt.method == "" {
		return rt.methods
	}
	return []string{rt.method}
}

// newMux makes the table's paths findable. A path with several rows tells them
// apart by method. What is below /v1 and in no row gets an error of our form, what
// is elsewhere the text of net/http.
func newMux(g *Gateway, table []route) *http.ServeMux {
	mux := http.NewServeMux()
	places := map[string]*place{}
	for i := range table {
		rt := &table[i]
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
	for pattern, plain := range map[string]bool{"/v1/": false, "/": true} {
		if places[pattern] == nil {
			mux.Handle(pattern, &place{gateway: g, unknown: &route{name: "unknown", plain: plain}})
		}
	}
	return mux
}

// place is one path with its routes.
type place struct {
	gateway *Gateway
	routes  []*route
	allow   string // the header Allow
	unknown *route // set if there is nothing here
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

// takesHead says that HEAD is answered like GET, whose body net/http leaves out.
// Plum refuses it, and on a stream there is nothing to look at.
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
		err = errUnknownPath
	default:
		if rt = p.find(r.Method); rt == nil {
			rt = p.routes[0]
			w.Header().Set("Allow", p.allow)
			err = badMethod(r.Method)
		}
	}
	w.route = rt
	if err == nil {
		err = p.gateway.limitBody(w, r, rt)
	}
	if err == nil && rt.stream {
		err = swallow(w, r)
	}
	if err == nil && rt.stream {
		defer p.gateway.streams.enter(w, p.gateway.viewerOf(r, rt))()
	}
	if err == nil {
		err = rt.handle(w, r)
	}
	if err != nil {
		p.gateway.fail(w, r, rt, err)
	}
	if err != nil && codes.Of(err) == codes.TooLarge {
		letFinish(w, r, body, 4*rt.body)
	}
}

// letFinish reads on, up to most bytes, after a body was too large: many clients read
// the reply only when they have sent everything, and would otherwise find a broken
// connection.
func letFinish(w *reply, r *http.Request, body io.Reader, most int64) {
	if r.Header.Get("Expect") != "" { // it waits for a word before it sends
		return
	}
	_ = http.NewResponseController(w).Flush() // all of it: its length is said
	_, _ = io.CopyN(io.Discard, body, most)
}

// limitBody refuses a body that says it is too long, and has one that does not say
// so fail when it is read.
func (g *Gateway) limitBody(w *reply, r *http.Request, rt *route) error {
	switch {
	case r.ContentLength == 0 || rt.body == 0:
	case r.ContentLength > rt.body:
		w.Header().Set("Connection", "close") // rather than reading all of it before the reply
		return tooLarge(rt.body)
	case r.ContentLength < 0:
		r.Body = http.MaxBytesReader(w.ResponseWriter, r.Body, rt.body)
	}
	return nil
}

// maxSwallowed is how long a body may be where none is looked at.
const maxSwallowed = 4 << 10

// swallow reads the body of a request for a stream, within the time that bodies have:
// net/http would do so before it sends the first piece, when there is no limit to the
// time any more.
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
