package server

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/confstore"
	"confcenter/internal/atomicfile"
	"confcenter/kvstore/kvtest"
	"confcenter/protocol"
	"confcenter/server/gate"
)

// memoryStore is a store of documents on a disk in memory.
func memoryStore(t *testing.T) *confstore.Store {
	mem := atomicfile.NewMem(nil)
	mem.MakeDir("/srv/conf")
	mem.MakeDir("/srv/data")
	store, err := confstore.Open(confstore.Config{Dir: "/srv/conf", DataDir: "/srv/data", FS: mem, State: kvtest.ForTest(t), SetTimeout: time.Minute})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	return store
}

// setAll changes ten documents in turn, n changes in all.
func setAll(t *testing.T, store *confstore.Store, n int) {
	const together = 500
	done := make(chan error, together)
	for i := 0; i < n; i += together {
		some := min(together, n-i)
		for j := range some {
			req := confstore.SetRequest{Name: fmt.Sprintf("%d.json", j%10), Contents: fmt.Append(nil, i+j)}
			require.NoError(t, store.Set(req, func(_ confstore.SetResult, err error) { done <- err }))
		}
		for range some {
			require.NoError(t, <-done)
		}
	}
}

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
	require.NotEmpty(t, srv.gate.Desks())
	before := map[*gate.Desk]int{}
	for _, d := range srv.gate.Desks() {
		before[d] = d.Loop.Waits()
	}
	setAll(t, store, 10_000)
	for _, d := range srv.gate.Desks() {
		require.Equal(t, before[d], d.Loop.Waits())
		require.LessOrEqual(t, d.Loop.Waits(), 10+4, "what was on its way when it stopped")
	}
}
