package state

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/access"
	"confcenter/access/guard"
	"confcenter/access/guard/guardtest"
	"confcenter/kv"
	"confcenter/protocol"
	"confcenter/server/tcp/gate/gatetest"
	"confcenter/server/tcp/loop"
)

// needed has for each command of the state store, with a body that names n/k, the rights that it
// needs: all of them, and no others. A command that is missing here fails the test.
var needed = map[protocol.Command][]struct{ body, rights string }{
	protocol.KVGet: {
		{`{"ns":"n","key":"k"}`, "read kv:n/k"},
		{`{"ns":"n","key":"k","rev":1}`, "read kv:n/k,history kv:n/k"},
		{`{"ns":"@conf","key":"k"}`, "history config,history roles,read config,read roles,read kv:n/k"},
		{`{"ns":"@conf","key":"doc/a.json"}`, "history config:a.json,read config:a.json,read kv:n/k"},
	},
	protocol.KVPut: {
		{`{"ns":"n","key":"k","value":"v"}`, "write kv:n/k"},
		{`{"ns":"n","key":"k","value":"v","prev":true}`, "write kv:n/k,read kv:n/k"},
		{`{"ns":"n","key":"k","value":"v","if_mod":1}`, "write kv:n/k,read kv:n/k"},
		{`{"ns":"n","key":"k","value":"v","lease":1}`, "write kv:n/k,lease kv:n/k"},
		{`{"ns":"n","key":"k","value":"v","if_fence":[{"ns":"n","key":"l","fence":1}]}`, "write kv:n/k,lock kv:n/l,read kv:n/l"},
	},
	protocol.KVDel: {
		{`{"ns":"n","key":"k"}`, "delete kv:n/k"},
		{`{"ns":"n","key":"k","prev":true}`, "delete kv:n/k,read kv:n/k"},
	},
	protocol.KVDelPrefix: {{`{"ns":"n","prefix":"k"}`, "delete kv:n/k*"}},
	protocol.KVDrop:      {{`{"ns":"n","confirm":"n"}`, "delete kv:n/*"}},
	protocol.KVList: {
		{`{"ns":"n","prefix":"k"}`, "read kv:n/k*"}, // or a part of it: see below
		{`{"ns":"n","count_only":true}`, "read kv:n/*"},
		{`{"ns":"@conf","prefix":"doc/a"}`, "history config:a*,read config:a*,read kv:n/k"},
	},
	protocol.KVNames: {{`{}`, "read kv:n/k"}}, // and it lists those in which something may be read
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
	protocol.KVLease:     {{`{"ttl":1000}`, anyLease}},
	protocol.KVAlive:     {{`{"lease":1}`, anyLease}}, // and only their owners use leases: see below
	protocol.KVRevoke:    {{`{"lease":1}`, anyLease}},
	protocol.KVLeaseInfo: {{`{"lease":1}`, anyLease}},
	protocol.KVLock:      {{`{"ns":"n","key":"k","lease":1}`, "lock kv:n/k,read kv:n/k"}},
	protocol.KVUnlock:    {{`{"ns":"n","key":"k","fence":1}`, "lock kv:n/k,read kv:n/k"}},
}

// anyLease is what is enough for leases: locks need them too.
const anyLease = "lease kv:x/y"

