package server

import (
	"slices"
	"strconv"
	"time"

	"confcenter/codes"
	"confcenter/protocol"
)

// getClients answers GETCLI: everybody, or one, or one property of each.
func (s *session) getClients(h protocol.Header, _ []byte) bool {
	id, _ := s.loop.req.IntOrText("svrid")
	key := string(s.loop.req.Text("key"))
	if id > 0 && s.srv.registry.find(id) == nil {
		s.result(h, int(codes.NotFound), "no exit svrid="+strconv.Itoa(int(id)))
		return true
	}
	s.later(h, func(dst []byte) []byte {
		records := s.srv.registry.records(func(_ *session, c *client) bool {
			return id == 0 || c != nil && c.id == id
		})
		if key != "" {
			for i := range records {
				records[i] = slices.DeleteFunc(records[i], func(p protocol.Property) bool { return p.Name != key })
			}
		}
		return protocol.AppendRecords(dst, records, true)
	})
	return true
}

// getWarnings answers GETWARN: the clients on the warn list, of those only the
// ones whose property filter_key is filter_val.
func (s *session) getWarnings(h protocol.Header, _ []byte) bool {
	key, value := string(s.loop.req.Text("filter_key")), string(s.loop.req.Text("filter_val"))
	s.later(h, func(dst []byte) []byte {
		return protocol.AppendRecords(dst, s.srv.registry.records(func(_ *session, c *client) bool {
			return c != nil && c.warn != "" && (key == "" || c.prop(key) == value)
		}), false)
	})
	return true
}

// hungup answers HUNGUP: which clients of the type server went away.
func (s *session) hungup(h protocol.Header, _ []byte) bool {
	req := &s.loop.req
	id, _ := req.IntOrText("svrid")
	switch string(req.Text("op")) {
	case "get":
		out := s.begin(h.Command.Reply(), h.Seq)
		s.end(protocol.AppendRecords(out, s.srv.registry.hungup(id), false))
	case "set":
		s.srv.registry.forgive(id)
		s.result(h, 0, "success")
	default:
		s.result(h, int(codes.BadOp), "leak of op param")
	}
	return true
}

// hungup lists the clients of the type server that went away; id 0 means all.
func (r *registry) hungup(id int32) [][]protocol.Property {
	r.mu.Lock()
	defer r.mu.Unlock()
	var list [][]protocol.Property
	for _, g := range r.gone {
		if id == 0 || g.id == id {
			list = append(list, []protocol.Property{
				{Name: "svrid", Value: strconv.Itoa(int(g.id))}, {Name: "name", Value: g.name},
				{Name: "svrname", Value: g.svrname}, {Name: "shell", Value: g.shell}, {Name: "progi", Value: g.program},
				{Name: "begin_time", Value: wallTime(g.began)}, {Name: "end_time", Value: wallTime(g.ended)},
			})
		}
	}
	return list
}

// forgive takes clients off that list; id 0 means all.
func (r *registry) forgive(id int32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gone = slices.DeleteFunc(r.gone, func(g gonePeer) bool { return id == 0 || g.id == id })
}

func wallTime(unix int64) string { return time.Unix(unix, 0).Format("2006-01-02 15:04:05") }

// getLog answers GETLOGR: the newest lines of the operation log first.
func (s *session) getLog(h protocol.Header, _ []byte) bool {
	size, ok := s.loop.req.IntOrText("size")
	if !ok {
		size = 10
	}
	lines := s.srv.oplog.newest(int(size))
	s.later(h, func(dst []byte) []byte { return protocol.AppendLines(dst, lines) })
	return true
}

// testing answers what CppCloud's own tools ask for, and nothing else.
func (s *session) testing(h protocol.Header, _ []byte) bool {
	if string(s.loop.req.Text("cmd")) == "broadshow" {
		s.reply(h, nil)
	}
	return true
}
