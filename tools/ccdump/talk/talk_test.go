package talk

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"confcenter/protocol"
	"confcenter/tools/ccdump/capture"
	"confcenter/tools/ccdump/stream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// stage is a made-up conversation.
type stage struct {
	a    *stream.Assembler
	at   int64
	text Text
	out  []byte
}

func newStage(cfg Config) *stage {
	s := &stage{at: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).UnixNano(), text: Text{Printer: protocol.Printer{Style: protocol.BodyWhole}, Location: time.UTC}}
	if cfg.Show == nil {
		cfg.Show = func(l *Line) { s.out = s.text.Append(s.out, l) }
	}
	s.a = stream.New(stream.Config{}, New(cfg))
	return s
}

// conn is a connection on it.
type conn struct {
	port uint16
	next [2]uint32
}

func (s *stage) open(port uint16) *conn {
	c := &conn{port: port}
	s.packet(c, client, capture.SYN, nil)
	s.packet(c, server, capture.SYN|capture.ACK, nil)
	return c
}

func (s *stage) packet(c *conn, from stream.Dir, flags capture.Flags, b []byte) {
	ends := [2]netip.AddrPort{netip.AddrPortFrom(netip.MustParseAddr("10.0.0.1"), c.port), netip.MustParseAddrPort("10.0.0.2:4800")}
	s.a.Segment(&capture.Segment{At: s.at, Src: ends[from], Dst: ends[1-from], Seq: c.next[from], Ack: c.next[1-from], Flags: flags, Payload: b})
	c.next[from] += uint32(len(b))
	if flags.Has(capture.SYN) || flags.Has(capture.FIN) {
		c.next[from]++
	}
}

// says sends a frame a millisecond after the previous one.
func (s *stage) says(c *conn, from stream.Dir, cmd protocol.Command, seq uint16, body string) {
	s.at += 1e6
	s.packet(c, from, capture.ACK, protocol.AppendFrame(nil, cmd, seq, []byte(body)))
}

// loses has the capture lack bytes that the other side has received.
func (s *stage) loses(c *conn, from stream.Dir, n uint32) {
	c.next[from] += n
	s.packet(c, from.Other(), capture.ACK, nil)
	s.at += 1e7
	s.packet(c, from.Other(), capture.ACK, nil)
}

func (s *stage) close(c *conn) {
	s.packet(c, client, capture.FIN|capture.ACK, nil)
	s.packet(c, server, capture.FIN|capture.ACK, nil)
}

const (
	client = stream.FromClient
	server = stream.FromServer
)

func (s *stage) identify(c *conn, name string, id int) {
	s.says(c, client, protocol.Whoami, 1, string(protocol.AppendIdentify(nil, protocol.Identify{Name: name})))
	s.says(c, server, protocol.Whoami.Reply(), 1, fmt.Sprintf(`{"code":0,"svrid":%d}`, id))
}

func TestLines(t *testing.T) {
	s := newStage(Config{})
	c := s.open(5000)
	s.identify(c, "app", 7)
	s.says(c, client, protocol.GetConfig, 2, `{"file_pattern":"a"}`)
	s.says(c, client, protocol.GetConfig, 2, `{"file_pattern":"b"}`)
	s.says(c, server, protocol.GetConfig.Reply(), 2, `{"code":0}`)
	s.says(c, server, protocol.GetConfig.Reply(), 9, `{"code":404}`)
	s.says(c, server, protocol.KeepAlive, 3, ``)
	s.says(c, client, protocol.KeepAlive.Reply(), 3, ``)
	s.packet(c, client, capture.ACK, []byte("no frame at all"))
	s.says(c, client, protocol.KVPut, 4, `{"ns":"n","key":"k","raw":2}`+"\x00\x1b")
	s.close(c)
	require.Equal(t, `# 2026-01-02 UTC
03:04:05.000000 #1 10.0.0.1:5000 > 10.0.0.2:4800 # opened
03:04:05.001000 #1 10.0.0.1:5000 > WHOAMI seq=1 41B {"svrid":0,"svrname":"app","clitype":300}
03:04:05.002000 #1 app/7 < WHOAMI_RSP seq=1 20B {"code":0,"svrid":7} in 1ms
03:04:05.003000 #1 app/7 > GETCONFIG seq=2 20B {"file_pattern":"a"}
03:04:05.004000 #1 app/7 > GETCONFIG seq=2 20B {"file_pattern":"b"}
03:04:05.005000 #1 app/7 < GETCONFIG_RSP seq=2 10B {"code":0} in 2ms
03:04:05.006000 #1 app/7 < GETCONFIG_RSP seq=9 12B {"code":404} # its request was not seen
03:04:05.007000 #1 app/7 < KEEPALIVE seq=3 0B
03:04:05.008000 #1 app/7 > KEEPALIVE_RSP seq=3 0B in 1ms
03:04:05.009000 #1 app/7 > ! skipped 15 bytes at offset 121: header length is 111, must be 10
03:04:05.009000 #1 app/7 > KVPUT seq=4 30B {"ns":"n","key":"k","raw":2} raw=2B
03:04:05.009000 #1 app/7 > ! GETCONFIG seq=2 was never answered, asked 5ms before
03:04:05.009000 #1 app/7 > ! KVPUT seq=4 was never answered, asked 0s before
03:04:05.009000 #1 app/7 # closed by the client
`, string(s.out))
}

