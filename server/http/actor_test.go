package http

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/access"
	"confcenter/kv"
)

// named is a state store that remembers who asked it.
type named struct {
	kv.Store
	by []*access.Actor
}

func (n *named) CommitEach(caller kv.Caller, writes []*kv.Write) (int, error) {
	for _, write := range writes {
		n.by = append(n.by, write.Txn.Actor)
	}
	return n.Store.CommitEach(caller, writes)
}

func TestWritersOfTheStoreAreNamed(t *testing.T) {
	var state *named
	k := start(t, func(_ *Config, s *Stores) {
		state = &named{Store: s.State}
		s.State = state
	})
	const key = "?ns=n&key=k"
	for _, request := range [][3]string{
		{"PUT", storeRoot + "key" + key, `{"value":"1"}`},
		{"POST", storeRoot + "incr" + key + "2", `{}`},
		{"POST", storeRoot + "cas" + key, `{"expect":{"value":"1"},"value":"2"}`},
		{"POST", storeRoot + "batch?ns=n", `{"items":[{"key":"k","value":"3"}]}`},
		{"POST", storeRoot + "txn", `{"then":[{"op":"get","ns":"n","key":"k"}]}`},
		{"POST", storeRoot + "restore" + key, `{"revision":1}`},
		{"DELETE", storeRoot + "key" + key, ""},
		{"DELETE", storeRoot + "namespace?ns=n&confirm=n", ""},
		{"PUT", plumRoot + "/n/k", `{"value":"1"}`},
		{"POST", plumRoot + "/n/batch", `{"items":[{"key":"k","value":"1"}]}`},
		{"DELETE", plumRoot + "/n/k", ""},
	} {
		state.by = nil
		answer := k.do(request[0], request[1], request[2], "User-Agent: root")
		require.Less(t, answer.status, 300, "%v: %s", request, answer.body)
		require.Len(t, state.by, 1, request)
		requireOverHTTP(t, state.by[0])
	}
}

// A path without a right would be open to everyone.
func TestEveryRouteNamesItsRight(t *testing.T) {
	for _, rt := range start(t, nil).table {
		require.True(t, rt.right.Known(), rt.name)
		require.NotEqual(t, access.Nobody, rt.right, rt.name)
		for _, use := range rt.uses {
			require.True(t, use.right.Known(), use.name)
		}
		for _, method := range rt.allowed() {
			if method != http.MethodGet && !strings.HasPrefix(rt.name, "session.") { // by which people come to have rights
				require.NotEqual(t, access.Anyone, rt.right, rt.name)
			}
		}
	}
}
