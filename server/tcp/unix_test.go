package tcp_test

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/internal/servertest"
	"confcenter/protocol"
	"confcenter/server/tcp"
)

func TestAUnixSocketIsServed(t *testing.T) {
	files := servertest.Start(t, servertest.Options{Files: map[string]string{"a.json": `{"n":1}`}})
	path := filepath.Join(t.TempDir(), "s")
	for range 2 { // the second time there is one left behind
		srv := tcp.New(servertest.OnTransport(tcp.Config{Listen: "unix:" + path, Loops: 1}), tcp.Stores{Config: files.Store})
		require.NoError(t, srv.Start())
		one, two := servertest.Dial(t, "unix:"+path), servertest.Dial(t, "unix:"+path)
		one.Identify(`{"svrid":0,"svrname":"one"}`)
		two.Identify(`{"svrid":0,"svrname":"two"}`)
		require.Contains(t, two.Call(protocol.GetConfig, `{"file_pattern":"a.json"}`), `{"n":1}`)
		list, _ := srv.Clients(0, 10)
		require.Len(t, list, 2)
		require.Equal(t, "127.0.0.1:0", list[0].Address, "it is on this machine")
		err := tcp.New(servertest.OnTransport(tcp.Config{Listen: "unix:" + path}), tcp.Stores{Config: files.Store}).Start()
		require.ErrorContains(t, err, "address already in use")
		require.NoError(t, srv.Shutdown(t.Context()))
		one.Closed()
		require.NoFileExists(t, path)
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
		require.NoError(t, err)
		l.SetUnlinkOnClose(false)
		require.NoError(t, l.Close())
	}
	require.NoError(t, os.Remove(path))
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	err := tcp.New(servertest.OnTransport(tcp.Config{Listen: "unix:" + path}), tcp.Stores{Config: files.Store}).Start()
	require.Error(t, err, "a file is not a socket")
	require.FileExists(t, path)
}
