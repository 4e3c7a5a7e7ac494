package server

import (
	"confcenter/codes"
	"confcenter/protocol"
)

// handler acts on one request. It is on the session's loop, the loop's req holds
// the parsed body if the row says so, and neither header nor body may be kept.
// taken false means that the frame was not consumed and comes again on resume.
type handler func(s *session, h protocol.Header, body []byte) (taken bool)

// route is one row of the table: what the gate asks for and how the command is
// handled.
type route struct {
	*protocol.Row // nil: clients may send what they like under that id, and it is ignored
	handle        handler
	// raw: the body is not parsed; otherwise a body that is not JSON is
	// answered with an error and the handler is not called.
	raw bool
	// tailed: octets may follow the body's JSON, as the state store's commands
	// have it.
	tailed bool
	// write: it goes to a store in the order of the requests by itself, so it
	// need not wait until the writes before it are answered.
	write bool
	// ahead, if there is one, is shown what follows a frame of the command that has
	// passed the gate, looks up together what it and others behind it ask for, and
	// returns how many those are. Each then passes the gate by itself, and answer is
	// called for it in place of handle.
	ahead  func(s *session, b []byte) (n int)
	answer func(s *session, h protocol.Header)
}

// bodyLimit is the largest body that is accepted, in bytes.
func (r *route) bodyLimit(identified bool) uint32 {
	switch {
	case !identified:
		return protocol.MaxAnonymousBody
	case r.Row == nil:
		return protocol.MaxBody
	}
	return r.MaxBody
}

func (r *route) anonymous() bool { return r.Row != nil && r.Anonymous }

// routeTable is indexed by request id. No command has id 0.
type routeTable []route

// row is that of a request or of the request that a reply answers.
func (t routeTable) row(cmd protocol.Command) *route {
	if cmd = cmd.Request(); int(cmd) < len(t) {
		return &t[cmd]
	}
	return &t[0]
}

// newRoutes is the table. What a client may send and has no route here is
// ignored, as CppCloud ignores it; server-to-server commands are told to the log
// as well.
func newRoutes() routeTable {
	t := make(routeTable, protocol.IDs())
	for i := range protocol.Commands {
		t[protocol.Commands[i].ID].Row = &protocol.Commands[i]
	}
	for cmd, r := range map[protocol.Command]route{
		protocol.Whoami:        {handle: (*session).whoami, raw: true},
		protocol.GetCli:        {handle: (*session).getClients},
		protocol.Hungup:        {handle: (*session).hungup},
		protocol.GetLogr:       {handle: (*session).getLog},
		protocol.Exchang:       {handle: (*session).exchange},
		protocol.SetArgs:       {handle: (*session).setArgs},
		protocol.GetWarn:       {handle: (*session).getWarnings},
		protocol.KeepAlive:     {handle: (*session).keepAlive, raw: true},
		protocol.Testing:       {handle: (*session).testing},
		protocol.GetConfig:     {handle: (*session).getConfig},
		protocol.SetConfig:     {handle: (*session).setConfig, write: true},
		protocol.GetCfgName:    {handle: (*session).getConfigNames, raw: true},
		protocol.BookCfgChange: {handle: (*session).subscribe},
		protocol.EvNotify:      {handle: (*session).notify},
		protocol.SvrRegister:   {handle: (*session).reserved, raw: true},
		protocol.SvrSearch:     {handle: (*session).reserved, raw: true},
		protocol.SvrShow:       {handle: (*session).reserved, raw: true},
		protocol.AppRunLog:     {handle: (*session).appRunLog},
	} {
		t.add(cmd, r)
	}
	for cmd, r := range stateRoutes() {
		r.tailed = true
		t.add(cmd, r)
	}
	return t
}

func (t routeTable) add(cmd protocol.Command, r route) {
	r.Row = t[cmd].Row
	t[cmd] = r
}

func (s *session) reserved(h protocol.Header, _ []byte) bool {
	s.result(h, int(codes.NotImplemented), "the service registry is not part of this server yet")
	return true
}

func (s *session) keepAlive(h protocol.Header, _ []byte) bool {
	s.reply(h, nil)
	return true
}