func TestJSONLines(t *testing.T) {
	var out []byte
	j := JSON{Bodies: true}
	s := newStage(Config{Subjects: true, Show: func(l *Line) { out = j.Append(out, l) }})
	c := s.open(5000)
	s.identify(c, "a\x1b\"b", 7)
	s.says(c, client, protocol.KVPut, 2, `{"ns":"n", "key":"k","raw":2}`+"\x00\x1b")
	s.says(c, client, protocol.GetConfig, 3, "no \x1b JSON")
	s.says(c, server, protocol.KVPut.Reply(), 2, `{"code":507,"rev":1}`)
	s.close(c)
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	require.Len(t, lines, 8)
	for _, line := range lines {
		require.True(t, json.Valid([]byte(line)), line)
	}
	require.JSONEq(t, `{"time":"2026-01-02T03:04:05.003Z","conn":1,"client":"10.0.0.1:5000","server":"10.0.0.2:4800","svrname":"a\u001b\"b","svrid":7,"from":"client",
		"command":"KVPUT","seq":2,"size":31,"offset":58,"subject":"n/k","body":{"ns":"n","key":"k","raw":2},"raw":2}`, lines[3])
	require.Contains(t, lines[4], `"text":"no \\x1b JSON"`)
	require.Contains(t, lines[5], `"code":507,"latency_us":2000,"subject":"n/k"`)
	require.Contains(t, lines[6], `"remark":"GETCONFIG seq=3 was never answered`)
}

func TestSubjects(t *testing.T) {
	for _, one := range []struct {
		cmd        protocol.Command
		body, want string
	}{
		{protocol.GetConfig, `{"file_pattern":"a"}`, "a"},
		{protocol.SetConfig, `{"contents":{},"filename":"b.json"}`, "b.json"},
		{protocol.Whoami, `{"svrname":"x"}`, ""},
		{protocol.KVGet, `{"key":"k","ns":"n"}`, "n/k"},
		{protocol.KVList, `{"ns":"n","prefix":"p"}`, "n/p*"},
		{protocol.KVMGet, `{"ns":"n","keys":["a","b c",3]}`, "n/a n/b c"},
		{protocol.KVTxn, `{"ns":"n","then":[{"op":"put","key":"a"},{"ns":"m","key":"b"},{"op":"grant"}],"else":[{"key":"c"}]}`, "n/a m/b n/c"},
		{protocol.KVEvent, `{"watch":1,"events":[{"op":"put","ns":"n","key":"k"}]}`, "n/k"},
		{protocol.KVDrop, `{"ns":"n"}`, "n/*"},
		{protocol.KVStat, `{}`, ""},
		{protocol.KVGet, `{"ns":3,"key":{}}`, ""},
	} {
		var r protocol.Request
		require.NoError(t, r.Parse([]byte(one.body)))
		require.Equal(t, one.want, strings.Join(subjects(one.cmd, &r), " "), one.body)
	}
	var r protocol.Request
	require.NoError(t, r.Parse(fmt.Appendf(nil, `{"file_pattern":%q}`, strings.Repeat("x", 5000))))
	require.Len(t, strings.Join(subjects(protocol.GetConfig, &r), " "), maxName)
}

// remembering is a Follower, and the last connection that was opened.
type remembering struct {
	*Follower
	last *stream.Conn
}

func (r *remembering) Opened(c *stream.Conn, at int64, joined bool) {
	r.last = c
	r.Follower.Opened(c, at, joined)
}

// Requests that are never answered do not make the decoder grow.
func TestWaitingRequestsAreBounded(t *testing.T) {
	sum := NewSummary()
	f := New(Config{Summary: sum})
	sink := &remembering{Follower: f}
	s := &stage{a: stream.New(stream.Config{}, sink)}
	for port := range uint16(100) {
		c := s.open(5000 + port)
		for i := range 2 * maxWaiting {
			s.says(c, client, protocol.GetConfig, uint16(i), `{}`)
		}
		require.LessOrEqual(t, f.waiting, maxWaitingAll)
		require.LessOrEqual(t, len(sink.last.State.(*speaker).waits[client]), maxWaiting)
	}
	s.a.Finish()
	require.Zero(t, f.waiting)
	rows := sum.Commands()
	require.Len(t, rows, 1)
	require.EqualValues(t, 200*maxWaiting, rows[0].Unanswered)
	require.Len(t, sum.Missing, maxExamples)
}

