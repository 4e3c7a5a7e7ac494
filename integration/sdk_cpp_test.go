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

// cppSDK is CppCloud's C++ SDK as far as a server can tell. It fails the test wherever
// the real one would abort, crash or drop the connection.
type cppSDK struct {
	t       *testing.T
	addr    string
	conn    net.Conn
	seq     uint16
	id      int32
	files   map[string]*cppFile // by the name as it was asked for
	fired   int                 // change call-backs
	whoami  string              // properties of the WHOAMI
	running bool
	died    func(how string) // what to do when the real one would be gone
}

type cppFile struct {
	mtime    int32
	contents string
}

// cppStartBuffer is the size from which the start-up phase accepts no body.
const cppStartBuffer = 10250

func newCppSDK(t *testing.T, addr, properties string) *cppSDK {
	c := &cppSDK{t: t, addr: addr, files: map[string]*cppFile{}, whoami: properties}
	c.died = func(how string) { t.Helper(); require.FailNow(t, how) }
	return c
}

func (c *cppSDK) dies(how string, f servertest.Frame) {
	c.t.Helper()
	c.died("the C++ SDK " + how + ": " + f.String())
}

func (c *cppSDK) connect() {
	c.t.Helper()
	conn, err := net.DialTimeout("tcp", c.addr, servertest.Patience)
	require.NoError(c.t, err)
	c.t.Cleanup(func() { conn.Close() })
	c.conn, c.running = conn, false
}

func (c *cppSDK) send(cmd protocol.Command, body string) {
	c.t.Helper()
	c.seq++
	_, err := c.conn.Write(frame(cmd, c.seq, body))
	require.NoError(c.t, err)
}

// recv reads the header with one call and the body with another. A frame in pieces is an
// error while it starts and a dropped connection later.
func (c *cppSDK) recv() servertest.Frame {
	c.t.Helper()
	require.NoError(c.t, c.conn.SetReadDeadline(time.Now().Add(servertest.Patience)))
	var head [protocol.HeaderSize]byte
	n, err := c.conn.Read(head[:])
	require.NoError(c.t, err)
	require.Equal(c.t, len(head), n, "the C++ SDK got a split header (-7)")
	h, err := protocol.ParseHeader(head[:])
	require.NoError(c.t, err)
	if !c.running && h.BodyLen >= cppStartBuffer {
		c.dies("gets a body that is too long while it starts (-8)", servertest.Frame{Header: h})
	}
	body := make([]byte, h.BodyLen)
	if len(body) > 0 {
		n, err = c.conn.Read(body)
		require.NoError(c.t, err)
		require.Equal(c.t, len(body), n, "the C++ SDK got a body in pieces (-9)")
	}
	return servertest.Frame{Header: h, Body: string(body)}
}

// members decodes an object; the SDK's library aborts the program on most other values.
func (c *cppSDK) members(f servertest.Frame) map[string]any {
	c.t.Helper()
	var m map[string]any
	d := json.NewDecoder(strings.NewReader(f.Body))
	d.UseNumber()
	if err := d.Decode(&m); err != nil || m == nil {
		c.dies("aborts at JSON that is no object", f)
	}
	return m
}

// int32Of is 0 if the member is absent or not an int32.
func int32Of(value any) int32 {
	n, ok := value.(json.Number)
	if !ok {
		return 0
	}
	i, err := n.Int64()
	if err != nil || i != int64(int32(i)) {
		return 0
	}
	return int32(i)
}

// init is WHOAMI: the next frame, whatever it is, is its reply. It returns the
// main config.
func (c *cppSDK) init() string {
	c.t.Helper()
	c.connect()
	c.send(protocol.Whoami, fmt.Sprintf(`{"svrid":%d%s,"localsock":"%s","begin_time":%d,"pid":4242,"clitype":100}`, c.id, c.whoami, c.conn.LocalAddr(), now))
	f := c.recv()
	m := c.members(f)
	if m["code"] != json.Number("0") || int32Of(m["svrid"]) <= 0 {
		c.dies("fails to start (-4)", f)
	}
	c.id = int32Of(m["svrid"])
	main, _ := m["mconf"].(string)
	return main
}

