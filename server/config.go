package server

import (
	"bytes"
	"fmt"
	"math"

	"confcenter/codes"
	"confcenter/confstore"
	"confcenter/meta"
	"confcenter/protocol"
)

// getConfig answers from the snapshot, without waiting and without allocating.
func (s *session) getConfig(h protocol.Header, _ []byte) bool {
	q := s.loop.req.ConfigQuery()
	node, _ := s.takePrepared().(*confstore.Node)
	if node == nil {
		node = s.srv.store.Snapshot().Find(q.File)
	}
	if node == nil {
		s.noSuchConfig(h, q)
		return true
	}
	mtime := node.Mtime(q.Inherit)
	if q.Newer > 0 && node.Known() && mtime <= q.Newer {
		s.reply(h, s.srv.upToDate)
		return true
	}
	whole := len(q.Path) == 0
	if whole {
		if body := node.Answer(q.Inherit, q.FileRaw); body != nil {
			s.reply(h, body)
			return true
		}
	}
	value, found, ready := node.Lookup(q.Inherit, q.Path)
	if !ready {
		// The merge or the index is large, and the answer has to come from this node.
		s.prepare(h.Command, func() any {
			node.Prepare(q.Inherit, true)
			return node
		})
		return false
	}
	if !found {
		value = jsonNull
	}
	end := protocol.ConfigEnd
	if node.Deleted() {
		end = protocol.ConfigEndDeleted
	}
	out := protocol.AppendConfigStart(s.begin(h.Command.Reply(), h.Seq), mtime, q.FileRaw)
	if len(value) < wholeFrame {
		out = append(append(out, value...), end...)
		if whole {
			node.KeepAnswer(q.Inherit, q.FileRaw, out[s.loop.buffer.frame+protocol.HeaderSize:])
		}
		s.end(out)
		return true
	}
	s.endShared(out, value, end)
	return true
}

var jsonNull = []byte("null")

// noSuchConfig answers for a name that is neither a file nor has bases.
func (s *session) noSuchConfig(h protocol.Header, q protocol.ConfigQuery) {
	out := s.begin(h.Command.Reply(), h.Seq)
	switch {
	case q.Newer <= 0:
		out = append(append(protocol.AppendConfigStart(out, 0, q.FileRaw), jsonNull...), protocol.ConfigEnd...)
	case s.srv.cfg.DocLiteral:
		out = append(out, protocol.LiteralNoSuchConfig...)
	default:
		out = protocol.AppendNoSuchConfig(out, int(codes.NotFound), q.FileRaw, "no such file")
	}
	s.end(out)
}

// setConfig hands the update to the store; the reply follows when it is durable
// and every subscriber's push is on its way.
func (s *session) setConfig(h protocol.Header, _ []byte) bool {
	u := s.loop.req.ConfigUpdate()
	if u.Name == "" {
		s.result(h, int(codes.BadRequest), "leak of filename param")
		return true
	}
	if u.BadMtime != "" {
		s.result(h, int(codes.BadRequest), fmt.Sprintf("mtime %s is not within %d to %d; give whole seconds since 1970, or none for the server's clock; nothing was written",
			u.BadMtime, math.MinInt32, math.MaxInt32))
		return true
	}
	if _, given := s.loop.req.Member("if_mtime"); given && !u.HasIfMtime {
		s.result(h, int(codes.BadRequest), "if_mtime is not an integer; nothing was written")
		return true
	}
	req := confstore.SetRequest{
		Name:     meta.Complete(u.Name),
		Contents: bytes.Clone(u.Contents),
		Mtime:    u.Mtime, HasMtime: u.Mtime != 0,
		IfMtime: u.IfMtime, HasIfMtime: u.HasIfMtime,
		Actor: s.actor(),
	}
	id := s.reserve(h.Command)
	err := s.srv.store.Set(req, func(res confstore.SetResult, err error) {
		code, desc := 0, "success"
		switch {
		case err != nil:
			code, desc = wireCode(err), s.wireText(h, err)
			s.srv.oplog.config(req.Contents == nil, req.Name, res.Mtime, req.Actor, desc)
		case res.Deleted:
			desc = fmt.Sprintf("remove %s success", u.Name)
		}
		frame := protocol.BeginFrame(nil, h.Command.Reply(), h.Seq)
		frame = protocol.FinishFrame(protocol.AppendConfigUpdated(frame, code, res.Mtime, desc), 0)
		s.loop.post(mailFunc(func(l *loop) {
			s.fill(id, slot{frame: frame})
			l.hungry.room = true
		}))
		s.loop.feedOthers()
	})
	switch {
	case err == nil:
	case codes.Of(err) == codes.Busy:
		s.unreserve()
		s.starve()
		return false
	default:
		s.unreserve()
		desc := s.wireText(h, err)
		s.srv.oplog.config(req.Contents == nil, req.Name, 0, req.Actor, desc)
		s.end(protocol.AppendConfigUpdated(s.begin(h.Command.Reply(), h.Seq), wireCode(err), 0, desc))
	}
	return true
}

// getConfigNames lists all files. CppCloud ignores the body, so only a body that
// asks for detail is looked at.
func (s *session) getConfigNames(h protocol.Header, body []byte) bool {
	snap := s.srv.store.Snapshot()
	if s.loop.req.Parse(body) == nil && s.loop.req.Flag("detail") {
		s.later(h, func(dst []byte) []byte { return s.srv.appendDetail(dst, snap) })
		return true
	}
	s.later(h, func(dst []byte) []byte { return append(dst, snap.NameList()...) })
	return true
}

func (s *Server) appendDetail(dst []byte, snap *confstore.Snapshot) []byte {
	var files []protocol.ConfigFile
	for _, name := range snap.Names() {
		node := snap.Node(name)
		f := protocol.ConfigFile{Name: name, Mtime: node.Mtime(false), State: protocol.FileGood}
		text, _ := node.Contents(false)
		f.Size = len(text)
		switch {
		case node.Broken() != "":
			f.State, f.Reason = protocol.FileBroken, node.Broken()
		case node.Deleted():
			f.State, f.Size = protocol.FileDeleted, 0
		}
		files = append(files, f)
	}
	var problems []protocol.ConfigProblem
	for _, p := range s.store.Problems() {
		problems = append(problems, protocol.ConfigProblem{Name: p.Name, Text: p.Text})
	}
	return protocol.AppendConfigFiles(dst, files, problems)
}
