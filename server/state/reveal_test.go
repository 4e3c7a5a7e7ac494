package state

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/access/guard"
	"confcenter/access/guard/guardtest"
	"confcenter/protocol"
	"confcenter/server/tcp/gate/gatetest"
	"confcenter/server/tcp/loop"
)

func TestASealedKeyIsRevealedToWhoAsksAndMayKnowIt(t *testing.T) {
	k := newStateKit(t, loop.Limits{})
	k.Bench.Ring = guardtest.Ring()
	ask := func(rights *guard.Caller, cmd protocol.Command, body string) string {
		k.Session.Rights = rights
		k.Session.Receive(gatetest.Requests(cmd, body))
		for range 3 { // what is read before, and what is revealed after
			for range k.Bench.Group.Jobs() {
				k.Bench.Group.DoJob(0)
			}
			k.state.Finish(len(k.state.Held))
			gatetest.Sweep(k.Bench.Local)
			k.Session.Loop.Wake()
		}
		got := strings.Join(gatetest.Frames(t, k.w), "\n")
		k.w.Got.Reset()
		return got
	}
	rest := guardtest.Caller(t, "* kv", "-reveal kv")
	for _, c := range []struct {
		cmd  protocol.Command
		body string
	}{
		{protocol.KVPut, `{"ns":"n","key":"k","type":"json","value":{"pw":{"$seal":"hunter2"}},"token":"t"}`},
		{protocol.KVPut, `{"ns":"n","key":"k","type":"json","value":{"pw":{"$seal":"hunter2"}},"token":"t"}`},
		{protocol.KVTxn, `{"ns":"n","then":[{"op":"put","key":"l","type":"json","value":{"$seal":"hunter2"}},{"op":"get","key":"l"}]}`},
		{protocol.KVGet, `{"ns":"n","key":"k"}`}, {protocol.KVGet, `{"ns":"n","key":"k","reveal":1}`}, {protocol.KVMGet, `{"ns":"n","keys":["k","l"]}`},
		{protocol.KVList, `{"ns":"n"}`}, {protocol.KVHistory, `{"ns":"n","key":"k"}`},
		{protocol.KVDel, `{"ns":"n","key":"l","prev":true}`},
	} {
		got := ask(rest, c.cmd, c.body)
		require.Contains(t, got, `"code":0`, c.body)
		require.NotContains(t, got, "hunter2", c.body)
	}
	require.Contains(t, ask(rest, protocol.KVGet, `{"ns":"n","key":"k"}`), `"version":1`, "the second request was the first one again")
	require.Contains(t, ask(rest, protocol.KVPut, `{"ns":"n","key":"k","type":"json","value":{"$seal":"other"},"token":"t"}`), `"code":1019`)
	may := guardtest.Caller(t, "read kv", "history kv", "reveal kv:n/k")
	require.Contains(t, ask(may, protocol.KVGet, `{"ns":"n","key":"k","reveal":1}`), `"value":{"pw":"hunter2"}`)
	require.NotContains(t, ask(may, protocol.KVGet, `{"ns":"n","key":"k"}`), "hunter2")
	require.Contains(t, ask(may, protocol.KVGet, `{"ns":"n","key":"none","reveal":1}`), `"code":404`)
	require.Contains(t, ask(rest, protocol.KVCas, `{"ns":"n","key":"k","expect":{"type":"json","value":{"$seal":"hunter2"}},"value":"b"}`), `"code":400`)
	require.Contains(t, ask(rest, protocol.KVLock, `{"ns":"n","key":"lock","lease":1,"type":"json","value":{"$seal":"hunter2"}}`), `"code":400`)
	require.Contains(t, ask(rest, protocol.KVIncr, `{"ns":"n","key":"k"}`), `"code":1016`)

	require.Contains(t, ask(rest, protocol.KVPut, `{"ns":"n","key":"s","value":"hunter2","seal":1}`), `"code":0`)
	require.Contains(t, ask(rest, protocol.KVPut, `{"ns":"n","key":"other","value":"hunter2","seal":1}`), `"code":0`)
	require.Contains(t, ask(rest, protocol.KVPut, `{"ns":"n","key":"s","type":"int","value":"hunter2","seal":1}`), `"code":1009`)
	require.Contains(t, ask(rest, protocol.KVIncr, `{"ns":"n","key":"n","seal":1}`), `"code":400`)
	may = guardtest.Caller(t, "* kv", "-reveal kv:n/other")
	for _, c := range []struct {
		cmd  protocol.Command
		body string
	}{
		{protocol.KVGet, `{"ns":"n","key":"s"`}, {protocol.KVMGet, `{"ns":"n","keys":["s","other"]`}, {protocol.KVList, `{"ns":"n","prefix":"s"`},
		{protocol.KVList, `{"ns":"n","prefix":"s","limit":1`}, {protocol.KVHistory, `{"ns":"n","key":"s"`},
		{protocol.KVTxn, `{"ns":"n","then":[{"op":"get","key":"s"},{"op":"get","key":"other"},{"op":"put","key":"other","value":"x","seal":1,"prev":1}]`},
		{protocol.KVPut, `{"ns":"n","key":"s","value":"hunter2","seal":1,"prev":1`}, {protocol.KVPut, `{"ns":"n","key":"s","value":"x","if_mod":1`},
		{protocol.KVCas, `{"ns":"n","key":"s","expect":null,"value":"x"`}, {protocol.KVRestore, `{"ns":"n","key":"s","rev":4,"prev":1`},
	} {
		got := ask(rest, c.cmd, c.body+`,"reveal":1}`)
		require.NotContains(t, got, "hunter2", c.body)
		got = ask(may, c.cmd, c.body+`}`)
		require.NotContains(t, got, "hunter2", c.body)
		got = ask(may, c.cmd, c.body+`,"reveal":1}`)
		require.Equal(t, 1, strings.Count(got, `"type":"string","value":"hunter2"`), "%s %s", c.body, got)
	}
}