// load is LoadConfFile: GETCONFIG and BOOKCFGCHANGE, each answered by the next
// frame.
func (c *cppSDK) load(name string) {
	c.t.Helper()
	c.send(protocol.GetConfig, fmt.Sprintf(`{"file_pattern":%q,"incbase":1}`, name))
	f := c.recv()
	m := c.members(f)
	contents, present := m["contents"]
	if m["code"] != json.Number("0") || !present || int32Of(m["mtime"]) == 0 {
		c.dies("cannot load a file (-52)", f)
	}
	c.store(m, contents)
	c.send(protocol.BookCfgChange, fmt.Sprintf(`{"file_pattern":%q,"incbase":"1"}`, name))
	c.recv()
}

func (c *cppSDK) store(m map[string]any, contents any) {
	text, err := json.Marshal(contents)
	require.NoError(c.t, err)
	name, _ := m["file_pattern"].(string)
	c.files[name] = &cppFile{mtime: int32Of(m["mtime"]), contents: string(text)}
}

// reconnect does what its own thread does when the connection is lost: WHOAMI with the
// former id, and everything else without waiting for an answer.
func (c *cppSDK) reconnect() {
	c.t.Helper()
	c.connect()
	c.running = true
	c.send(protocol.Whoami, fmt.Sprintf(`{"svrid":%d%s,"clitype":100}`, c.id, c.whoami))
	for name, file := range c.files {
		c.send(protocol.BookCfgChange, fmt.Sprintf(`{"file_pattern":%q,"incbase":"1"}`, name))
		c.ask(name, file)
	}
}

func (c *cppSDK) ask(name string, file *cppFile) {
	c.send(protocol.GetConfig, fmt.Sprintf(`{"file_pattern":%q,"incbase":1,"gt_mtime":%d}`, name, file.mtime))
}

// settle handles frames until the server has sent everything.
func (c *cppSDK) settle() {
	c.t.Helper()
	c.running = true
	for range 3 { // what is handled may lead to a request, its answer to another
		c.send(protocol.KeepAlive, ``) // the real one never does; it ends the waiting here
		mark := c.seq
		for {
			f := c.recv()
			if f.Command == protocol.KeepAlive.Reply() && f.Seq == mark {
				break
			}
			c.handle(f)
		}
	}
}

// changed handles frames until the callback has fired, and settles.
func (c *cppSDK) changed() {
	c.t.Helper()
	c.running = true
	for before := c.fired; c.fired == before; {
		c.handle(c.recv())
	}
	c.settle()
}

func (c *cppSDK) handle(f servertest.Frame) {
	c.t.Helper()
	switch f.Command {
	case protocol.Whoami.Reply():
		m := c.members(f)
		require.Equal(c.t, json.Number("0"), m["code"], "refused: it would try again every 10 s")
		c.id = int32Of(m["svrid"])
	case protocol.GetConfig.Reply():
		c.answered(f)
	case protocol.EvNotify:
		c.notified(f)
	case protocol.KeepAlive:
		_, err := c.conn.Write(frame(protocol.KeepAlive.Reply(), f.Seq, ``))
		require.NoError(c.t, err)
	}
}

func (c *cppSDK) answered(f servertest.Frame) {
	c.t.Helper()
	if f.Body == `1` {
		return
	}
	if !json.Valid([]byte(f.Body)) {
		c.dies("logs an error and answers the answer", f)
	}
	m := c.members(f)
	contents, present := m["contents"]
	if m["code"] != json.Number("0") || !present {
		return // logged, and the old contents stay
	}
	c.fired++
	if int32Of(m["mtime"]) != 0 {
		c.store(m, contents)
	}
}

func (c *cppSDK) notified(f servertest.Frame) {
	c.t.Helper()
	m := c.members(f)
	kind, _ := m["notify"].(string)
	if kind == "" {
		c.dies("runs all call-backs, exit among them", f)
	}
	if _, from := m["from"]; from {
		c.dies("answers a push that nobody waits for", f)
	}
	if !strings.HasPrefix(kind, "cfg_change") {
		return
	}
	for name, file := range c.files {
		if file.mtime < int32Of(m["mtime"]) {
			c.ask(name, file)
		}
	}
}

func (c *cppSDK) has(name, contents string) {
	c.t.Helper()
	require.Contains(c.t, c.files, name)
	require.JSONEq(c.t, contents, c.files[name].contents)
}

