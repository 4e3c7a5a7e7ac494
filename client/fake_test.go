package client

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/internal/jsonpath"
	"confcenter/internal/jsontext"
	"confcenter/kv/lock"
	"confcenter/protocol"
)

// fakeServer is a server that a test can make misbehave: a map of documents, the
// protocol's own functions, and a script that may take over any frame.
type fakeServer struct {
	t    require.TestingT
	addr string
	wg   sync.WaitGroup

	mu       sync.Mutex // guards the rest
	ln       net.Listener
	conns    map[*fakeConn]struct{}
	epoch    string
	mainConf string
	docs     map[string]fakeDoc
	bases    map[string][]string // weakest first
	clock    int32
	nextID   int32
	log      []string // each request as "NAME body"
	accepted int
	// script sees each frame first and is true if it has dealt with it. It runs on
	// the connection's goroutine with no lock held.
	script func(c *fakeConn, h protocol.Header, body []byte) bool
	// baseOnly pushes the base's name alone, as --frame-exact does.
	baseOnly bool
	problems []protocol.ConfigProblem
	state    *fakeState // nil: commands of the state store are not implemented
}

type fakeDoc struct {
	mtime    int32
	contents string // empty: deleted
}

// fakeConn is one client's connection.
type fakeConn struct {
	net.Conn
	srv *fakeServer
	id  int32

	watches fakeWatches

	// guarded by srv.mu
	subs    map[string]protocol.Subscription // by file and path
	props   []protocol.Property
	waiters []*lock.Waiter
}

func newFakeServer(t testing.TB, docs map[string]string) *fakeServer {
	s := makeFakeServer(t, docs)
	s.start("127.0.0.1:0")
	t.Cleanup(s.stop)
	return s
}

// makeFakeServer is a server that does not listen yet.
func makeFakeServer(t require.TestingT, docs map[string]string) *fakeServer {
	s := &fakeServer{t: t, epoch: "e1", docs: map[string]fakeDoc{}, bases: map[string][]string{}, clock: 100, nextID: 2001}
	for _, name := range sortedKeys(docs) {
		s.docs[name] = fakeDoc{s.clock, docs[name]}
	}
	return s
}

func sortedKeys(m map[string]string) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func (s *fakeServer) start(addr string) {
	ln, err := net.Listen("tcp", addr)
	require.NoError(s.t, err)
	s.mu.Lock()
	s.ln, s.addr, s.conns = ln, ln.Addr().String(), map[*fakeConn]struct{}{}
	s.mu.Unlock()
	s.wg.Go(func() { s.accept(ln) })
}

// stop closes the listener and all connections and waits for the goroutines.
func (s *fakeServer) stop() {
	s.mu.Lock()
	s.ln.Close()
	s.mu.Unlock()
	s.drop()
	s.wg.Wait()
}

// restart comes back at the same address.
func (s *fakeServer) restart() { s.start(s.addr) }

// drop closes all connections.
func (s *fakeServer) drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		c.Close()
	}
}

func (s *fakeServer) accept(ln net.Listener) {
	for {
		nc, err := ln.Accept()
		if err != nil {
			return
		}
		c := &fakeConn{Conn: nc, srv: s, subs: map[string]protocol.Subscription{}}
		s.mu.Lock()
		s.conns[c] = struct{}{}
		s.accepted++
		s.mu.Unlock()
		s.wg.Go(c.serve)
	}
}

func (c *fakeConn) serve() {
	defer func() {
		c.Close()
		c.dropKV()
		c.srv.mu.Lock()
		delete(c.srv.conns, c)
		c.srv.mu.Unlock()
	}()
	r := bufio.NewReader(c)
	for {
		h, body, err := readFrame(r)
		if err != nil {
			return
		}
		c.srv.mu.Lock()
		c.srv.log = append(c.srv.log, fmt.Sprintf("%v %s", h.Command, body))
		script := c.srv.script
		c.srv.mu.Unlock()
		if script == nil || !script(c, h, body) {
			c.answer(h, body)
		}
	}
}

