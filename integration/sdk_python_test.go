package integration

import (
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/internal/clock/clocktest"
	"confcenter/internal/servertest"
	"confcenter/protocol"
	"confcenter/server/tcp"
)

// pythonSDK is CppCloud's Python SDK as far as a server can tell. Any exception in the
// real one's receive thread ends that thread for good; here it fails the test.
type pythonSDK struct {
	t       *testing.T
	addr    string
	conn    net.Conn
	seq     uint16
	id      int32
	files   map[string]*cppFile
	waiting map[uint16]*string // by sequence: nil until the reply is there
	pushed  map[uint16]bool    // requests that a push caused
	died    func(how string)
}

func newPythonSDK(t *testing.T, addr string) *pythonSDK {
	p := &pythonSDK{t: t, addr: addr, seq: 100, files: map[string]*cppFile{}, waiting: map[uint16]*string{}, pushed: map[uint16]bool{}}
	p.died = func(how string) { t.Helper(); require.FailNow(t, how) }
	return p
}

func (p *pythonSDK) dies(how string, f servertest.Frame) {
	p.t.Helper()
	p.died("the Python SDK's receive thread " + how + ": " + f.String())
}

func (p *pythonSDK) write(cmd protocol.Command, seq uint16, body string) {
	p.t.Helper()
	_, err := p.conn.Write(frame(cmd, seq, body))
	require.NoError(p.t, err)
}

// connect opens a connection and sends WHOAMI, in ASCII, with its arguments and their
// quotes.
func (p *pythonSDK) connect() {
	p.t.Helper()
	conn, err := net.DialTimeout("tcp", p.addr, servertest.Patience)
	require.NoError(p.t, err)
	p.t.Cleanup(func() { conn.Close() })
	p.conn = conn
	p.write(protocol.Whoami, 1, fmt.Sprintf(`{"localsock": "%s", "svrid": %d, "pid": 77, "svrname": "app", "desc": "\u00fcn\u00ef", "clitype": 200, "tag": "", "aliasname": "", "begin_time": %d, "shell": "app.py --name \"x\" C:\\dir"}`,
		conn.LocalAddr(), p.id, now))
	f := p.recv()
	require.Equal(p.t, protocol.Whoami.Reply(), f.Command)
	p.handle(f)
}

// recv reads a header that may come in pieces, and a body of which it reads too much if
// that comes in pieces and something follows.
func (p *pythonSDK) recv() servertest.Frame {
	p.t.Helper()
	require.NoError(p.t, p.conn.SetReadDeadline(time.Now().Add(servertest.Patience)))
	head := p.read(nil, protocol.HeaderSize, 1)
	h, err := protocol.ParseHeader(head)
	require.NoError(p.t, err)
	n := int(h.BodyLen)
	body := p.read(nil, n, n)
	f := servertest.Frame{Header: h, Body: string(body)}
	if len(body) > n {
		p.dies("reads into the next frame", f)
	}
	return f
}

// read appends until there are n bytes, asking each time for step, or for what is missing
// of a header.
func (p *pythonSDK) read(b []byte, n, step int) []byte {
	p.t.Helper()
	for len(b) < n {
		chunk := make([]byte, step)
		if step < n {
			chunk = make([]byte, n-len(b))
		}
		got, err := p.conn.Read(chunk)
		require.NoError(p.t, err)
		b = append(b, chunk[:got]...)
	}
	return b
}

func (p *pythonSDK) object(f servertest.Frame) map[string]any {
	p.t.Helper()
	d := json.NewDecoder(strings.NewReader(f.Body))
	d.UseNumber()
	var m map[string]any
	if err := d.Decode(&m); err != nil || m == nil {
		p.dies("raises at a body that is no object", f)
	}
	return m
}

// handle is its receive thread.
func (p *pythonSDK) handle(f servertest.Frame) {
	p.t.Helper()
	switch {
	case f.Command == protocol.Whoami.Reply():
		m := p.object(f)
		if _, ok := m["svrid"].(json.Number); !ok {
			p.dies("raises at a WHOAMI reply without svrid", f)
		}
		p.id = int32Of(m["svrid"])
	case f.Command > 0x1000:
		slot, waits := p.waiting[f.Seq]
		if !waits || slot != nil {
			p.dies("raises at a reply that nobody waits for", f)
		}
		p.waiting[f.Seq] = &f.Body
		if p.pushed[f.Seq] {
			delete(p.waiting, f.Seq)
			p.load(f)
		}
	case f.Command == protocol.KeepAlive:
		p.write(protocol.KeepAlive.Reply(), f.Seq, ``)
	case f.Command == protocol.EvNotify:
		p.notified(f)
	default:
		p.write(f.Command.Reply(), f.Seq, `{"code": 404, "desc": "unknow cmd"}`)
	}
}

