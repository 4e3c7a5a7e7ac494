// Package config handles the commands for configurations: it answers reads from a
// snapshot, hands writes to the store, and pushes what the store publishes to subscribers.
package config

import (
	"bytes"
	"fmt"
	"math"
	"slices"

	"confcenter/access"
	"confcenter/codes"
	"confcenter/confstore"
	"confcenter/confstore/snapshot"
	"confcenter/internal/health"
	"confcenter/internal/jsonpath"
	"confcenter/internal/memory"
	"confcenter/meta"
	"confcenter/op"
	"confcenter/protocol"
	"confcenter/server/edge"
	"confcenter/server/tcp/gate"
	"confcenter/server/tcp/loop"
)

// Handlers serve configurations: reads, writes, and pushes to subscribers.
type Handlers struct {
	// set at open
	store    Store
	gate     *gate.Gate
	cfg      Config
	upToDate []byte

	unfollow func() // nil before Follow
}

// Config are the handlers' settings.
type Config struct {
	FrameExact bool // see Config of the server
	DocLiteral bool // see Config of the server
	// Changed is called with each change of a document, requested or done, on any goroutine.
	Changed func(deleted bool, name string, mtime int32, by *access.Actor, result string)
}

// Store is what the server needs of a config store.
type Store interface {
	Snapshot() *snapshot.Snapshot
	Epoch() string
	Problems() []health.Problem
	// NeverGood is the file of that name, which may omit ".json", if it is there and was never good.
	NeverGood(name []byte) *confstore.Broken
	// Set calls done once, after every function given to Subscribe has returned.
	Set(req confstore.SetRequest, done func(confstore.SetResult, error)) error
	// Subscribe calls fn until cancel.
	Subscribe(fn func(*snapshot.Batch)) (cancel func())
}

// Add makes g serve the documents of store. Follow starts the pushes.
func Add(g *gate.Gate, store Store, cfg Config) *Handlers {
	f := &Handlers{store: store, gate: g, cfg: cfg, upToDate: protocol.UpToDate}
	if cfg.DocLiteral {
		f.upToDate = protocol.LiteralUpToDate
	}
	g.Add(map[protocol.Command]gate.Route{
		protocol.GetConfig:     {Handle: f.getConfig},
		protocol.SetConfig:     {Handle: f.setConfig, Write: true},
		protocol.GetCfgName:    {Handle: f.getConfigNames, Raw: true},
		protocol.BookCfgChange: {Handle: f.subscribe},
	})
	g.Keep(gate.OfConfig, func(*gate.Local) any {
		return &hub{subs: make(map[string][]*subscription), backlog: snapshot.NewBacklog(g.Group.Limits.Backlog)}
	})
	return f
}

// Follow starts pushing changes of the documents.
func (f *Handlers) Follow() { f.unfollow = f.store.Subscribe(f.publish) }

// Unfollow ends what Follow began.
func (f *Handlers) Unfollow() {
	if f.unfollow != nil {
		f.unfollow()
	}
}

// getConfig answers from the snapshot, without waiting and without allocating.
func (f *Handlers) getConfig(s *gate.Session, h protocol.Header, _ []byte) bool {
	q := s.Local.Req.ConfigQuery()
	node, _ := s.TakePrepared().(*snapshot.Node)
	if node == nil {
		node = f.store.Snapshot().Find(q.File)
	}
	if s.Judged() {
		if err := s.Judge(q.Things(s.Things())); err != nil {
			s.Refuse(h, err)
			return true
		}
	}
	if node == nil {
		f.noSuchConfig(s, h, q)
		return true
	}
	mtime := node.Mtime(q.Inherit)
	if q.Newer > 0 && node.Known() && mtime <= q.Newer {
		s.Reply(h, f.upToDate)
		return true
	}
	whole := len(q.Path) == 0
	if whole {
		if body := node.Answer(q.Inherit, q.FileRaw); body != nil {
			s.Reply(h, body)
			return true
		}
	}
	value, found, ready := node.Lookup(q.Inherit, q.Path)
	if !ready {
		// The merge or the index is large, and the answer must come from this node.
		s.Prepare(h.Command, func() any {
			node.Prepare(q.Inherit, true)
			return node
		})
		return false
	}
	end := protocol.ConfigEnd
	if node.Deleted() {
		end = protocol.ConfigEndDeleted
	}
	sealed := node.Sealed(q.Inherit)
	if sealed && !q.Marks {
		f.reveal(s, h, q, node, value, end)
		return true
	}
	if !found && !node.Known() && node.Broken() != "" {
		f.noSuchConfig(s, h, q)
		return true
	}
	if !found {
		value = jsonNull
	}
	out := protocol.AppendConfigStart(s.Begin(h.Command.Reply(), h.Seq), mtime, q.FileRaw)
	if len(value) < loop.WholeFrame {
		out = append(append(out, value...), end...)
		if whole && !sealed { // what is kept is found before it is asked whether there is something to reveal
			node.KeepAnswer(q.Inherit, q.FileRaw, s.Body(out))
		}
		s.End(out)
		return true
	}
	s.EndShared(out, value, end)
	return true
}

