package server

import (
	"confcenter/codes"
	"confcenter/protocol"
)

// handler acts on one request. It is on the session's loop, the loop's req holds
// the parsed body if the row says so, and neither header nor body may be kept.
// taken false means that the frame was not consumed and comes again on resume.
type handler func(s *session, h protocol.Header, body []byte) (taken bool)

// route is how one command is handled.
type route struct {
	handle handler
	// raw: the body is not parsed; otherwise a body that is not JSON is
	// answered with an error and the handler is not called.
	raw bool
	// tailed: octets may follow the body's JSON, as the state store's commands
	// have it.
	tailed bool
	// write: it goes to a store in the order of the requests by itself, so it
	// need not wait until the writes before it are answered.
	write bool
}

// routeTable is indexed by request id.
type routeTable [routeCount]route

// routeCount is how many ids the table has.
const routeCount = int(protocol.KVEvent) + 1

func (t *routeTable) find(cmd protocol.Command) *route {
	if int(cmd) < len(t) && t[cmd].handle != nil {
		return &t[cmd]
	}
	return nil
}

func (t *routeTable) writes(cmd protocol.Command) bool {
	r := t.find(cmd)
	return r != nil && r.write
}

// newRoutes is the table. What a client may send and has no route here is
// ignored, as CppCloud ignores it; server-to-server commands are told to the log
// as well.
func newRoutes() *routeTable {
	t := &routeTable{
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
	}
	for cmd, r := range stateRoutes() {
		r.tailed = true
		t[cmd] = r
	}
	return t
}

// passOn handles the replies that mean something here: those that are on their
// way to another client. Whatever is wrong with them is not answered.
func (s *session) passOn(h protocol.Header, body []byte) {
	if s.client == nil || s.loop.req.Parse(body) != nil {
		return
	}
	switch h.Command.Request() {
	case protocol.Exchang:
		s.relay(h)
	case protocol.EvNotify, protocol.AppRunLog:
		s.routeReply(h)
	}
}

// handle acts on one complete frame; false means that it was not consumed.
func (s *session) handle(h protocol.Header, body []byte) bool {
	if s.client == nil && !s.mayBeAnonymous(h) {
		return true
	}
	s.touch()
	if h.Command.IsReply() {
		s.passOn(h, body)
		return true
	}
	s.loop.count(h.Command)
	r := s.srv.routes.find(h.Command)
	switch {
	case r == nil:
		s.ignore(h)
		return true
	case r.tailed:
		if !s.parseTailed(h, body) {
			return true
		}
	case !r.raw:
		if err := s.loop.req.Parse(body); err != nil {
			s.badJSON(h, err)
			return true
		}
	}
	return r.handle(s, h, body)
}

// mayBeAnonymous lets through what may precede WHOAMI and turns the rest out.
func (s *session) mayBeAnonymous(h protocol.Header) bool {
	if row := protocol.Lookup(h.Command.Request()); row != nil && row.Anonymous {
		return true
	}
	if h.Command.IsReply() {
		s.dismiss("a reply before WHOAMI") // replies are never answered
		return false
	}
	s.result(h, int(codes.NotIdentified), notIdentified(h))
	s.finish()
	return false
}

// ignore says nothing to the peer.
func (s *session) ignore(h protocol.Header) {
	row := protocol.Lookup(h.Command)
	if row == nil || row.Role != protocol.Peers {
		return
	}
	s.srv.count.IgnoredPeers.Add(1)
	s.srv.peerLog.Warn().Stringer("peer", s.peer).Str("client", s.name()).Stringer("command", h.Command).
		Msg("server-to-server command from a client ignored")
}

func (s *session) reserved(h protocol.Header, _ []byte) bool {
	s.result(h, int(codes.NotImplemented), "the service registry is not part of this server yet")
	return true
}

func (s *session) keepAlive(h protocol.Header, _ []byte) bool {
	s.reply(h, nil)
	return true
}
