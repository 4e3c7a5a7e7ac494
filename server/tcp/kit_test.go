package tcp

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/internal/clock/clocktest"
	"confcenter/kvstore/memory"
	"confcenter/protocol"
	"confcenter/server/tcp/gate"
	"confcenter/server/tcp/gate/gatetest"
	"confcenter/server/tcp/loop/looptest"
)

// wired is a session without a socket, on a loop that does not run.
type wired struct {
	*gate.Session
	srv   *Server
	clock *clocktest.Fake
}

// newHeldWire is one on a state store that waits.
func newHeldWire(t testing.TB, cfg Config) (*wired, *looptest.Wire, *gatetest.HeldState) {
	memory := memory.New(memory.Config{})
	t.Cleanup(func() { require.NoError(t, memory.Close()) })
	state := &gatetest.HeldState{Store: memory, Room: 1 << 20}
	s, w := newWire(t, cfg, Stores{Config: gatetest.Documents(t, nil), State: state})
	identify(t, s, w)
	return s, w, state
}

// newWire is one of a server with these stores.
func newWire(t testing.TB, cfg Config, stores Stores) (*wired, *looptest.Wire) {
	fake := clocktest.NewFake(time.Unix(1_000_000, 0))
	cfg.Clock = fake
	srv := New(cfg, stores)
	t.Cleanup(srv.group.Close)
	s, w := gatetest.Connect(t, gatetest.OpenLocal(srv.gate), 0)
	return &wired{s, srv, fake}, w
}

// identifiedWire is a session that has said WHOAMI and reads all.
func identifiedWire(t testing.TB, stores Stores) (*wired, *looptest.Wire) {
	s, w := newWire(t, Config{}, stores)
	identify(t, s, w)
	return s, w
}

func identify(t testing.TB, s *wired, w *looptest.Wire) {
	w.Room = gatetest.Unlimited
	s.Receive(protocol.AppendFrame(nil, protocol.Whoami, 1, []byte(`{"svrid":0,"svrname":"x"}`)))
	require.NotNil(t, s.Client)
	w.Got.Reset()
}
