package server

import (
	"fmt"
	"slices"
	"strconv"

	"confcenter/codes"
	"confcenter/internal/jsontext"
	"confcenter/protocol"
)

// whoami identifies a connection, or brings an identified one up to date. Every
// reply has a svrid, without which Python clients die.
func (s *session) whoami(h protocol.Header, body []byte) bool {
	req := &s.loop.req
	if err := req.Parse(body); err != nil {
		s.refuse(h, int(codes.NotFound), "body json invalid: "+err.Error())
		return true
	}
	props, fits := req.Properties()
	if fits {
		fits = propsSize(props) <= s.limits().Properties
	}
	if !fits {
		s.refuse(h, int(codes.BadRequest), fmt.Sprintf("too many properties: at most %d of together %d bytes",
			protocol.MaxProperties, s.limits().Properties))
		if s.client == nil {
			s.finish()
		}
		return true
	}
	wanted, ok := req.Int("svrid")
	if !ok {
		s.refuse(h, int(codes.BadRequest), "leak of svrid?")
		s.finish()
		return true
	}
	if s.client != nil {
		s.identifyAgain(h, props)
		return true
	}
	c := s.srv.registry.identify(s, wanted, props)
	if c == nil {
		s.refuse(h, int(codes.BadRequest), fmt.Sprintf("svrid=%d existed", wanted))
		s.finish()
		return true
	}
	s.client = c
	s.welcome(h)
	s.srv.log.Debug().Stringer("peer", s.peer).Str("client", s.name()).Msg("client identified")
	s.srv.oplog.add("CLIENT_LOGIN", s.name(), s.peer.String())
	return true
}

// identifyAgain merges properties. The id stays the first one, whatever the
// repeat asks for: an id that could be changed could be stolen.
func (s *session) identifyAgain(h protocol.Header, props []protocol.Property) {
	if !s.srv.registry.merge(s.client, props, s.limits().Properties) {
		s.refuse(h, int(codes.BadRequest), fmt.Sprintf("properties are limited to %d bytes", s.limits().Properties))
		return
	}
	s.welcome(h)
}

func (s *session) refuse(h protocol.Header, code int, desc string) {
	s.end(protocol.AppendNotIdentified(s.begin(protocol.Whoami.Reply(), h.Seq), code, desc))
}

// welcome resolves the profile anew and answers with it.
func (s *session) welcome(h protocol.Header) {
	c := s.client
	r := &s.srv.registry
	m := s.srv.store.Snapshot().Meta()
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
	s.end(protocol.AppendIdentified(s.begin(h.Command.Reply(), h.Seq), c.id, c.main, s.srv.store.Epoch()))
}

func (c *client) setPropLocked(name, value string) {
	props := slices.DeleteFunc(slices.Clone(c.props), func(p protocol.Property) bool { return p.Name == name })
	c.props = append(props, protocol.Property{Name: name, Value: value})
}

// setArgs changes properties and the client's place on the warn list.
func (s *session) setArgs(h protocol.Header, _ []byte) bool {
	req := &s.loop.req
	props, fits := req.Properties()
	if !fits || !s.srv.registry.merge(s.client, props, s.limits().Properties) {
		s.result(h, int(codes.BadRequest), fmt.Sprintf("too many properties: at most %d of together %d bytes",
			protocol.MaxProperties, s.limits().Properties))
		return true
	}
	switch warn := string(req.Text("warn")); warn {
	case "":
	case "ok", "ng":
		s.srv.registry.set(func() { s.client.warn = warn })
	case "clear":
		s.srv.registry.set(func() { s.client.warn = "" })
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
