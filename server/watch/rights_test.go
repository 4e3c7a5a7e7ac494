package watch

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/access/guard/guardtest"
	"confcenter/codes"
	"confcenter/kvstore/memory"
	"confcenter/protocol"
	"confcenter/server/tcp/gate/gatetest"
	"confcenter/server/tcp/loop"
)

func TestAWatchNeedsTheRightsToAllThatItTells(t *testing.T) {
	for _, c := range []struct{ body, rights string }{
		{`{"ns":"n","key":"k"}`, "watch kv:n/k,read kv:n/k"},
		{`{"ns":"n","prefix":"k"}`, "watch kv:n/k*,read kv:n/k*"},
		{`{"ns":"n"}`, "watch kv:n,read kv:n"},
		{`{"ns":"n","prefix":"k","state":true,"prev":true}`, "watch kv:n/k*,read kv:n/k*"},
		{`{"ns":"@conf"}`, "watch config,history config,read config,watch roles,history roles,read roles,watch kv:x"},
		{`{"ns":"@conf","prefix":"doc/a"}`, "watch config:a*,history config:a*,read config:a*,watch kv:x"},
		{`{"ns":"@storage/1"}`, "watch storage,read storage,watch kv:x"},
	} {
		k := newWatchKit(t, loop.Limits{}, memory.Config{}, nil)
		p := k.peer(gatetest.Unlimited)
		rights := strings.Split(c.rights, ",")
		for i, without := range rights {
			if without == "watch kv:x" {
				continue // only to be let through to the handler
			}
			rest := append([]string{"* kv:n", "* kv:x", "* roles", "-" + without}, append(append([]string{}, rights[:i]...), rights[i+1:]...)...)
			p.s.Rights = guardtest.Caller(t, rest...)
			p.refused(protocol.KVWatch, c.body, codes.Forbidden)
		}
		p.s.Rights = guardtest.Caller(t, "watch kv:other", "read kv:other")
		p.refused(protocol.KVWatch, c.body, codes.Forbidden)
		p.s.Rights = guardtest.Caller(t, rights...)
		p.send(protocol.KVWatch, c.body)
		require.Contains(t, string(p.take()[0].body), `"code":0`, c.body)
		k.stop()
	}
}

func TestAWatchOnDocumentsNeedsTheRightsToAllThatItTells(t *testing.T) {
	k := newDocKit(t, map[string]string{"a.json": `{"n":1}`})
	for _, c := range []struct{ body, rights string }{
		{`{"name":"a.json"}`, "watch config:a.json,read config:a.json"},
		{`{"prefix":"a","resolved":1,"state":1}`, "watch config:a*,read config:a*"},
		{`{"path":"/n"}`, "watch config,read config,watch roles,read roles"},
	} {
		rights := strings.Split(c.rights, ",")
		p := k.peer(gatetest.Unlimited)
		for i, without := range rights {
			p.s.Rights = guardtest.Caller(t, append([]string{"* config", "* roles", "-" + without}, append(append([]string{}, rights[:i]...), rights[i+1:]...)...)...)
			require.Contains(t, p.ask(protocol.CfWatch, c.body), `"code":1025`, "%s without %s", c.body, without)
		}
		p.s.Rights = guardtest.Caller(t, rights...)
		require.Contains(t, p.ask(protocol.CfWatch, c.body), `"code":0`, c.body)
	}
}
