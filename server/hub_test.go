package server

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/confstore"
	"confcenter/internal/atomicfile"
	"confcenter/protocol"
)

// memoryStore is a store of documents on a disk in memory.
func memoryStore(t *testing.T) *confstore.Store {
	mem := atomicfile.NewMem(nil)
	mem.MakeDir("/srv/conf")
	mem.MakeDir("/srv/data")
	store, err := confstore.Open(confstore.Config{Dir: "/srv/conf", DataDir: "/srv/data", FS: mem})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	return store
}

// setAll changes one of a few documents n times.
func setAll(t *testing.T, store *confstore.Store, n int) {
	done := make(chan error, 1)
	for i := range n {
		req := confstore.SetRequest{Name: fmt.Sprintf("%d.json", i%10), Contents: fmt.Append(nil, i)}
		require.NoError(t, store.Set(req, func(_ confstore.SetResult, err error) { done <- err }))
		require.NoError(t, <-done)
	}
}

func (l *loop) waits() int {
	l.mail.box.mu.Lock()
	defer l.mail.box.mu.Unlock()
	return len(l.mail.box.items)
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
	require.NotEmpty(t, srv.allLoops())
	before := map[*loop]int{}
	for _, l := range srv.allLoops() {
		before[l] = l.waits()
	}
	setAll(t, store, 10_000)
	for _, l := range srv.allLoops() {
		require.Equal(t, before[l], l.waits())
		require.LessOrEqual(t, l.waits(), 10+4, "what was on its way when it stopped")
	}
}

func TestALoopThatLagsHoldsABoundedBacklog(t *testing.T) {
	store := memoryStore(t)
	setAll(t, store, 10)
	s, w := newWire(t, Config{Limits: Limits{Backlog: 100_000}})
	s.srv.store = store
	w.room = 1 << 40
	defer store.Subscribe(s.srv.publish)()
	s.receive(protocol.AppendFrame(nil, protocol.Whoami, 1, []byte(`{"svrid":0,"svrname":"x"}`)))
	for i := range 10 {
		require.Contains(t, book(s, w, fmt.Sprintf(`{"file_pattern":"%d.json"}`, i)), `"code":0`)
	}
	w.got.Reset()
	setAll(t, store, 5_000)
	require.Less(t, s.loop.waits(), 40)
	require.NotZero(t, s.srv.count.WatchBacklog.Load())
	for s.loop.mail.box.waiting() {
		s.loop.turn(wakeBudget, bulkTurn)
	}
	told := w.got.String()
	require.Less(t, strings.Count(told, "cfg_change"), 100)
	for i := range 10 {
		newest := store.Snapshot().Node(fmt.Sprintf("%d.json", i)).Mtime(false)
		require.Contains(t, told, fmt.Sprintf(`"filename":"%d.json","mtime":%d`, i, newest), "the newest version of each")
	}
	w.got.Reset()
	setAll(t, store, 1)
	s.loop.turn(wakeBudget, bulkTurn)
	require.Equal(t, 1, strings.Count(w.got.String(), "cfg_change"), "and each again afterwards")
}