// reveal answers with the sealed values that the peer may know; of the others with their marks. Without
// a value there is none at the path, unless it leads into one that is sealed.
func (f *Handlers) reveal(s *gate.Session, h protocol.Header, q protocol.ConfigQuery, node *snapshot.Node, value []byte, end string) {
	mtime := node.Mtime(q.Inherit)
	if value != nil && len(value) < loop.WholeFrame {
		out := protocol.AppendConfigStart(s.Begin(h.Command.Reply(), h.Seq), mtime, q.FileRaw)
		s.End(append(s.AppendRevealed(out, value), end...))
		return
	}
	r, inherit, name, path := s.Request.Apart(), q.Inherit, bytes.Clone(q.FileRaw), bytes.Clone(q.Path)
	s.Later(h, func(dst []byte) []byte {
		dst = protocol.AppendConfigStart(dst, mtime, name)
		if value != nil {
			return append(r.AppendRevealed(dst, value), end...)
		}
		whole, ready := node.Contents(inherit)
		for !ready {
			node.Prepare(inherit, false)
			whole, ready = node.Contents(inherit)
		}
		found, ok := jsonpath.Lookup(r.Revealed(whole), path)
		if !ok {
			found = jsonNull
		}
		return append(append(dst, found...), end...)
	})
}

var jsonNull = []byte("null")

// noSuchConfig answers for a name that has neither a file nor bases.
func (f *Handlers) noSuchConfig(s *gate.Session, h protocol.Header, q protocol.ConfigQuery) {
	out := s.Begin(h.Command.Reply(), h.Seq)
	broken := f.store.NeverGood(q.File)
	switch {
	case broken != nil && (q.Newer <= 0 || !f.cfg.DocLiteral):
		out = protocol.AppendNeverGood(out, q.Newer > 0, q.FileRaw, broken.Error())
	case q.Newer <= 0:
		out = append(append(protocol.AppendConfigStart(out, 0, q.FileRaw), jsonNull...), protocol.ConfigEnd...)
	case f.cfg.DocLiteral:
		out = append(out, protocol.LiteralNoSuchConfig...)
	default:
		out = protocol.AppendNoSuchConfig(out, int(codes.NotFound), q.FileRaw, "no such file")
	}
	s.End(out)
}

