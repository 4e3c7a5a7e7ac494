package gate_test

import (
	"bytes"
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"confcenter/access/guard/guardtest"
	"confcenter/internal/roster"
	"confcenter/protocol"
	"confcenter/server/tcp/gate"
	"confcenter/server/tcp/gate/gatetest"
	"confcenter/server/tcp/loop"
	"confcenter/server/tcp/loop/looptest"
)

// newBench is a gate at which GETCONFIG is answered with an empty body and SETCONFIG
// later.
func newBench(t *testing.T, limits loop.Limits) *gatetest.Bench {
	b := gatetest.NewBench(t, limits)
	b.Gate.Add(map[protocol.Command]gate.Route{
		protocol.GetConfig: {Raw: true, Handle: func(s *gate.Session, h protocol.Header, _ []byte) bool {
			s.Reply(h, nil)
			return true
		}},
		protocol.SetConfig: {Raw: true, Write: true, Handle: func(s *gate.Session, h protocol.Header, _ []byte) bool {
			s.Reserve(h.Command)
			return true
		}},
	})
	b.Open()
	return b
}

func TestARefusalSaysWhatMayNotBeDone(t *testing.T) {
	b := newBench(t, loop.Limits{})
	s, w := b.Peer(gatetest.Unlimited)
	s.Rights = guardtest.Caller(t, "read status")
	s.Receive(gatetest.Requests(protocol.GetConfig, "", protocol.Command(0x0305), "", protocol.KVTxn, ""))
	require.Equal(t, []string{
		`GETCONFIG_RSP/1 {"code":1025,"desc":"you may not read \"config\"; ask an administrator for a role that allows it"}`,
		`CFPRUNE_RSP/2 {"code":1025,"desc":"you may not remove versions for good; only administrators may"}`,
		`KVTXN_RSP/3 {"code":1025,"desc":"you may not read \"kv\"; ask an administrator for a role that allows it"}`,
	}, gatetest.Frames(t, w))
}

func TestWhatTheGateTurnsOut(t *testing.T) {
	for name, c := range map[string]struct {
		sent     []byte
		known    bool // the peer has said who it is
		answered string
		counted  string // the limit that was met
	}{
		"another protocol":        {sent: []byte("GET / HTTP/1.1\r\n"), known: true, counted: "frame"},
		"a body beyond the limit": {sent: protocol.AppendHeader(nil, protocol.GetConfig, 1, protocol.MaxBody+1), known: true, counted: "frame"},
		"a body beyond the limit of a command of ours": {sent: protocol.AppendHeader(nil, protocol.StUpdate, 1, protocol.MaxBody+1), known: true, counted: "frame",
			answered: `STUPDATE_RSP/1 {"code":413,"desc":"STUPDATE announces 4194305 bytes of body, the limit is 4194304; the connection ends"}`},
		"a long body before WHOAMI": {sent: protocol.AppendHeader(nil, protocol.GetConfig, 1, protocol.MaxAnonymousBody+1), counted: "frame"},
		"a reply before WHOAMI":     {sent: gatetest.Requests(protocol.GetConfig.Reply(), "")},
		"a request before WHOAMI":   {sent: gatetest.Requests(protocol.GetConfig, "", protocol.GetConfig, ""), answered: `GETCONFIG_RSP/1 {"code":401,"desc":"Not Auth(0xE-1)"}`},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, loop.Limits{})
			b.Gate.Add(map[protocol.Command]gate.Route{protocol.StUpdate: {Strict: true}})
			connect := func() (*gate.Session, *looptest.Wire) { return gatetest.Connect(t, b.Local, gatetest.Unlimited) }
			if c.known {
				connect = func() (*gate.Session, *looptest.Wire) { return b.Peer(gatetest.Unlimited) }
			}
			s, w := connect()
			s.Receive(c.sent)
			require.True(t, s.Ending())
			if c.answered != "" {
				require.Equal(t, []string{c.answered}, gatetest.Frames(t, w))
				require.True(t, w.HalfShut, "it may still read the answer")
			} else {
				require.Empty(t, gatetest.Frames(t, w))
				require.True(t, w.Closed)
			}
			if c.counted != "" {
				require.EqualValues(t, 1, b.Group.Readings().Get("server_limits_met_total", c.counted))
			}
		})
	}
}

