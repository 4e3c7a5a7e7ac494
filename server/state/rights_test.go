package state

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/access/guard"
	"confcenter/access/guard/guardtest"
	"confcenter/protocol"
	"confcenter/server/gate/gatetest"
	"confcenter/server/loop"
)

// needed has for each command of the state store, with a body that names n/k, the rights that it
// needs: all of them, and no others. A command that is missing here fails the test.
var needed = map[protocol.Command][]struct{ body, rights string }{
	protocol.KVGet: {
		{`{"ns":"n","key":"k"}`, "read kv:n/k"},
		{`{"ns":"n","key":"k","rev":1}`, "read kv:n/k,history kv:n/k"},
		{`{"ns":"@conf","key":"k"}`, "history config,history roles,read kv:n/k"},
	},
	protocol.KVPut: {
		{`{"ns":"n","key":"k","value":"v"}`, "write kv:n/k"},
		{`{"ns":"n","key":"k","value":"v","prev":true}`, "write kv:n/k,read kv:n/k"},
		{`{"ns":"n","key":"k","value":"v","if_mod":1}`, "write kv:n/k,read kv:n/k"},
		{`{"ns":"n","key":"k","value":"v","lease":1}`, "write kv:n/k,lease kv"},
		{`{"ns":"n","key":"k","value":"v","if_fence":[{"ns":"n","key":"l","fence":1}]}`, "write kv:n/k,lock kv:n/l"},
	},
	protocol.KVDel: {
		{`{"ns":"n","key":"k"}`, "delete kv:n/k"},
		{`{"ns":"n","key":"k","prev":true}`, "delete kv:n/k,read kv:n/k"},
	},
	protocol.KVDelPrefix: {{`{"ns":"n","prefix":"k"}`, "delete kv:n/k*"}},
	protocol.KVDrop:      {{`{"ns":"n","confirm":"n"}`, "delete kv:n/*"}},
	protocol.KVList: {
		{`{"ns":"n","prefix":"k"}`, "read kv:n/k*"},
		{`{"ns":"n","count_only":true}`, "read kv:n/*"},
	},
	protocol.KVNames: {{`{}`, "read kv:n/k"}}, // and it lists none of which not everything may be read
	protocol.KVMGet:  {{`{"ns":"n","keys":["k","l"]}`, "read kv:n/k,read kv:n/l"}},
	protocol.KVTxn: {
		{`{"ns":"n","if":[{"key":"k","target":"version","is":"=","number":0}],"then":[{"op":"put","key":"l","value":"v"}],"else":[{"op":"get","key":"m"}]}`, "read kv:n/k,write kv:n/l,read kv:n/m"},
		{`{"ns":"n","then":[{"op":"incr","key":"k","max":1}]}`, "write kv:n/k,read kv:n/k"},
	},
	protocol.KVCas:       {{`{"ns":"n","key":"k","expect":{"value":"a"},"value":"b"}`, "write kv:n/k,read kv:n/k"}},
	protocol.KVIncr:      {{`{"ns":"n","key":"k"}`, "write kv:n/k,read kv:n/k"}},
	protocol.KVHistory:   {{`{"ns":"n","key":"k"}`, "history kv:n/k,read kv:n/k"}},
	protocol.KVRestore:   {{`{"ns":"n","key":"k","rev":1}`, "history kv:n/k,read kv:n/k,write kv:n/k"}},
	protocol.KVStat:      {{`{}`, "read status"}},
	protocol.KVLease:     {{`{"ttl":1000}`, "lease kv"}},
	protocol.KVAlive:     {{`{"lease":1}`, "lease kv"}},
	protocol.KVRevoke:    {{`{"lease":1}`, "lease kv"}},
	protocol.KVLeaseInfo: {{`{"lease":1}`, "lease kv"}},
	protocol.KVLock:      {{`{"ns":"n","key":"k","lease":1}`, "lock kv:n/k,read kv:n/k,lease kv"}},
	protocol.KVUnlock:    {{`{"ns":"n","key":"k","fence":1}`, "lock kv:n/k,read kv:n/k,lease kv"}},
}

func TestEachCommandNeedsTheRightsToWhatItNames(t *testing.T) {
	watches := []protocol.Command{protocol.KVWatch, protocol.KVUnwatch}
	for _, row := range protocol.Commands {
		if !row.ID.IsState() || row.Role != protocol.Served || row.ID == watches[0] || row.ID == watches[1] {
			continue
		}
		cases := needed[row.ID]
		require.NotEmpty(t, cases, "say what %s needs", row.Name)
		for _, c := range cases {
			rights := strings.Split(c.rights, ",")
			require.False(t, isForbidden(t, row.ID, c.body, guardtest.Caller(t, rights...)), "%s %s with %s", row.Name, c.body, c.rights)
			for i, without := range rights {
				if row.ID == protocol.KVNames { // any right to read is enough
					continue
				}
				if row.ID == protocol.KVGet && without == "read kv:n/k" && i > 0 && strings.Contains(c.body, "@conf") {
					continue // only to be let through to the handler
				}
				rest := append(append([]string{"*", "-" + without}, rights[:i]...), rights[i+1:]...)
				rest[0] = "* kv"
				require.True(t, isForbidden(t, row.ID, c.body, guardtest.Caller(t, rest...)), "%s %s without %s", row.Name, c.body, without)
			}
			require.True(t, isForbidden(t, row.ID, c.body, new(guard.Caller)), "%s %s", row.Name, c.body)
		}
	}
}

// isForbidden sends a request twice, so that it is also looked up together with another, and
// reports whether both were refused for want of a right.
func isForbidden(t *testing.T, cmd protocol.Command, body string, rights *guard.Caller) bool {
	s := newStateKit(t, loop.Limits{})
	s.Rights = rights
	s.Receive(gatetest.Requests(cmd, body, cmd, body))
	for range s.Bench.Group.Jobs() {
		s.Bench.Group.DoJob(0)
	}
	s.state.Finish(len(s.state.Held))
	gatetest.Sweep(s.Bench.Desk)
	s.Loop.Wake()
	answers := gatetest.Frames(t, s.w)
	count := 0
	for _, answer := range answers {
		if strings.Contains(answer, `"code":1025`) {
			count++
		}
		require.NotContains(t, answer, `"code":400`, "%s was not understood", body)
	}
	require.Contains(t, []int{0, 2}, count, "%v", answers)
	return count == 2
}

func TestOnlyNamespacesAreListedThatMayBeReadWholly(t *testing.T) {
	s := newStateKit(t, loop.Limits{})
	for _, ns := range []string{"a", "b", "c"} {
		s.Receive(gatetest.Requests(protocol.KVPut, `{"ns":"`+ns+`","key":"k","value":"v"}`))
		s.state.Finish(1)
	}
	s.Loop.Wake()
	gatetest.Frames(t, s.w)
	s.Rights = guardtest.Caller(t, "read kv:a", "read kv:b/k", "read kv:c", "-read kv:c/k")
	s.Receive(gatetest.Requests(protocol.KVNames, `{}`))
	s.Bench.Group.DoJob(0)
	gatetest.Sweep(s.Bench.Desk)
	s.Loop.Wake()
	got := gatetest.Frames(t, s.w)
	require.Contains(t, got[len(got)-1], `"namespaces":[{"ns":"a"`)
	require.NotContains(t, got[len(got)-1], `"ns":"b"`)
	require.NotContains(t, got[len(got)-1], `"ns":"c"`)
}
