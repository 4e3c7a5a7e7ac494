//go:build !race || soak

package tcp

import (
	"context"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/protocol"
	"confcenter/server/tcp/gate"
)

func TestAStoppedServerHearsOfNoChange(t *testing.T) {
	store := memoryStore(t)
	srv := New(Config{Listen: "127.0.0.1:0"}, Stores{Config: store})
	require.NoError(t, srv.Start())
	// A loop begins with its first connection.
	peer, err := net.Dial("tcp", srv.Addr().String())
	require.NoError(t, err)
	defer peer.Close()
	_, err = peer.Write(protocol.AppendFrame(nil, protocol.Whoami, 1, []byte(`{"svrid":0,"svrname":"x"}`)))
	require.NoError(t, err)
	_, err = peer.Read(make([]byte, 10))
	require.NoError(t, err)
	setAll(t, store, 10)
	require.NoError(t, srv.Shutdown(context.Background()))
	require.NotEmpty(t, srv.gate.Locals())
	before := map[*gate.Local]int{}
	for _, d := range srv.gate.Locals() {
		before[d] = d.Loop.Waits()
	}
	setAll(t, store, 10_000)
	for _, d := range srv.gate.Locals() {
		require.Equal(t, before[d], d.Loop.Waits())
		require.LessOrEqual(t, d.Loop.Waits(), 10+4, "what was on its way when it stopped")
	}
}
