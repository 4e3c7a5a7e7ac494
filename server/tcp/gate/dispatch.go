package gate

import "confcenter/protocol"

// Handler acts on one request, on the session's loop. Local's Req has the parsed body,
// unless the route is Raw. Neither header nor body may be kept. If taken is false the
// frame was not consumed and comes again when the session continues.
type Handler func(s *Session, h protocol.Header, body []byte) (taken bool)

// Route is one row of the table: what the gate requires and how the command is handled.
type Route struct {
	*protocol.Row // nil: the id is unknown, and what clients send with it is ignored
	Handle        Handler
	// Raw: the body is not parsed. Otherwise a body that is not JSON is answered with an
	// error and the handler is not called.
	Raw bool
	// Tailed: octets may follow the body's JSON, as in the state store's commands.
	Tailed bool
	// Strict: a body that is not a JSON object is refused with a code of our own, not with
	// CppCloud's. So it is if Tailed.
	Strict bool
	// Write: the store keeps the order of the requests, so the request need not wait until
	// earlier writes are answered.
	Write bool
	// Reads: the handler only reads, and answers by itself or by loop.Beside. It need not wait
	// for others that do.
	Reads bool
	// Together, if set, is called for each loop, and what it makes looks requests of the
	// command up together, those of a pipeline or of several peers. Each of them then passes
	// the gate by itself, and is answered by it; Handle is called for what it does not take.
	Together func(*Local) Together
	// Early, if set, is called for a request that is there and has to wait behind others of its
	// connection. It does what must not wait, and does not answer. Handle is called as ever
	// when it is the request's turn. Local's Req has the body.
	Early func(s *Session)
	// PassOn, if set, gets the replies to the command that identified clients send for
	// other clients. Invalid ones are dropped without an answer.
	PassOn func(s *Session, h protocol.Header)

	runs int // set by Gate.Add: where in Local.runs they are, from 1
}

// bodyLimit is the largest body that is accepted, in bytes.
func (r *Route) bodyLimit(identified bool) uint32 {
	switch {
	case !identified:
		return protocol.MaxAnonymousBody
	case r.Row == nil:
		return protocol.MaxBody
	}
	return r.MaxBody
}

func (r *Route) anonymous() bool { return r.Row != nil && r.Anonymous }

// routeTable is indexed by request id. No command has id 0.
type routeTable []Route

// row returns the row of a request, or of the request that a reply answers.
func (t routeTable) row(cmd protocol.Command) *Route {
	if cmd = cmd.Request(); int(cmd) < len(t) {
		return &t[cmd]
	}
	return &t[0]
}

// newRoutes makes a table without handlers. Commands without a handler are ignored, as
// CppCloud does; server-to-server commands are also logged.
func newRoutes() routeTable {
	t := make(routeTable, protocol.IDs())
	for i := range protocol.Commands {
		t[protocol.Commands[i].ID].Row = &protocol.Commands[i]
	}
	return t
}