func (p *pythonSDK) notified(f servertest.Frame) {
	p.t.Helper()
	m := p.object(f)
	if _, ok := m["notify"]; !ok {
		p.dies("raises at a push without notify", f)
	}
	if m["notify"] != "cfg_change" {
		return
	}
	name, isText := m["filename"].(string)
	if _, isInt := m["mtime"].(json.Number); !isText || !isInt {
		p.dies("raises at a cfg_change without filename or mtime", f)
	}
	if _, from := m["from"]; from {
		p.dies("answers a push that nobody waits for", f)
	}
	stored := int32(0)
	if file := p.files[name]; file != nil {
		stored = file.mtime
	}
	if int32Of(m["mtime"]) > stored {
		p.pushed[p.request(protocol.GetConfig, fmt.Sprintf(`{"file_pattern": %s, "incbase": 1}`, ascii(name)))] = true
	}
}

// load applies a GETCONFIG reply, unless its contents are empty.
func (p *pythonSDK) load(f servertest.Frame) {
	p.t.Helper()
	m := p.object(f)
	code, ok := m["code"].(json.Number)
	if !ok {
		p.dies("raises at a reply without code", f)
	}
	contents, _ := json.Marshal(m["contents"])
	if code != "0" || m["contents"] == nil || string(contents) == `{}` {
		return
	}
	p.files[m["file_pattern"].(string)] = &cppFile{mtime: int32Of(m["mtime"]), contents: string(contents)}
}

func (p *pythonSDK) request(cmd protocol.Command, body string) uint16 {
	p.t.Helper()
	p.seq++
	p.waiting[p.seq] = nil
	p.write(cmd, p.seq, body)
	return p.seq
}

// call waits for a reply by its sequence alone.
func (p *pythonSDK) call(cmd protocol.Command, body string) string {
	p.t.Helper()
	seq := p.request(cmd, body)
	for p.waiting[seq] == nil {
		p.handle(p.recv())
	}
	reply := *p.waiting[seq]
	delete(p.waiting, seq)
	return reply
}

// follow loads a file and subscribes to it.
func (p *pythonSDK) follow(name string) {
	p.t.Helper()
	body := p.call(protocol.GetConfig, fmt.Sprintf(`{"file_pattern": %s, "incbase": 1}`, ascii(name)))
	m := object(p.t, body)
	for _, member := range []string{"code", "contents", "file_pattern", "mtime"} {
		require.Contains(p.t, m, member)
	}
	p.load(servertest.Frame{Body: body})
	require.Equal(p.t, json.Number("0"), object(p.t, p.call(protocol.BookCfgChange, fmt.Sprintf(`{"file_pattern": %s, "incbase": 1}`, ascii(name))))["code"])
}

// until handles frames until a file is as expected, then any others.
func (p *pythonSDK) until(name, contents string) {
	p.t.Helper()
	for p.files[name] == nil || p.files[name].contents != contents {
		p.handle(p.recv())
	}
	p.settle()
}

// settle ends when two round trips have brought nothing to react to.
func (p *pythonSDK) settle() {
	p.t.Helper()
	for range 2 {
		p.call(protocol.GetCfgName, ``)
	}
}