// setConfig hands the update to the store; the reply follows when it is durable
// and every subscriber's push is on its way.
func (f *Handlers) setConfig(s *gate.Session, h protocol.Header, _ []byte) bool {
	u := s.Local.Req.ConfigUpdate()
	if u.Name == "" {
		s.Result(h, int(codes.BadRequest), "leak of filename param")
		return true
	}
	if u.BadMtime != "" {
		s.Result(h, int(codes.BadRequest), fmt.Sprintf("mtime %s is not within %d to %d; give whole seconds since 1970, or none for the server's clock; nothing was written",
			u.BadMtime, math.MinInt32, math.MaxInt32))
		return true
	}
	if _, given := s.Local.Req.Member("if_mtime"); given && !u.HasIfMtime {
		s.Result(h, int(codes.BadRequest), "if_mtime is not an integer; nothing was written")
		return true
	}
	by, err := s.Actor().Says(u.Said)
	if err != nil {
		s.Refuse(h, err)
		return true
	}
	req := confstore.SetRequest{
		Name:     meta.Complete(u.Name),
		Contents: bytes.Clone(u.Contents),
		Mtime:    u.Mtime, HasMtime: u.Mtime != 0,
		IfMtime: u.IfMtime, HasIfMtime: u.HasIfMtime,
		Actor: by,
	}
	if err := s.Judge(u.Things(s.Things())); err != nil {
		s.Refuse(h, err)
		return true
	}
	id := s.Reserve(h.Command)
	err = f.store.Set(req, func(res confstore.SetResult, err error) {
		code, desc := 0, "success"
		switch {
		case err != nil:
			code, desc = s.Refused(h, err)
			f.cfg.Changed(req.Contents == nil, req.Name, res.Mtime, req.Actor, desc)
		case res.Deleted:
			desc = fmt.Sprintf("remove %s success", u.Name)
		}
		frame := protocol.BeginFrame(nil, h.Command.Reply(), h.Seq)
		frame = protocol.FinishFrame(protocol.AppendConfigUpdated(frame, code, res.Mtime, desc), 0)
		s.Loop.Post(loop.MailFunc(func(l *loop.Loop) {
			s.Fill(id, frame)
			l.HasRoom()
		}))
		s.Loop.TellOthersOfRoom()
	})
	switch {
	case err == nil:
	case codes.Of(err) == codes.Busy:
		s.Unreserve()
		s.Starve()
		return false
	default:
		s.Unreserve()
		code, desc := s.Refused(h, err)
		f.cfg.Changed(req.Contents == nil, req.Name, 0, req.Actor, desc)
		s.End(protocol.AppendConfigUpdated(s.Begin(h.Command.Reply(), h.Seq), code, 0, desc))
	}
	return true
}

// getConfigNames lists all files. CppCloud ignores the body, so only a request for detail
// in it has an effect.
func (f *Handlers) getConfigNames(s *gate.Session, h protocol.Header, body []byte) bool {
	snap, group, r := f.store.Snapshot(), s.Group(), s.Request.Apart()
	detail, who := s.Local.Req.Parse(body) == nil && s.Local.Req.Flag("detail"), s.Taker()
	s.Later(h, func(dst []byte) []byte {
		list := gate.List{What: fmt.Sprintf("%d files", len(snap.Names())), Remedy: "start the server with more --memory", For: who}
		if !detail {
			names := nameList(snap, r)
			list.Size = len(names)
			return list.Append(group, dst, func(dst []byte) []byte { return append(dst, names...) })
		}
		problems := slices.DeleteFunc(f.store.Problems(), func(p health.Problem) bool { return !r.May().Names(p.Name) })
		list.Size = detailSize(snap, problems)
		list.Remedy = "ask without detail, or over HTTP, or " + list.Remedy
		return list.Append(group, dst, func(dst []byte) []byte { return appendDetail(dst, snap, problems, r.May()) })
	})
	return true
}

// nameList lists the names that may be told.
func nameList(snap *snapshot.Snapshot, r *edge.Request) []byte {
	if r.Rights == nil {
		return snap.NameList()
	}
	return snap.AppendNames(nil, r.May().Names)
}

// detailSize is about what files and problems take until and in a reply.
func detailSize(snap *snapshot.Snapshot, problems []health.Problem) int {
	size := memory.VersionCost * (1 + len(problems))
	for _, name := range snap.Names() {
		size += memory.VersionCost + len(name) + len(snap.Node(name).Broken())
	}
	for i := range problems {
		size += len(problems[i].Name) + len(problems[i].Text)
	}
	return size
}

func appendDetail(dst []byte, snap *snapshot.Snapshot, found []health.Problem, may op.May) []byte {
	files := make([]protocol.ConfigFile, 0, len(snap.Names()))
	for _, name := range snap.Names() {
		if !may.Names(name) {
			continue
		}
		node := snap.Node(name)
		file := protocol.ConfigFile{Name: name, Mtime: node.Mtime(false), State: protocol.FileGood}
		text, _ := node.Contents(false)
		file.Size = len(text)
		switch {
		case node.Broken() != "":
			file.State, file.Reason = protocol.FileBroken, node.Broken()
		case node.Deleted():
			file.State, file.Size = protocol.FileDeleted, 0
		}
		files = append(files, file)
	}
	problems := make([]protocol.ConfigProblem, 0, len(found))
	for _, p := range found {
		problems = append(problems, protocol.ConfigProblem{Name: p.Name, Text: p.Text})
	}
	return protocol.AppendConfigFiles(dst, files, problems)
}
