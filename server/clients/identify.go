package clients

import (
	"fmt"
	"strconv"

	"confcenter/codes"
	"confcenter/internal/jsontext"
	"confcenter/protocol"
	"confcenter/server/tcp/gate"
)

// whoami identifies a connection, or updates an identified one. Every reply has a svrid,
// without which Python clients crash.
func (f *Handlers) whoami(s *gate.Session, h protocol.Header, body []byte) bool {
	req := &s.Local.Req
	if err := req.Parse(body); err != nil {
		refuse(s, h, int(codes.NotFound), "body json invalid: "+err.Error())
		return true
	}
	props, fits := req.Properties()
	if fits {
		fits = gate.PropertiesSize(props) <= s.Limits().Properties
	}
	if !fits {
		refuse(s, h, int(codes.BadRequest), fmt.Sprintf("too many properties: at most %d of together %d bytes",
			protocol.MaxProperties, s.Limits().Properties))
		if s.Client == nil {
			s.Finish()
		}
		return true
	}
	wanted, ok := req.Int("svrid")
	if !ok {
		refuse(s, h, int(codes.BadRequest), "leak of svrid?")
		s.Finish()
		return true
	}
	if token := string(req.Text(protocol.MemberToken)); token != "" || s.Client == nil {
		if err := s.Prove(token); err != nil {
			if gate.Tarry(s, err) {
				return false
			}
			code, desc := s.Refused(h, err)
			refuse(s, h, code, desc)
			s.Finish()
			return true
		}
	}
	if s.Client != nil {
		f.identifyAgain(s, h, props)
		return true
	}
	switch err := s.Identify(wanted, props); {
	case err == gate.ErrTaken:
		refuse(s, h, int(codes.BadRequest), fmt.Sprintf("svrid=%d existed", wanted))
		s.Finish()
		return true
	case err != nil:
		// It may stay until it runs out of time: SDKs that are closed connect again at once.
		code, desc := s.Refused(h, err)
		refusal := protocol.AppendNotIdentified(s.Begin(h.Command.Reply(), h.Seq), code, desc)
		s.End(protocol.AppendRetryAfter(refusal, codes.RetryAfter(err)))
		return true
	}
	f.welcome(s, h)
	s.Group().Log.Debug().Stringer("peer", s.Peer).Str("client", s.Name()).Msg("client identified")
	f.oplog.add("CLIENT_LOGIN", s.Name(), s.Peer.String())
	return true
}

// identifyAgain merges properties. It never changes the id: an id that could be changed
// could be stolen.
func (f *Handlers) identifyAgain(s *gate.Session, h protocol.Header, props []protocol.Property) {
	if !s.Gate.Registry.Merge(s.Client, props, s.Limits().Properties) {
		refuse(s, h, int(codes.BadRequest), fmt.Sprintf("properties are limited to %d bytes", s.Limits().Properties))
		return
	}
	f.welcome(s, h)
}

func refuse(s *gate.Session, h protocol.Header, code int, desc string) {
	s.End(protocol.AppendNotIdentified(s.Begin(protocol.Whoami.Reply(), h.Seq), code, desc))
}

// welcome looks up the profile and answers with it.
func (f *Handlers) welcome(s *gate.Session, h protocol.Header) {
	c := s.Client
	r := &s.Gate.Registry
	m := f.store.Snapshot().Meta()
	r.Do(func() {
		p := m.Profile(c.Prop("tag"), s.Peer.Addr().Unmap().String(), c.Prop("svrname"))
		c.Main = p.MainConf
		if p.HasIDC {
			c.SetPropLocked("idc", strconv.Itoa(int(p.IDC)))
		}
		if p.HasRack {
			c.SetPropLocked("rack", strconv.Itoa(int(p.Rack)))
		}
	})
	s.End(protocol.AppendIdentified(s.Begin(h.Command.Reply(), h.Seq), c.ID, c.Main, f.store.Epoch()))
}

// setArgs changes properties and the client's place on the warn list.
func (f *Handlers) setArgs(s *gate.Session, h protocol.Header, _ []byte) bool {
	req := &s.Local.Req
	props, fits := req.Properties()
	if !fits || !s.Gate.Registry.Merge(s.Client, props, s.Limits().Properties) {
		s.Result(h, int(codes.BadRequest), fmt.Sprintf("too many properties: at most %d of together %d bytes",
			protocol.MaxProperties, s.Limits().Properties))
		return true
	}
	switch warn := string(req.Text("warn")); warn {
	case "":
	case "ok", "ng":
		s.Gate.Registry.Do(func() { s.Client.Warn = warn })
	case "clear":
		s.Gate.Registry.Do(func() { s.Client.Warn = "" })
	default:
		s.Result(h, int(codes.NotIdentified), "leak of param(warn or taskkey)")
		return true
	}
	s.Result(h, 0, "success")
	return true
}

// targetOf returns the routing target in member to; 0 is no one.
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