func TestEachCommandNeedsTheRightsToWhatItNames(t *testing.T) {
	watches := []protocol.Command{protocol.KVWatch, protocol.KVUnwatch}
	for _, row := range protocol.Commands {
		if !row.ID.IsState() || row.Role != protocol.Served || row.ID == watches[0] || row.ID == watches[1] {
			continue
		}
		cases := needed[row.ID]
		if row.Op.Follows() && cases == nil {
			body := map[bool]string{true: `{"ns":"n","key":"k","value":"v"}`, false: `{"ns":"n","key":"k"}`}[row.Op.Has(kv.MemberValue)]
			cases = append(cases, struct{ body, rights string }{body, map[bool]string{true: "write kv:n/k,read kv:n/k", false: "delete kv:n/k"}[row.Op.Sets()]})
		}
		require.NotEmpty(t, cases, "say what %s needs", row.Name)
		for _, c := range cases {
			rights := strings.Split(c.rights, ",")
			require.False(t, isForbidden(t, row.ID, c.body, guardtest.Caller(t, rights...)), "%s %s with %s", row.Name, c.body, c.rights)
			for i, without := range rights {
				if row.ID == protocol.KVNames { // any right to read is enough
					continue
				}
				if without == "read kv:n/k" && i > 0 && strings.Contains(c.body, "@conf") {
					continue // only to be let through to the handler
				}
				rest := append(append([]string{"*", "-" + without}, rights[:i]...), rights[i+1:]...)
				if rest[0] = "* kv"; without == anyLease {
					rest = append(rest, "-lease kv", "-lock kv")
				}
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
	gatetest.Sweep(s.Bench.Local)
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

// TestListsHaveWhatMayBeRead: on the loop and by a worker, and nothing tells of the rest.
func TestListsHaveWhatMayBeRead(t *testing.T) {
	s := newStateKit(t, loop.Limits{})
	for _, ns := range []string{"0", "a", "b", "c"} {
		for _, key := range []string{"h", "k"} {
			s.Receive(gatetest.Requests(protocol.KVPut, `{"ns":"`+ns+`","key":"`+key+`","value":"v"}`))
			s.state.Finish(1)
		}
	}
	s.Loop.Wake()
	gatetest.Frames(t, s.w)
	s.Rights = guardtest.Caller(t, "read kv:a", "read kv:b/k", "read kv:c", "-read kv:c/k", "-read kv:c/h")
	ask := func(cmd protocol.Command, body string) string {
		s.Receive(gatetest.Requests(cmd, body))
		for range s.Bench.Group.Jobs() {
			s.Bench.Group.DoJob(0)
		}
		gatetest.Sweep(s.Bench.Local)
		s.Loop.Wake()
		got := gatetest.Frames(t, s.w)
		return got[len(got)-1]
	}
	got := ask(protocol.KVNames, `{"limit":1}`)
	require.Contains(t, got, `"namespaces":[{"ns":"a","keys":2,`)
	require.Contains(t, got, `"more"`)
	got = ask(protocol.KVNames, `{"limit":1,"after":"a"}`)
	require.Contains(t, got, `"namespaces":[{"ns":"b","keys":1,"bytes":2}]`)
	require.NotContains(t, got, `"more"`)
	require.Contains(t, ask(protocol.KVList, `{"ns":"b","keys_only":1}`), `"keys":["k"],"count":1}`)
	require.Contains(t, ask(protocol.KVList, `{"ns":"b","limit":1,"keys_only":1}`), `"keys":["k"],"count":1}`)
	require.Contains(t, ask(protocol.KVList, `{"ns":"b","count_only":1}`), `"count":1}`)
	require.Contains(t, ask(protocol.KVList, `{"ns":"b","prefix":"h"}`), `"code":1025`)
}

// Ids of leases can be guessed. A client that may use leases may use its own.
func TestALeaseIsUsedByItsOwnerOnly(t *testing.T) {
	k := newStateKit(t, loop.Limits{})
	ask := func(who *access.Identity, cmd protocol.Command, body string) string {
		s, w := k.Peer(gatetest.Unlimited)
		s.Rights = guardtest.Caller(t, "* kv")
		s.Rights.Who = who
		s.Receive(gatetest.Requests(cmd, body))
		k.state.Finish(len(k.state.Held))
		var answers []string
		require.Eventually(t, func() bool { // the locks have a store that answers by itself
			k.Loop.Wake()
			answers = append(answers, gatetest.Frames(t, w)...)
			return len(answers) > 0
		}, 20*time.Second, time.Millisecond)
		return answers[0]
	}
	owner, root := &access.Identity{Name: "token:a"}, &access.Identity{Name: "token:root", Groups: []string{access.Administrators}}
	require.Contains(t, ask(owner, protocol.KVLease, `{"ttl":60000}`), `"lease":1`)
	for cmd, body := range map[protocol.Command]string{
		protocol.KVAlive: `{"lease":1}`, protocol.KVLeaseInfo: `{"lease":1}`, protocol.KVPut: `{"ns":"n","key":"k","value":"v","lease":1}`,
		protocol.KVRevoke: `{"lease":1}`, protocol.KVLock: `{"ns":"n","key":"l","lease":1}`, protocol.KVUnlock: `{"ns":"n","key":"l","lease":1}`,
	} {
		for _, other := range []*access.Identity{{Name: "token:b"}, nil} {
			if other == nil && cmd != protocol.KVAlive && cmd != protocol.KVLeaseInfo {
				continue // whose writes are judged by who they are
			}
			theirs, none := ask(other, cmd, body), ask(other, cmd, strings.Replace(body, `"lease":1`, `"lease":9`, 1))
			require.Equal(t, strings.ReplaceAll(none, "lease 9", "lease 1"), theirs, "as if there was none")
			if cmd != protocol.KVUnlock || !strings.Contains(theirs, `"code":0`) {
				require.Contains(t, theirs, "there is no lease 1", "%v", cmd)
			}
		}
		if cmd != protocol.KVRevoke {
			require.Contains(t, ask(owner, cmd, body), `"code":0`)
			require.Contains(t, ask(root, cmd, body), `"code":0`)
		}
	}
}