// ascii writes a string as Python does.
func ascii(s string) string {
	var b strings.Builder
	for _, r := range quote(s) {
		if r < 0x80 {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

func TestPythonSDK(t *testing.T) {
	t.Parallel()
	started := func(t *testing.T, opts servertest.Options) (*servertest.Server, *pythonSDK) {
		t.Helper()
		srv := start(t, opts)
		p := newPythonSDK(t, srv.Addr().String())
		p.connect()
		require.Positive(t, p.id)
		return srv, p
	}
	t.Run("identifies_with_quotes_among_its_arguments", func(t *testing.T) {
		srv, p := started(t, servertest.Options{})
		require.Equal(t, `app.py --name "x" C:\dir`, properties(t, peer(t, srv), p.id)["shell"])
	})
	t.Run("follows_a_file_and_its_bases_by_the_second_push", func(t *testing.T) {
		srv, p := started(t, cppFamily())
		p.follow("dev.json")
		writer := peer(t, srv)
		writer.Set("dev.json", `{"d":2}`)
		p.until("dev.json", `{"a":1,"c":1,"d":2,"o":{"a":1}}`)
		writer.Set("common.json", `{"c":2}`)
		p.until("dev.json", `{"a":1,"c":2,"d":2,"o":{"a":1}}`)
		require.Equal(t, `{"c":2}`, p.files["common.json"].contents, "the base's push makes it load the base")
	})
	t.Run("a_name_beyond_ascii", func(t *testing.T) {
		srv, p := started(t, servertest.Options{Files: files("ünï.json", `{"k":1}`)})
		p.follow("ünï.json")
		peer(t, srv).Set("ünï.json", `{"k":2}`)
		p.until("ünï.json", `{"k":2}`)
	})
	t.Run("a_name_without_suffix", func(t *testing.T) {
		srv, p := started(t, cppFamily())
		p.follow("dev")
		peer(t, srv).Set("dev.json", `{"d":2}`)
		p.until("dev", `{"a":1,"c":1,"d":2,"o":{"a":1}}`)
	})
	t.Run("many_changes_within_a_second_end_with_the_newest", func(t *testing.T) {
		srv, p := started(t, cppFamily())
		p.follow("app.json")
		writer := peer(t, srv)
		for i := range 50 {
			writer.Set("app.json", fmt.Sprintf(`{"i":%d}`, i))
		}
		p.until("app.json", `{"i":49}`)
	})
	t.Run("a_deleted_file_and_one_that_never_was_do_not_harm_it", func(t *testing.T) {
		srv, p := started(t, cppFamily())
		p.follow("app.json")
		set(t, peer(t, srv), "app.json", `null`, ``)
		p.settle()
		require.Equal(t, json.Number("0"), object(t, p.call(protocol.GetConfig, `{"file_pattern": "never.json", "incbase": 1}`))["code"])
		require.Equal(t, json.Number("420"), object(t, p.call(protocol.BookCfgChange, `{"file_pattern": "never.json"}`))["code"])
	})
	t.Run("an_id_in_use_is_refused_so_that_it_gets_another", func(t *testing.T) {
		srv := start(t, servertest.Options{})
		owner := dial(t, srv)
		owner.Identify(`{"svrid":3333}`)
		p := newPythonSDK(t, srv.Addr().String())
		p.id = 3333
		p.connect()
		require.Zero(t, p.id, "the refusal has told it to ask for a new one")
		p.connect()
		require.Positive(t, p.id)
	})
	t.Run("a_write_without_a_name_is_answered_under_the_replys_id", func(t *testing.T) {
		_, p := started(t, servertest.Options{})
		require.Equal(t, json.Number("400"), object(t, p.call(protocol.SetConfig, `{"contents": {}}`))["code"])
	})
	t.Run("is_asked_whether_it_lives_and_told_nothing_of_its_answers", func(t *testing.T) {
		fake := clocktest.NewFake(time.Unix(now, 0))
		srv, p := started(t, servertest.Options{Server: tcp.Config{Clock: fake, Loops: 1}})
		fake.BlockUntil(1)
		s := &timed{Server: srv, t: t, clock: fake}
		for range 3 {
			s.advance(601 * time.Second)
			s.sweeps()
			p.settle()
		}
	})
	t.Run("counters_it_reports_are_not_answered", func(t *testing.T) {
		_, p := started(t, servertest.Options{})
		p.write(protocol.SvrStat, 999, `[{"regname": "x"}]`)
		p.write(protocol.EvNotify.Reply(), 998, `{"code": 0}`)
		p.settle()
	})
	t.Run("reconnects_with_its_id", func(t *testing.T) {
		srv, p := started(t, cppFamily())
		id := p.id
		srv.Restart()
		p.addr = srv.Addr().String()
		p.connect()
		require.Equal(t, id, p.id)
		p.settle()
	})
}

// The emulation must be able to fail.
func TestPythonSDKEmulationCanFail(t *testing.T) {
	for _, f := range []servertest.Frame{
		{Header: protocol.Header{Command: protocol.Whoami.Reply(), Seq: 1}, Body: `{"code":400,"desc":"svrid=1 existed"}`},
		{Header: protocol.Header{Command: protocol.GetConfig.Reply(), Seq: 500}, Body: `{"code":0}`},
		{Header: protocol.Header{Command: protocol.KeepAlive.Reply(), Seq: 9}},
		{Header: protocol.Header{Command: protocol.EvNotify}, Body: `{}`},
		{Header: protocol.Header{Command: protocol.EvNotify}, Body: `{"notify":"cfg_change","filename":"a"}`},
		{Header: protocol.Header{Command: protocol.EvNotify}, Body: `{"notify":"cfg_change","mtime":1}`},
		{Header: protocol.Header{Command: protocol.GetConfig.Reply(), Seq: 7}, Body: `1`},
	} {
		t.Run(f.String(), func(t *testing.T) {
			p := newPythonSDK(t, "")
			p.waiting[7], p.pushed[7] = nil, true
			p.died = func(how string) { panic(how) }
			require.Panics(t, func() { p.handle(f) })
		})
	}
}

// The SDK connects again the moment it is closed. A server that was full closed at once, and
// a single program made thousands of connects a second.
func TestPythonSDKDoesNotSpinAgainstAFullServer(t *testing.T) {
	s := startTimed(t, tcp.Config{MaxConnections: 1})
	in := peer(t, s.Server)
	programs := make([]*pythonSDK, 100)
	for i := range programs {
		programs[i] = newPythonSDK(t, s.Addr().String())
	}
	opened := int64(1)
	for range 3 {
		for _, p := range programs {
			p.connect()
			require.Zero(t, p.id, "it is told that there is no place")
		}
		in.Quiet()
		opened += int64(len(programs))
		require.Equal(t, opened, s.Stats().Get("server_connections_opened_total"), "each has connected once")
		require.EqualValues(t, 1+len(programs), s.Stats().Get("server_connections"), "none has a reason to do so again")
		s.advance(30 * time.Second)
		opened++ // the one that advance has used
		for _, p := range programs {
			n, err := p.conn.Read(make([]byte, 1))
			require.Zero(t, n)
			require.Error(t, err, "until the time to identify itself is over")
		}
	}
	require.NoError(t, in.Close())
	eventually(t, "the place is free", func() bool { return s.Stats().Get("server_clients") == 0 })
	programs[0].connect()
	require.Positive(t, programs[0].id)
}