func TestSummaryIsBounded(t *testing.T) {
	sum := NewSummary()
	s := newStage(Config{Summary: sum, Show: func(*Line) {}})
	c := s.open(5000)
	for i := range maxPushed + 50 {
		s.says(c, server, protocol.EvNotify, uint16(i), fmt.Sprintf(`{"notify":"cfg_change","filename":"%d.json","mtime":1}`, i))
		s.says(c, client, protocol.Command(0xB00+i%1200), uint16(i), `{}`)
	}
	s.says(c, server, protocol.EvNotify, 1, `{"notify":"cfg_change","filename":"0.json","mtime":1}`)
	pushes := sum.Pushes()
	require.Len(t, pushes, maxPushed+1)
	require.Equal(t, []PushCount{{others, 50}, {"0.json", 2}}, pushes[:2])
	rows := sum.Commands()
	require.Len(t, rows, 2)
	require.Equal(t, "(unknown)", rows[0].Command)
	require.EqualValues(t, maxPushed+51, rows[1].Pushes)
}

func TestOddRequests(t *testing.T) {
	s := newStage(Config{Filter: Filter{Errors: true}})
	s.text.Printer.Style = protocol.BodyNone
	c := s.open(5000)
	s.identify(c, "app", 7)
	s.says(c, client, protocol.SetConfig, 2, `{"contents":"`+strings.Repeat("x", protocol.MaxBody)+`"}`)
	s.says(c, client, 0x0A33, 3, `{}`)
	s.close(c)
	require.Equal(t, `# 2026-01-02 UTC
03:04:05.003000 #1 app/7 > SETCONFIG seq=2 4194319B ! longer than the limit of 4194304 bytes: the server closes
03:04:05.004000 #1 app/7 > 0x0A33 seq=3 2B ! no such command: the server ignores it
03:04:05.004000 #1 app/7 > ! SETCONFIG seq=2 was never answered, asked 1ms before
`, string(s.out))
}

func TestForgottenAndSilentConnections(t *testing.T) {
	sum := NewSummary()
	s := newStage(Config{Summary: sum})
	c := s.open(5000)
	s.packet(c, client, capture.ACK, []byte("SSH-2.0-OpenSSH_10.0\r\n"))
	s.close(c)
	require.Contains(t, string(s.out), "> ! not this protocol: 22 bytes at offset 0: header length is 83, must be 10\n")
	require.Contains(t, string(s.out), "# closed by the client without a frame\n")
	require.EqualValues(t, 1, sum.Silent)
	require.Equal(t, "header length is 83, must be 10", sum.Skips[0].Reason)
}

func TestNames(t *testing.T) {
	for name, want := range map[string]string{"app": "app", "": "?", "a b": `"a b"`, "x\x1b[31m": `"x\x1b[31m"`, "a/b": `"a/b"`, "名": "名"} {
		require.Equal(t, want, visible(name))
	}
}

func TestReplyLostInAGapIsNotNeverAnswered(t *testing.T) {
	sum := NewSummary()
	s := newStage(Config{Summary: sum})
	s.text.Printer.Style = protocol.BodyNone
	c := s.open(5000)
	s.identify(c, "app", 7)
	s.says(c, client, protocol.EvNotify, 2, `{"to":9}`) // its reply comes when another client gives it
	for seq := range uint16(3) {
		s.says(c, client, protocol.GetConfig, 3+seq, `{"file_pattern":"a"}`)
	}
	s.loses(c, server, 20)
	s.says(c, server, protocol.GetConfig.Reply(), 4, `{"code":0}`)
	s.says(c, client, protocol.KeepAlive, 6, ``)
	s.close(c)
	_, end, _ := strings.Cut(string(s.out), "GETCONFIG seq=5 20B\n")
	require.Equal(t, `03:04:05.017000 #1 app/7 < ! skipped 20 bytes at offset 30: lost: the capture does not have these bytes
03:04:05.017000 #1 app/7 < GETCONFIG_RSP seq=4 10B in 12ms
03:04:05.017000 #1 app/7 # the reply to GETCONFIG seq=3 is lost in a gap of the capture
03:04:05.018000 #1 app/7 > KEEPALIVE seq=6 0B
03:04:05.018000 #1 app/7 # the reply to EVNOTIFY seq=2 may be lost in a gap of the capture
03:04:05.018000 #1 app/7 > ! GETCONFIG seq=5 was never answered, asked 12ms before
03:04:05.018000 #1 app/7 > ! KEEPALIVE seq=6 was never answered, asked 0s before
03:04:05.018000 #1 app/7 # closed by the client
`, end)
	require.Len(t, sum.Missing, 2)
}

// However many replies a gap has taken, few lines report it.
func TestManyRepliesLostInAGap(t *testing.T) {
	s := newStage(Config{})
	c := s.open(5000)
	s.identify(c, "app", 7)
	for seq := range uint16(1000) {
		s.says(c, client, protocol.GetConfig, 2+seq, `{"file_pattern":"a"}`)
	}
	s.loses(c, server, 20000)
	s.says(c, server, protocol.GetConfig.Reply(), 501, `{"code":0}`)
	s.loses(c, server, 20000)
	s.close(c)
	require.Equal(t, maxToldUnanswered, strings.Count(string(s.out), " is lost in a gap"))
	require.Equal(t, maxToldUnanswered, strings.Count(string(s.out), " may be lost in a gap"))
	require.Contains(t, string(s.out), "# the replies to 494 more requests too\n")
	require.Contains(t, string(s.out), "# the replies to 495 more requests too\n")
	require.NotContains(t, string(s.out), "never answered")
}
