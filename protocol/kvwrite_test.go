package protocol_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/kv"
	"confcenter/protocol"
)

// parsed is a body of the state store's, taken apart.
func parsed(t testing.TB, body string) *protocol.Request {
	t.Helper()
	var r protocol.Request
	require.NoError(t, r.ParseTailed([]byte(body)))
	return &r
}

func TestSmoke(t *testing.T) {
	w, err := parsed(t, `{"ns":"a","key":"k","raw":3,"ttl":1000,"if_mod":0,"token":"t","if_fence":{"key":"l","fence":7}}abc`).KVWrite(protocol.KVPut)
	require.NoError(t, err)
	require.NoError(t, w.Txn.Check())
	t.Logf("%+v", *w.Txn)
	cmd := protocol.KVWriteCommand(w.Txn)
	require.Equal(t, protocol.KVPut, cmd)
	body := protocol.AppendKVWrite(nil, cmd, w.Txn, true)
	t.Logf("%s", body)
	again, err := parsed(t, string(body)).KVWrite(cmd)
	require.NoError(t, err)
	require.Equal(t, w.Txn, again.Txn)
	e := &kv.Entry{NS: "a", Key: "k", Value: kv.BytesValue([]byte("xyz")), Create: 1, Mod: 2, Version: 2, Updated: 3}
	reply := w.AppendReply(nil, &kv.Result{Revision: 9, Ops: []kv.OpResult{{Entry: e}}})
	t.Logf("%s", reply)
	res, err := protocol.ParseKVResult(cmd, reply, w.Txn)
	require.NoError(t, err)
	require.Equal(t, e, res.Ops[0].Entry)
	ev := protocol.AppendKVEvents(nil, protocol.KVEvents{Watch: 7, Revision: 4, Events: []kv.Event{{Kind: kv.Put, Entry: e, Prev: e}}}, true, true)
	t.Logf("%s", ev)
}
