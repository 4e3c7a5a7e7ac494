package gate

import "confcenter/protocol"

// Handler acts on one request. It is on the session's loop, the desk's Req holds
// the parsed body if the row says so, and neither header nor body may be kept.
// taken false means that the frame was not consumed and comes again when the session goes on.
type Handler func(s *Session, h protocol.Header, body []byte) (taken bool)

// Route is one row of the table: what the gate asks for and how the command is
// handled.
type Route struct {
	*protocol.Row // nil: clients may send what they like under that id, and it is ignored
	Handle        Handler
	// Raw: the body is not parsed; otherwise a body that is not JSON is
	// answered with an error and the handler is not called.
	Raw bool
	// Tailed: octets may follow the body's JSON, as the state store's commands
	// have it.
	Tailed bool
	// Write: it goes to a store in the order of the requests by itself, so it
	// need not wait until the writes before it are answered.
	Write bool
	// Ahead, if there is one, is shown what follows a frame of the command that has
	// passed the gate, looks up together what it and others behind it ask for, and
	// returns how many those are. Each then passes the gate by itself, and Answer is
	// called for it in place of Handle.
	Ahead  func(s *Session, b []byte) (n int)
	Answer func(s *Session, h protocol.Header)
	// PassOn, if there is one, is given the replies to the command that identified
	// clients send: those that are on their way to another client. Whatever is wrong
	// with them is not answered.
	PassOn func(s *Session, h protocol.Header)
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

// row is that of a request or of the request that a reply answers.
func (t routeTable) row(cmd protocol.Command) *Route {
	if cmd = cmd.Request(); int(cmd) < len(t) {
		return &t[cmd]
	}
	return &t[0]
}

// newRoutes is the table without anybody who acts. What a client may send and has no
// handler is ignored, as CppCloud ignores it; server-to-server commands are told to
// the log as well.
func newRoutes() routeTable {
	t := make(routeTable, protocol.IDs())
	for i := range protocol.Commands {
		t[protocol.Commands[i].ID].Row = &protocol.Commands[i]
	}
	return t
}