// A bug in one handler must cost the connection that found it, and no other.
func TestAPanicEndsItsConnectionOnly(t *testing.T) {
	plant := func(*gate.Session, protocol.Header) { panic("planted") }
	for name, bug := range map[string]func(s *gate.Session, h protocol.Header){
		"in a handler":             plant,
		"with half a reply begun":  func(s *gate.Session, h protocol.Header) { s.End(s.Begin(h.Command.Reply(), h.Seq)); plant(s, h) },
		"on a worker":              func(s *gate.Session, h protocol.Header) { s.Away(func() { plant(s, h) }, func(*loop.Loop) {}) },
		"with what a worker made":  func(s *gate.Session, h protocol.Header) { s.Away(func() {}, func(*loop.Loop) { plant(s, h) }) },
		"in a reply a worker made": func(s *gate.Session, h protocol.Header) { s.Later(h, func([]byte) []byte { panic("planted") }) },
	} {
		t.Run(name, func(t *testing.T) {
			b := gatetest.NewBench(t, loop.Limits{})
			var log bytes.Buffer
			b.Group.Log = zerolog.New(zerolog.SyncWriter(&log))
			b.Gate.Add(map[protocol.Command]gate.Route{
				protocol.SetConfig: {Raw: true, Handle: func(s *gate.Session, h protocol.Header, _ []byte) bool { bug(s, h); return true }},
				protocol.GetConfig: {Raw: true, Handle: func(s *gate.Session, h protocol.Header, _ []byte) bool {
					s.Reply(h, nil)
					return true
				}},
			})
			b.Open()
			s, w := b.Peer(gatetest.Unlimited)
			other, otherWire := b.Peer(gatetest.Unlimited)
			s.Receive(gatetest.Requests(protocol.GetConfig, "", protocol.SetConfig, "", protocol.GetConfig, ""))
			for b.Group.Jobs() > 0 {
				b.Group.DoJob(0)
			}
			gatetest.Sweep(b.Local)
			require.True(t, s.Gone())
			require.True(t, w.Closed)
			require.EqualValues(t, 1, b.Group.Readings().Get("server_panics_total"))
			require.Contains(t, log.String(), `"panic":"planted"`)
			require.Contains(t, log.String(), "gate_test.go", "the stack")
			other.Receive(gatetest.Requests(protocol.GetConfig, ""))
			require.Equal(t, []string{"GETCONFIG_RSP/1 "}, gatetest.Frames(t, otherWire))
		})
	}
}

// part panics where it is told to.
type part struct{ onRead, onEnd bool }

func (p *part) ReadOn() {
	if p.onRead {
		panic("planted")
	}
}

func (p *part) Ended() {
	if p.onEnd {
		panic("planted")
	}
}

func (p *part) Describe(*roster.Client, int) {}

func TestAPanicOfAPartEndsItsConnectionOnly(t *testing.T) {
	b := gatetest.NewBench(t, loop.Limits{})
	b.Open()
	s, w := b.Peer(gatetest.Unlimited)
	s.SetPart(gate.OfWatch, &part{onRead: true, onEnd: true})
	s.ReadOn()
	require.True(t, w.Closed)
	require.True(t, s.Gone())
	require.EqualValues(t, 2, b.Group.Readings().Get("server_panics_total"))
	connections, clients := b.Gate.Registry.Counts()
	require.Zero(t, connections+clients, "it has ended everywhere else")
}

func TestWorkForSeveralConnectionsIsContained(t *testing.T) {
	b := gatetest.NewBench(t, loop.Limits{})
	done := false
	func() {
		defer b.Group.Contain(func() { done = true })
		panic("planted")
	}()
	require.True(t, done)
	require.EqualValues(t, 1, b.Group.Readings().Get("server_panics_total"))
}

func TestWhatTheGateHoldsBack(t *testing.T) {
	b := newBench(t, loop.Limits{Writes: 2})
	s, w := b.Peer(gatetest.Unlimited)
	s.Receive(gatetest.Requests(protocol.SetConfig, "", protocol.SetConfig, "", protocol.SetConfig, "", protocol.GetConfig, ""))
	require.Equal(t, 2*protocol.HeaderSize, s.Kept(), "two writes are on their way, and a read waits for all of them")
	for id := range uint64(3) {
		s.Fill(id, protocol.AppendFrame(nil, protocol.SetConfig.Reply(), uint16(id+1), nil))
		gatetest.Sweep(b.Local)
	}
	require.Equal(t, []string{"SETCONFIG_RSP/1 ", "SETCONFIG_RSP/2 ", "SETCONFIG_RSP/3 ", "GETCONFIG_RSP/4 "}, gatetest.Frames(t, w))
	require.Zero(t, s.Kept())

	s, _ = b.Peer(0)
	s.Out.SendFrame(make([]byte, 1<<20))
	s.Receive(gatetest.Requests(protocol.GetConfig, ""))
	require.Equal(t, protocol.HeaderSize, s.Kept(), "nobody gets more replies while those he has are not read")
}

func TestWhatNobodyHandlesIsIgnored(t *testing.T) {
	b := newBench(t, loop.Limits{})
	s, w := b.Peer(gatetest.Unlimited)
	s.Receive(gatetest.Requests(protocol.Command(0x0fff), "{", protocol.Command(0x0077), "", protocol.KVEvent, "", protocol.Broadcast, "{}", protocol.GetCli.Reply(), "{", protocol.GetConfig, ""))
	require.Equal(t, []string{"GETCONFIG_RSP/6 "}, gatetest.Frames(t, w))
	require.EqualValues(t, 1, b.Group.Readings().Get("server_limits_met_total", "role"), "a server's command from a client is noticed")
}
