package server_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/internal/servertest"
	"confcenter/protocol"
	"confcenter/server"
)

func TestClientsTellWhoFollowsWhat(t *testing.T) {
	srv := servertest.Start(t, servertest.Options{Files: map[string]string{
		"_meta.json": `{"app_profile":{"blue":{"web":"web.json"}}}`,
		"a.json":     `{"n":1}`,
		"web.json":   `{}`,
	}})
	require.Empty(t, srv.Clients())
	anonymous := servertest.Dial(t, srv.Addr().String())
	web := servertest.Dial(t, srv.Addr().String())
	web.Identify(`{"svrid":0,"svrname":"web","tag":"blue"}`)
	other := srv.Peer("other")

	require.Contains(t, string(web.Call(protocol.BookCfgChange, `{"file_pattern":"a","key_pattern":"/n"}`)), `"code":0`)
	require.Contains(t, string(web.Call(protocol.BookCfgChange, `{"file_pattern":"b.json","missing_ok":1}`)), `"code":0`)
	require.Contains(t, string(web.Call(protocol.BookCfgChange, `{"file_pattern":"c"}`)), `"code":420`)
	require.Contains(t, string(web.Call(protocol.KVWatch, `{"ns":"n","prefix":""}`)), `"code":0`)
	list := srv.Clients()
	require.Len(t, list, 2)
	require.Equal(t, list[1].ID, list[0].ID+1)
	require.Equal(t, "other", list[1].Name)
	require.Empty(t, list[1].Subscriptions)
	told := srv.Store.Snapshot().Node("a.json").Mtime(false)
	require.Equal(t, server.ClientInfo{
		ID: web.ID, Name: "web", Tag: "blue", Address: web.LocalAddr().String(), Since: list[0].Since, Main: "web.json",
		Subscriptions: []server.SubscriptionInfo{{File: "a.json", Path: "/n", Told: told}, {File: "b.json"}, {File: "c.json"}},
		Watches:       1,
	}, list[0])
	require.Equal(t, 3, srv.Server.Stats().Connections)
	require.Equal(t, 2, srv.Server.Stats().Clients)

	other.Call(protocol.SetConfig, `{"filename":"a.json","contents":{"n":2}}`)
	web.Next()
	told = srv.Store.Snapshot().Node("a.json").Mtime(false)
	require.Equal(t, told, srv.Clients()[0].Subscriptions[0].Told)

	require.NoError(t, anonymous.Close())
	srv.Stop()
	require.Empty(t, srv.Clients())
	require.Error(t, srv.Live())
	require.Error(t, srv.Ready())
}