// startCpp is a running program that has loaded its main config.
func startCpp(t *testing.T, srv *servertest.Server) *cppSDK {
	t.Helper()
	c := newCppSDK(t, srv.Addr().String(), `,"svrname":"app"`)
	main := c.init()
	require.Equal(t, "dev.json", main)
	c.load(main)
	c.settle()
	return c
}

func cppFamily() servertest.Options {
	opts := family()
	opts.Files["_meta.json"] = `{"conf_inherit":{"dev.json":"common.json app.json"},"app_profile":{"default":{"app":"dev.json"}}}`
	return opts
}

func TestCppSDK(t *testing.T) {
	t.Parallel()
	const before = `{"c":1,"o":{"a":1},"a":1,"d":1}`

	t.Run("starts_with_the_main_config", func(t *testing.T) {
		startCpp(t, start(t, cppFamily())).has("dev.json", before)
	})
	t.Run("starts_with_contents_that_just_fit_its_buffer", func(t *testing.T) {
		contents := `{"k":[` + strings.Repeat("1, ", 5076) + `1]}` // compact 10161 bytes, people's form more
		opts := cppFamily()
		opts.Files["large.json"] = contents
		srv := start(t, opts)
		c := newCppSDK(t, srv.Addr().String(), `,"svrname":"app"`)
		c.init()
		c.load("large.json")
		c.load("dev.json")
	})
	t.Run("starts_with_a_deleted_file", func(t *testing.T) {
		srv := start(t, cppFamily())
		set(t, peer(t, srv), "dev.json", `null`, ``)
		startCpp(t, srv)
	})
	t.Run("starts_with_names_without_suffix_and_follows_them", func(t *testing.T) {
		srv := start(t, cppFamily())
		c := newCppSDK(t, srv.Addr().String(), ``)
		c.init()
		c.load("dev")
		c.settle()
		peer(t, srv).Set("dev.json", `{"d":2}`)
		c.changed()
		c.has("dev", `{"c":1,"o":{"a":1},"a":1,"d":2}`)
	})
	t.Run("nothing_slips_in_between_while_it_starts", func(t *testing.T) {
		srv := start(t, cppFamily())
		writer := peer(t, srv)
		for i := range 30 {
			// Changes just before and during the start; the next frame must be the reply.
			writer.Send(protocol.SetConfig, fmt.Sprintf(`{"filename":"dev.json","contents":{"i":%d}}`, i))
			c := newCppSDK(t, srv.Addr().String(), `,"svrname":"app"`)
			c.load(c.init())
			require.Equal(t, protocol.SetConfig.Reply(), writer.Next().Command)
		}
	})
	t.Run("a_change_is_fetched_and_is_quiet_when_told_twice", func(t *testing.T) {
		srv := start(t, cppFamily())
		c := startCpp(t, srv)
		writer := peer(t, srv)
		for i := range 5 { // also within one second
			writer.Set("dev.json", fmt.Sprintf(`{"d":%d}`, i+2))
			c.changed()
			c.has("dev.json", fmt.Sprintf(`{"c":1,"o":{"a":1},"a":1,"d":%d}`, i+2))
		}
		require.Equal(t, 5, c.fired)
	})
	t.Run("a_changed_base_arrives_by_the_string_incbase_it_sends", func(t *testing.T) {
		srv := start(t, cppFamily())
		c := startCpp(t, srv)
		peer(t, srv).Set("common.json", `{"c":2}`)
		c.changed()
		c.has("dev.json", `{"c":2,"o":{"a":1},"a":1,"d":1}`)
		require.LessOrEqual(t, c.fired, 2, "told under two names it asks at most twice")
	})
	t.Run("an_edited_file_a_removed_base_and_a_shorter_list_arrive", func(t *testing.T) {
		srv := start(t, cppFamily())
		c := startCpp(t, srv)
		srv.Write("dev.json", `{"d":"edited"}`)
		c.changed()
		srv.Remove("common.json")
		c.changed()
		c.has("dev.json", `{"a":1,"o":{"a":1},"d":"edited"}`)
		srv.Write("_meta.json", `{}`)
		c.changed()
		c.has("dev.json", `{"d":"edited"}`)
	})
	t.Run("a_deleted_file_becomes_empty", func(t *testing.T) {
		opts := cppFamily()
		opts.Files["_meta.json"] = `{"app_profile":{"default":{"app":"dev.json"}}}`
		srv := start(t, opts)
		c := startCpp(t, srv)
		set(t, peer(t, srv), "dev.json", `null`, ``)
		c.changed()
		c.has("dev.json", `{}`)
	})
	t.Run("reconnects_with_its_id_and_catches_up", func(t *testing.T) {
		srv := start(t, cppFamily())
		c := startCpp(t, srv)
		id := c.id
		srv.Stop()
		srv.Write("common.json", `{"c":"while it was down"}`)
		srv.Restart()
		c.addr = srv.Addr().String()
		c.reconnect()
		c.changed()
		require.Equal(t, id, c.id)
		c.has("dev.json", `{"c":"while it was down","o":{"a":1},"a":1,"d":1}`)
		fired := c.fired
		srv.Restart()
		c.addr = srv.Addr().String()
		c.reconnect()
		c.settle()
		require.Equal(t, fired, c.fired, "what has not changed is a quiet 1")
		peer(t, srv).Set("app.json", `{"a":2}`)
		c.changed()
		c.has("dev.json", `{"c":"while it was down","a":2,"d":1}`)
	})
	t.Run("reconnects_when_its_file_has_been_deleted_or_is_unknown", func(t *testing.T) {
		// CppCloud forgets deletes at a restart and answers null, which aborts the
		// program.
		srv := start(t, cppFamily())
		c := startCpp(t, srv)
		set(t, peer(t, srv), "dev.json", `null`, ``)
		c.changed()
		c.files["never.json"] = &cppFile{mtime: 5, contents: `{"kept":1}`}
		srv.Restart()
		c.addr = srv.Addr().String()
		c.reconnect()
		c.settle()
		c.has("dev.json", `{"c":1,"o":{"a":1},"a":1}`)
		c.has("never.json", `{"kept":1}`)
	})
	t.Run("reconnects_after_its_connection_was_lost_and_gets_its_id_back", func(t *testing.T) {
		srv := start(t, cppFamily())
		c := startCpp(t, srv)
		require.NoError(t, c.conn.Close())
		eventually(t, "the id is free at once, not after half an hour", func() bool { return srv.Stats().Get("server_connections") == 0 })
		id := c.id
		c.reconnect()
		c.settle()
		require.Equal(t, id, c.id)
	})
	t.Run("answers_the_keep_alive_and_lives", func(t *testing.T) {
		opts := cppFamily()
		fake := clocktest.NewFake(time.Unix(now, 0))
		opts.Server = tcp.Config{Clock: fake, Loops: 1}
		srv := start(t, opts)
		fake.BlockUntil(1)
		s := &timed{Server: srv, t: t, clock: fake}
		c := startCpp(t, srv)
		for range 4 {
			s.advance(601 * time.Second)
			s.sweeps()
			c.settle()
		}
		require.Zero(t, srv.Stats().Get("server_limits_met_total", "idle"))
	})
	t.Run("is_not_asked_within_the_first_minute", func(t *testing.T) {
		srv := startTimed(t, tcp.Config{})
		c := newCppSDK(t, srv.Addr().String(), `,"svrname":"app"`)
		c.init()
		srv.advance(60 * time.Second)
		peer(t, srv.Server).Set("a.json", `{}`)
		c.load("a.json") // whose next frame would be the question
	})
}

// The emulation must be able to fail.
func TestCppSDKEmulationCanFail(t *testing.T) {
	for _, f := range []servertest.Frame{
		{Header: protocol.Header{Command: protocol.GetConfig.Reply()}, Body: `null`},
		{Header: protocol.Header{Command: protocol.GetConfig.Reply()}, Body: `"ok"`},
		{Header: protocol.Header{Command: protocol.GetConfig.Reply()}, Body: `ok`},
		{Header: protocol.Header{Command: protocol.GetConfig.Reply()}, Body: `[]`},
		{Header: protocol.Header{Command: protocol.GetConfig.Reply()}, Body: `0`},
		{Header: protocol.Header{Command: protocol.EvNotify}, Body: `{}`},
		{Header: protocol.Header{Command: protocol.EvNotify}, Body: `{"notify":""}`},
		{Header: protocol.Header{Command: protocol.EvNotify}, Body: `{"notify":"cfg_change","from":1}`},
	} {
		t.Run(f.String(), func(t *testing.T) {
			c := newCppSDK(t, "", "")
			c.died = func(how string) { panic(how) }
			require.Panics(t, func() { c.handle(f) })
		})
	}
}
