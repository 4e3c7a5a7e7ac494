package server

import (
	"fmt"
	"strconv"

	"confcenter/codes"
	"confcenter/internal/jsontext"
	"confcenter/protocol"
)

// whoami identifies a connection, or brings an identified one up to date. Every
// reply has a svrid, without which Python clients die.
func (f *clientHandlers) whoami(s *session, h protocol.Header, body []byte) bool {
	req := &s.desk.req
	if err := req.Parse(body); err != nil {
		refuse(s, h, int(codes.NotFound), "body json invalid: "+err.Error())
		return true
	}
	props, fits := req.Properties()
	if fits {
		fits = propsSize(props) <= s.limits().Properties
	}
	if !fits {
		refuse(s, h, int(codes.BadRequest), fmt.Sprintf("too many properties: at most %d of together %d bytes",
			protocol.MaxProperties, s.limits().Properties))
		if s.client == nil {
			s.finish()
		}
		return true
	}
	wanted, ok := req.Int("svrid")
	if !ok {
		refuse(s, h, int(codes.BadRequest), "leak of svrid?")
		s.finish()
		return true
	}
	if s.client != nil {
		f.identifyAgain(s, h, props)
		return true
	}
	if !s.identify(wanted, props) {
		refuse(s, h, int(codes.BadRequest), fmt.Sprintf("svrid=%d existed", wanted))
		s.finish()
		return true
	}
	f.welcome(s, h)
	s.group().log.Debug().Stringer("peer", s.peer).Str("client", s.name()).Msg("client identified")
	f.oplog.add("CLIENT_LOGIN", s.name(), s.peer.String())
	return true
}

// identifyAgain merges properties. The id stays the first one, whatever the
// repeat asks for: an id that could be changed could be stolen.
func (f *clientHandlers) identifyAgain(s *session, h protocol.Header, props []protocol.Property) {
	if !s.gate.registry.merge(s.client, props, s.limits().Properties) {
		refuse(s, h, int(codes.BadRequest), fmt.Sprintf("properties are limited to %d bytes", s.limits().Properties))
		return
	}
	f.welcome(s, h)
}

func refuse(s *session, h protocol.Header, code int, desc string) {
	s.end(protocol.AppendNotIdentified(s.begin(protocol.Whoami.Reply(), h.Seq), code, desc))
}

// welcome resolves the profile anew and answers with it.
func (f *clientHandlers) welcome(s *session, h protocol.Header) {
	c := s.client
	r := &s.gate.registry
	m := f.store.Snapshot().Meta()
	r.set(func() {
		p := m.Profile(c.prop("tag"), s.peer.Addr().Unmap().String(), c.prop("svrname"))
		c.main = p.MainConf
		if p.HasIDC {
			c.setPropLocked("idc", strconv.Itoa(int(p.IDC)))
		}
		if p.HasRack {
			c.setPropLocked("rack", strconv.Itoa(int(p.Rack)))
		}
	})
	s.end(protocol.AppendIdentified(s.begin(h.Command.Reply(), h.Seq), c.id, c.main, f.store.Epoch()))
}

// setArgs changes properties and the client's place on the warn list.
func (f *clientHandlers) setArgs(s *session, h protocol.Header, _ []byte) bool {
	req := &s.desk.req
	props, fits := req.Properties()
	if !fits || !s.gate.registry.merge(s.client, props, s.limits().Properties) {
		s.result(h, int(codes.BadRequest), fmt.Sprintf("too many properties: at most %d of together %d bytes",
			protocol.MaxProperties, s.limits().Properties))
		return true
	}
	switch warn := string(req.Text("warn")); warn {
	case "":
	case "ok", "ng":
		s.gate.registry.set(func() { s.client.warn = warn })
	case "clear":
		s.gate.registry.set(func() { s.client.warn = "" })
	default:
		s.result(h, int(codes.NotIdentified), "leak of param(warn or taskkey)")
		return true
	}
	s.result(h, 0, "success")
	return true
}

// targetOf is the routing target that member to names; 0 names nobody.
func targetOf(req *protocol.Request) (to int32, present bool) {
	m, present := req.Member("to")
	if !present {
		return 0, false
	}
	if m.Kind == jsontext.Null {
		return 0, true
	}
	to, _ = req.IntOrText("to")
	return to, true
}
