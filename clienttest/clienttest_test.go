package clienttest_test

import (
	"context"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"confcenter/client"
	"confcenter/clienttest"
)

// The server's libraries keep goroutines of their own.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m, goleak.IgnoreCurrent()) }

func dial(t *testing.T, srv *clienttest.Server) *client.Client {
	t.Helper()
	c, err := client.Dial(t.Context(), client.Config{Addrs: []string{srv.Address()}, Name: "app",
		MinBackoff: time.Millisecond, MaxBackoff: 10 * time.Millisecond})
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

func TestFilesAreWrittenAndRemoved(t *testing.T) {
	srv := clienttest.Start(t, clienttest.Options{
		Files:  map[string]string{"a.json": `{"n":1}`, "dir/b.json": `2`},
		Before: func(dir string) { require.NoError(t, os.Remove(dir+"/dir/b.json")) },
	})
	c := dial(t, srv)
	seen := make(chan string)
	_, err := c.Watch(t.Context(), client.Query{Name: "a.json"}, func(d *client.Document) { seen <- string(d.Raw()) })
	require.NoError(t, err)
	require.Equal(t, `{"n":1}`, <-seen)
	srv.Write("a.json", `{"n":2}`)
	require.Equal(t, `{"n":2}`, <-seen)
	srv.Remove("a.json")
	require.Empty(t, <-seen)
	files, err := c.List(t.Context())
	require.NoError(t, err)
	require.Len(t, files, 1, "what Before removed was never there")
}

// The state store lives in memory and yet outlives a restart, at the same address.
func TestStateAndAddressOutliveRestart(t *testing.T) {
	srv := clienttest.Start(t, clienttest.Options{})
	c, addr := dial(t, srv), srv.Address()
	put, err := c.KV("n").PutInt(t.Context(), "k", 7)
	require.NoError(t, err)
	srv.Stop()
	srv.Stop()
	require.Nil(t, srv.TCP())
	_, err = client.Dial(t.Context(), client.Config{Addrs: []string{addr}})
	require.ErrorIs(t, err, client.ErrUnreachable)
	srv.Restart()
	require.Equal(t, addr, srv.Address())
	e, err := dial(t, srv).KV("n").Get(t.Context(), "k")
	require.NoError(t, err)
	require.Equal(t, put.Revision, e.Mod)
	require.NoDirExists(t, srv.DataDir+"/state")
}

// A frozen server takes connections and answers nothing; thawed, it goes on where it
// stood.
func TestFrozenServerAnswersWhenItThaws(t *testing.T) {
	srv := clienttest.Start(t, clienttest.Options{})
	c := dial(t, srv)
	srv.Freeze()
	srv.Freeze()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := c.KV("n").GetInt(ctx, "k", 0)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	nc, err := net.Dial("tcp", srv.Address())
	require.NoError(t, err)
	defer nc.Close()
	got := make(chan error, 1)
	go func() {
		_, err := c.KV("n").PutInt(context.Background(), "k", 1)
		got <- err
	}()
	e, _ := srv.State.Get([]byte("n"), []byte("k"))
	require.Nil(t, e)
	srv.Thaw()
	require.NoError(t, <-got)
	require.EqualValues(t, 1, srv.TCP().Stats().Get("server_clients"))
}

// What a frozen server was asked is lost when it is stopped.
func TestStopOfAFrozenServerLosesWhatItHeldUp(t *testing.T) {
	srv := clienttest.Start(t, clienttest.Options{})
	c := dial(t, srv)
	srv.Freeze()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := c.Set(ctx, client.SetRequest{Name: "a.json", Contents: []byte(`1`)})
	require.Error(t, err)
	srv.Restart()
	require.NoFileExists(t, srv.ConfDir+"/a.json")
	_, err = dial(t, srv).List(t.Context())
	require.NoError(t, err)
}

func TestCutEndsConnectionsOnly(t *testing.T) {
	srv := clienttest.Start(t, clienttest.Options{})
	nc, err := net.Dial("tcp", srv.Address())
	require.NoError(t, err)
	defer nc.Close()
	c := dial(t, srv)
	id := c.Epoch()
	srv.Cut()
	_, err = nc.Read(make([]byte, 1))
	require.Error(t, err)
	_, err = dial(t, srv).List(t.Context())
	require.NoError(t, err)
	require.Equal(t, id, dial(t, srv).Epoch())
}