func readFrame(r io.Reader) (protocol.Header, []byte, error) {
	var head [protocol.HeaderSize]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return protocol.Header{}, nil, err
	}
	h, err := protocol.ParseHeader(head[:])
	if err != nil {
		return h, nil, err
	}
	body := make([]byte, h.BodyLen)
	_, err = io.ReadFull(r, body)
	return h, body, err
}

// reply answers h; an error means that the client has gone, which is its affair.
func (c *fakeConn) reply(h protocol.Header, body []byte) {
	c.Write(protocol.AppendFrame(nil, h.Command.Reply(), h.Seq, body))
}

// answer is what a good server does.
func (c *fakeConn) answer(h protocol.Header, body []byte) {
	var r protocol.Request
	if h.Command.IsReply() {
		return
	}
	if h.Command >= protocol.KVGet {
		c.answerKV(h, body)
		return
	}
	if len(body) > 0 && r.Parse(body) != nil {
		c.reply(h, protocol.AppendResult(nil, 404, "body json invalid"))
		return
	}
	c.srv.mu.Lock()
	defer c.srv.mu.Unlock()
	switch h.Command {
	case protocol.Whoami:
		c.props = propsOf(body)
		if c.id == 0 {
			if c.id, _ = r.Int("svrid"); c.id == 0 {
				c.id = c.srv.nextID
				c.srv.nextID++
			}
		}
		c.reply(h, protocol.AppendIdentified(nil, c.id, c.srv.mainConf, c.srv.epoch))
	case protocol.GetConfig:
		c.reply(h, c.srv.configLocked(r.ConfigQuery()))
	case protocol.SetConfig:
		c.reply(h, c.srv.updateLocked(r.ConfigUpdate()))
	case protocol.BookCfgChange:
		c.subscribeLocked(h, r.Subscription())
	case protocol.GetCfgName:
		c.reply(h, c.srv.filesLocked())
	case protocol.GetCli:
		c.reply(h, protocol.AppendRecords(nil, slices.Values([][]protocol.Property{append([]protocol.Property{{Name: "svrid", Value: fmt.Sprint(c.id)}}, c.props...)}), true))
	case protocol.KeepAlive:
		c.reply(h, nil)
	}
}

// propsOf are the texts of a WHOAMI.
func propsOf(body []byte) []protocol.Property {
	members := map[string]any{}
	if json.Unmarshal(body, &members) != nil {
		return nil
	}
	var props []protocol.Property
	for name, value := range members {
		if text, ok := value.(string); ok {
			props = append(props, protocol.Property{Name: name, Value: text})
		}
	}
	return props
}

// resolvedLocked is a document, merged if asked for; ok is false for an unknown name.
func (s *fakeServer) resolvedLocked(name string, inherit bool) (fakeDoc, bool) {
	doc, ok := s.docs[name]
	if !ok || !inherit || len(s.bases[name]) == 0 {
		return doc, ok
	}
	var layers [][]byte
	for _, base := range s.bases[name] {
		if b := s.docs[base]; b.contents != "" {
			layers = append(layers, []byte(b.contents))
		}
		doc.mtime = max(doc.mtime, s.docs[base].mtime)
	}
	doc.contents = string(jsonpath.Merge(append(layers, []byte(doc.contents)), false))
	return doc, true
}

func (s *fakeServer) configLocked(q protocol.ConfigQuery) []byte {
	doc, ok := s.resolvedLocked(string(q.File), q.Inherit)
	if q.Newer != 0 && !ok {
		return protocol.AppendNoSuchConfig(nil, 404, q.FileRaw, "no such file")
	}
	if q.Newer > 0 && doc.mtime <= q.Newer {
		return protocol.UpToDate
	}
	out := protocol.AppendConfigStart(nil, doc.mtime, q.FileRaw)
	part, found := jsonpath.Lookup([]byte(doc.contents), q.Path)
	switch {
	case ok && doc.contents == "" && len(q.Path) == 0:
		return append(out, `{},"deleted":1}`...)
	case !ok || !found:
		return append(out, `null}`...)
	}
	return append(append(out, part...), protocol.ConfigEnd...)
}

