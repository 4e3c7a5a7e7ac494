package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/internal/servertest"
	"confcenter/protocol"
	gateway "confcenter/server/http"
	"confcenter/server/tcp"
)

func TestHTTPShowsWhatTheTCPServerDoes(t *testing.T) {
	srv := servertest.Start(t, servertest.Options{
		Files:  map[string]string{"a.json": `{"n":1}`},
		Server: tcp.Config{SlowRequest: 1}, // every write is slow
	})
	web, err := gateway.New(gateway.Config{Listen: "127.0.0.1:0"}, gateway.Stores{Config: srv.Store}, srv.Server)
	require.NoError(t, err)
	require.NoError(t, web.Start())
	defer func() { require.NoError(t, web.Shutdown(context.Background())) }()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	get := func(path string) (int, string) {
		reply, err := client.Get("http://" + web.Addr().String() + path)
		require.NoError(t, err)
		defer func() { _ = reply.Body.Close() }()
		body, err := io.ReadAll(reply.Body)
		require.NoError(t, err)
		return reply.StatusCode, string(body)
	}

	peer := srv.Peer("app")
	peer.Call(protocol.BookCfgChange, `{"file_pattern":"a.json","key_pattern":"/n"}`)
	peer.Call(protocol.KVPut, `{"ns":"n","key":"a","value":"1"}`)

	var clients struct {
		Clients []struct {
			ID            int32
			Name          string
			Subscriptions []struct {
				File, Path string
				Told       int32
			}
		}
	}
	_, body := get("/v1/clients")
	require.NoError(t, json.Unmarshal([]byte(body), &clients))
	require.Len(t, clients.Clients, 1)
	one := clients.Clients[0]
	require.Equal(t, []any{peer.ID, "app"}, []any{one.ID, one.Name})
	require.Equal(t, srv.Store.Snapshot().Node("a.json").Mtime(false), one.Subscriptions[0].Told)
	require.Equal(t, "/n", one.Subscriptions[0].Path)

	_, body = get("/metrics")
	for _, line := range []string{
		`confcenter_server_requests_total{command="KVPUT"} 1`, `confcenter_server_requests_total{command="WHOAMI"} 1`,
		`confcenter_server_clients 1`, `confcenter_server_request_duration_seconds_count{kind="write"} 1`,
		`confcenter_server_limits_met_total{limit="input"} 0`, `confcenter_config_files 1`,
	} {
		require.Contains(t, body, line+"\n")
	}
	_, body = get("/v1/status")
	require.Contains(t, body, `"kind":"tcp","name":"KVPUT"`)

	status, _ := get("/readyz")
	require.Equal(t, http.StatusOK, status)
	srv.Stop()
	status, body = get("/readyz?verbose")
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Contains(t, body, "[-]accepting failed")
}