func (s *fakeServer) updateLocked(u protocol.ConfigUpdate) []byte {
	doc := s.docs[u.Name]
	served := doc.mtime
	if doc.contents == "" {
		served = 0
	}
	switch {
	case u.HasIfMtime && u.IfMtime != served:
		return protocol.AppendConfigUpdated(nil, int(codes.Conflict), doc.mtime, "changed by someone else")
	case jsontext.Twice(u.Contents) != nil:
		return protocol.AppendConfigUpdated(nil, int(codes.NotFound), 0, "a member stands twice")
	case u.Mtime != 0 && u.Mtime < doc.mtime:
		return protocol.AppendConfigUpdated(nil, int(codes.Older), doc.mtime, "older")
	}
	mtime := s.setLocked(u.Name, string(u.Contents))
	return protocol.AppendConfigUpdated(nil, 0, mtime, "success")
}

func (s *fakeServer) filesLocked() []byte {
	var files []protocol.ConfigFile
	for name, doc := range s.docs {
		state := protocol.FileGood
		if doc.contents == "" {
			state = protocol.FileDeleted
		}
		files = append(files, protocol.ConfigFile{Name: name, Mtime: doc.mtime, Size: len(doc.contents), State: state})
	}
	slices.SortFunc(files, func(a, b protocol.ConfigFile) int { return strings.Compare(a.Name, b.Name) })
	return protocol.AppendConfigFiles(nil, files, s.problems)
}

func (c *fakeConn) subscribeLocked(h protocol.Header, want protocol.Subscription) {
	key := want.File + "\x00" + want.Path
	if want.Unsubscribe {
		delete(c.subs, key)
		c.reply(h, protocol.AppendResult(nil, 0, "success"))
		return
	}
	doc, ok := c.srv.resolvedLocked(want.File, want.Inherit)
	if !ok && !want.MissingOK {
		c.reply(h, protocol.AppendResult(nil, 420, "no file"))
		return
	}
	want.Inherit = want.Inherit || c.subs[key].Inherit
	c.subs[key] = want
	c.reply(h, protocol.AppendSubscribed(nil, doc.mtime, "monitor"))
	if want.HasMtime && doc.mtime > want.Mtime {
		c.pushLocked(protocol.Change{File: want.File, Mtime: doc.mtime, Path: want.Path})
	}
}

func (c *fakeConn) pushLocked(change protocol.Change) {
	c.Write(protocol.AppendFrame(nil, protocol.EvNotify, 77, protocol.AppendChange(nil, change)))
}

// set changes a document as an editor would and tells who follows it. Empty
// contents delete it.
func (s *fakeServer) set(name, contents string) int32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.setLocked(name, contents)
}

func (s *fakeServer) setLocked(name, contents string) int32 {
	s.clock++
	s.docs[name] = fakeDoc{s.clock, contents}
	for c := range s.conns {
		for _, sub := range c.subs {
			base := sub.Inherit && slices.Contains(s.bases[sub.File], name)
			if base {
				c.pushLocked(protocol.Change{File: name, Mtime: s.clock})
			}
			if sub.File == name || (base && !s.baseOnly) {
				c.pushLocked(protocol.Change{File: sub.File, Mtime: s.clock, Path: sub.Path})
			}
		}
	}
	return s.clock
}

// change calls fn with the lock held, to set what the server is like.
func (s *fakeServer) change(fn func(s *fakeServer)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fn(s)
}

// requests are the requests with that name up to now.
func (s *fakeServer) requests(cmd protocol.Command) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []string
	for _, line := range s.log {
		if len(line) > len(cmd.String()) && line[:len(cmd.String())+1] == cmd.String()+" " {
			found = append(found, line[len(cmd.String())+1:])
		}
	}
	return found
}

// each calls fn for every connection, with the lock held.
func (s *fakeServer) each(fn func(c *fakeConn)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		fn(c)
	}
}
