package integration

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/internal/servertest"
	"confcenter/protocol"
)

// kvBody splits a body of the state store into its JSON object and the octets after it.
func kvBody(t testing.TB, body string) (members map[string]any, tail string) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(body))
	d.UseNumber()
	require.NoError(t, d.Decode(&members), body)
	return members, body[d.InputOffset():]
}

// kvHas requires that body has at least the members of want, a JSON object, with those
// values; null requires a member that is null, "absent" that there is none.
func kvHas(t testing.TB, want, body string) {
	t.Helper()
	expected, _ := kvBody(t, want)
	got, _ := kvBody(t, body)
	for name, value := range expected {
		found, ok := got[name]
		if value == "absent" {
			require.False(t, ok, "%s in %s", name, body)
			continue
		}
		require.True(t, ok, "no %s in %s", name, body)
		kvSame(t, name, value, found, body)
	}
}

// kvSame compares the members of want, at any depth; arrays must have the same length.
func kvSame(t testing.TB, where string, want, got any, body string) {
	t.Helper()
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		require.True(t, ok, "%s is no object in %s", where, body)
		for name := range w {
			require.Contains(t, g, name, body)
			kvSame(t, where+"."+name, w[name], g[name], body)
		}
	case []any:
		g, ok := got.([]any)
		require.True(t, ok, "%s is no array in %s", where, body)
		require.Len(t, g, len(w), "%s in %s", where, body)
		for i := range w {
			kvSame(t, fmt.Sprintf("%s[%d]", where, i), w[i], g[i], body)
		}
	default:
		require.Equal(t, want, got, "%s in %s", where, body)
	}
}

// kvExpect sends a request and compares its reply by kvHas.
func kvExpect(t testing.TB, p *servertest.Peer, cmd protocol.Command, body, want string) {
	t.Helper()
	kvHas(t, want, p.Call(cmd, body))
}

// kvStep is one request of a conversation and what its reply must have.
type kvStep struct {
	cmd        protocol.Command
	body, want string
}

func TestKVCommandsOneByOne(t *testing.T) {
	p := peer(t, start(t, servertest.Options{}))
	for _, step := range []kvStep{
		{protocol.KVGet, `{"ns":"n","key":"a"}`, `{"code":404,"rev":0}`},
		{protocol.KVPut, `{"ns":"n","key":"a","value":"x"}`, `{"code":0,"rev":1,"create":1,"mod":1,"version":1}`},
		{protocol.KVGet, `{"ns":"n","key":"a"}`, `{"code":0,"rev":1,"type":"string","value":"x","create":1,"mod":1,"version":1,"expires":"absent"}`},
		{protocol.KVPut, `{"ns":"n","key":"a","value":"y","prev":1}`, `{"code":0,"rev":2,"create":1,"mod":2,"version":2,"prev":{"value":"x","mod":1}}`},
		{protocol.KVPut, `{"ns":"n","key":"new","value":1,"prev":1}`, `{"code":0,"rev":3,"prev":null}`},
		{protocol.KVPut, `{"ns":"n","key":"a","value":"z","if_mod":1}`, `{"code":412,"rev":3,"current":{"value":"y","mod":2}}`},
		{protocol.KVPut, `{"ns":"n","key":"b","value":"z","if_mod":7}`, `{"code":412,"current":null}`},
		{protocol.KVPut, `{"ns":"n","key":"b","value":1.5,"if_mod":0}`, `{"code":0,"rev":4}`},
		{protocol.KVPut, `{"ns":"n","key":"c","value":true}`, `{"code":0,"rev":5}`},
		{protocol.KVPut, `{"ns":"n","key":"d","value":{"a": [1]}}`, `{"code":0,"rev":6}`},
		{protocol.KVPut, `{"ns":"other/ns","key":"e f#.","type":"bytes","value":"AP8="}`, `{"code":0,"rev":7}`},
		{protocol.KVGet, `{"ns":"other/ns","key":"e f#."}`, `{"code":0,"type":"bytes","value":"AP8="}`},
		{protocol.KVGet, `{"ns":"n","key":"a","rev":1}`, `{"code":0,"value":"x","mod":1}`},
		{protocol.KVGet, `{"ns":"n","key":"b","rev":1}`, `{"code":404}`},
		{protocol.KVGet, `{"ns":"n","key":"a","min_rev":7}`, `{"code":0,"rev":7}`},
		{protocol.KVMGet, `{"ns":"n","keys":["a","nope","c"]}`, `{"code":0,"rev":7,"entries":[{"key":"a","value":"y"},null,{"key":"c","type":"bool"}]}`},
		{protocol.KVList, `{"ns":"n"}`, `{"code":0,"rev":7,"entries":[{"key":"a"},{"key":"b","type":"double"},{"key":"c"},{"key":"d"},{"key":"new","type":"int"}]}`},
		{protocol.KVList, `{"ns":"n","limit":2,"keys_only":1}`, `{"code":0,"keys":["a","b"],"more":1}`},
		{protocol.KVList, `{"ns":"n","after":"c","limit":2,"keys_only":1}`, `{"code":0,"keys":["d","new"]}`},
		{protocol.KVList, `{"ns":"n","count_only":1}`, `{"code":0,"count":5}`},
		{protocol.KVList, `{"ns":"n","prefix":"ne"}`, `{"code":0,"entries":[{"key":"new"}]}`},
		{protocol.KVNames, `{}`, `{"code":0,"rev":7,"namespaces":[{"ns":"n","keys":5},{"ns":"other/ns","keys":1}]}`},
		{protocol.KVNames, `{"limit":1}`, `{"code":0,"namespaces":[{"ns":"n"}],"more":1}`},
		{protocol.KVHistory, `{"ns":"n","key":"a"}`, `{"code":0,"versions":[{"value":"y","version":2},{"value":"x","version":1}]}`},
		{protocol.KVHistory, `{"ns":"n","key":"a","limit":1}`, `{"code":0,"versions":[{"value":"y"}],"more":1}`},
		{protocol.KVHistory, `{"ns":"n","key":"a","before":2}`, `{"code":0,"versions":[{"value":"x"}]}`},
		{protocol.KVRestore, `{"ns":"n","key":"a","rev":1}`, `{"code":0,"rev":8,"version":3}`},
		{protocol.KVGet, `{"ns":"n","key":"a"}`, `{"code":0,"value":"x","version":3}`},
		{protocol.KVCas, `{"ns":"n","key":"a","expect":{"value":"x"},"value":"q"}`, `{"code":0,"rev":9}`},
		{protocol.KVCas, `{"ns":"n","key":"a","expect":{"value":"x"},"value":"q"}`, `{"code":412,"current":{"value":"q"}}`},
		{protocol.KVCas, `{"ns":"n","key":"fresh","expect":null,"value":"q"}`, `{"code":0,"rev":10}`},
		{protocol.KVIncr, `{"ns":"n","key":"count"}`, `{"code":0,"rev":11,"value":"1"}`},
		{protocol.KVIncr, `{"ns":"n","key":"count","by":5,"max":6}`, `{"code":0,"value":"6"}`},
		{protocol.KVTxn, `{"ns":"n","if":[{"key":"count","target":"value","op":"=","type":"int","value":"6"}],` +
			`"then":[{"op":"put","key":"t1","value":"1"},{"op":"get","key":"t1"},{"op":"delete","ns":"other/ns","key":"e f#."},{"op":"incr","key":"count"}],"else":[{"op":"get","key":"count"}]}`,
			`{"code":0,"rev":13,"held":1,"results":[{"mod":13},{"value":"1"},{"deleted":1},{"value":"7"}]}`},
		{protocol.KVTxn, `{"ns":"n","if":[{"key":"count","target":"version","op":"=","number":0}],"then":[{"op":"delete","key":"count"}],"else":[{"op":"get","key":"count"}]}`,
			`{"code":0,"rev":13,"held":0,"results":[{"value":"7"}]}`},
		{protocol.KVDel, `{"ns":"n","key":"t1","prev":1}`, `{"code":0,"rev":14,"deleted":1,"prev":{"value":"1"}}`},
		{protocol.KVDel, `{"ns":"n","key":"t1"}`, `{"code":0,"deleted":0}`},
		{protocol.KVDelPrefix, `{"ns":"n","prefix":"ne"}`, `{"code":0,"deleted":1}`},
		{protocol.KVDrop, `{"ns":"n"}`, `{"code":1026,"desc":"deleting all keys of namespace \"n\" must be confirmed: give the name of the namespace again as confirm; nothing was deleted (keys in the namespace: 6)"}`},
		{protocol.KVDelPrefix, `{"ns":"n","prefix":"","confirm":"other/ns"}`, `{"code":1026}`},
		{protocol.KVTxn, `{"ns":"n","then":[{"op":"delete","key":"a"},{"op":"delete_prefix","prefix":""}]}`, `{"code":1026}`},
		{protocol.KVDrop, `{"ns":"n","confirm":"n"}`, `{"code":0,"deleted":6}`},
		{protocol.KVList, `{"ns":"n"}`, `{"code":0,"entries":[]}`},
		{protocol.KVNames, `{}`, `{"code":0,"namespaces":[]}`},
		{protocol.KVStat, `{}`, `{"code":0}`},
	} {
		t.Log(step.cmd, step.body)
		kvExpect(t, p, step.cmd, step.body, step.want)
	}
}

func TestKVLeases(t *testing.T) {
	p := peer(t, start(t, servertest.Options{}))
	granted, _ := kvBody(t, p.Call(protocol.KVLease, `{"ttl":60000}`))
	lease := granted["lease"].(json.Number)
	with := func(format string) string { return fmt.Sprintf(format, lease) }
	for _, step := range []kvStep{
		{protocol.KVPut, with(`{"ns":"n","key":"a","value":"x","lease":%s}`), with(`{"code":0,"lease":%s}`)},
		{protocol.KVPut, with(`{"ns":"n","key":"b","value":"x","lease":%s}`), `{"code":0}`},
		{protocol.KVGet, `{"ns":"n","key":"a"}`, with(`{"code":0,"lease":%s}`)},
		{protocol.KVAlive, with(`{"lease":%s}`), with(`{"code":0,"lease":%s,"ttl":60000}`)},
		{protocol.KVLeaseInfo, with(`{"lease":%s}`), with(`{"code":0,"lease":%s,"ttl":60000,"keys":2}`)},
		{protocol.KVRevoke, with(`{"lease":%s}`), `{"code":0,"deleted":2}`},
		{protocol.KVGet, `{"ns":"n","key":"a"}`, `{"code":404}`},
		{protocol.KVAlive, with(`{"lease":%s}`), `{"code":1021}`},
		{protocol.KVLeaseInfo, with(`{"lease":%s}`), `{"code":1021}`},
		{protocol.KVRevoke, with(`{"lease":%s}`), `{"code":1021}`},
		{protocol.KVPut, with(`{"ns":"n","key":"a","value":"x","lease":%s}`), `{"code":1021}`},
	} {
		kvExpect(t, p, step.cmd, step.body, step.want)
	}
}

// A write that does not come from the holder would let the lock outlive its lease, or change hands unseen.
func TestALockIsWrittenOnlyByItsHolder(t *testing.T) {
	srv := start(t, servertest.Options{})
	p := peer(t, srv)
	for i := range 2 { // a lease is its revision
		granted, _ := kvBody(t, p.Call(protocol.KVLease, `{"ttl":60000}`))
		require.Equal(t, json.Number(fmt.Sprint(i+1)), granted["lease"])
	}
	kvExpect(t, p, protocol.KVPut, `{"ns":"n","key":"free","value":"old"}`, `{"code":0,"rev":3}`)
	kvExpect(t, p, protocol.KVPut, `{"ns":"n","key":"web","value":"1","lease":1}`, `{"code":0}`)
	kvExpect(t, p, protocol.KVLock, `{"ns":"n","key":"job","lease":1,"value":"worker 3"}`, `{"code":0,"granted":1,"fence":5}`)
	for range 2 {
		for _, c := range []kvStep{
			{protocol.KVPut, `{"ns":"n","key":"job","value":"mine"}`, ""},
			{protocol.KVPut, `{"ns":"n","key":"job","value":"mine","lease":2}`, ""},
			{protocol.KVPut, `{"ns":"n","key":"job","value":"mine","ttl":1000}`, ""},
			{protocol.KVPut, `{"ns":"n","key":"job","value":"mine","if_mod":5}`, ""},
			{protocol.KVPut, `{"ns":"n","key":"job","value":"mine","token":"t"}`, ""},
			{protocol.KVCas, `{"ns":"n","key":"job","expect":{"value":"worker 3"},"value":"mine"}`, ""},
			{protocol.KVRestore, `{"ns":"n","key":"job","rev":5}`, ""},
			{protocol.KVIncr, `{"ns":"n","key":"job","lease":2}`, ""},
			{protocol.KVTxn, `{"ns":"n","then":[{"op":"put","key":"free","value":"new"},{"op":"put","key":"job","value":"mine"}]}`, ""},
			{protocol.KVTxn, `{"ns":"n","if":[{"key":"job","target":"version","op":"=","number":0}],"else":[{"op":"put","key":"job","value":"mine"}]}`, ""},
		} {
			kvExpect(t, p, c.cmd, c.body, `{"code":1023,"current":{"type":"string","value":"worker 3","create":5,"lease":1}}`)
			require.Contains(t, p.Call(c.cmd, c.body), `held by \"worker 3\" since revision 5`, c.body)
		}
		kvExpect(t, p, protocol.KVGet, `{"ns":"n","key":"free"}`, `{"value":"old"}`)
		kvExpect(t, p, protocol.KVGet, `{"ns":"n","key":"job"}`, `{"value":"worker 3","create":5,"version":1,"lease":1}`)
		srv.Restart()
		p = peer(t, srv)
	}
	kvExpect(t, p, protocol.KVPut, `{"ns":"n","key":"web","value":"2"}`, `{"code":0,"lease":"absent"}`) // no lock: it leaves its lease, as always
	kvExpect(t, p, protocol.KVPut, `{"ns":"n","key":"job","value":"at 50 %","if_fence":{"key":"job","fence":5}}`, `{"code":0,"lease":1}`)
	kvExpect(t, p, protocol.KVPut, `{"ns":"n","key":"job","value":"at 60 %","lease":1}`, `{"code":0,"lease":1}`)
	kvExpect(t, p, protocol.KVPut, `{"ns":"n","key":"job","value":"mine","if_fence":{"key":"job","fence":4}}`, `{"code":1020}`)
	kvExpect(t, p, protocol.KVPut, `{"ns":"n","key":"job","value":"mine"}`, `{"code":1023,"current":{"value":"at 60 %"}}`)
	kvExpect(t, p, protocol.KVPut, `{"ns":"n","key":"job","value":"handed on","lease":2,"if_fence":{"key":"job","fence":5}}`, `{"code":0,"lease":2}`)
	kvExpect(t, p, protocol.KVPut, `{"ns":"n","key":"job","value":"mine","lease":1}`, `{"code":1023}`)
	kvExpect(t, p, protocol.KVDel, `{"ns":"n","key":"job"}`, `{"code":0,"deleted":1}`) // as always, too: a person has to be able to
	kvExpect(t, p, protocol.KVPut, `{"ns":"n","key":"job","value":"mine"}`, `{"code":0}`)
}

func TestKVTokensApplyAWriteOnce(t *testing.T) {
	p := peer(t, start(t, servertest.Options{}))
	const incr = `{"ns":"n","key":"a","token":"t1"}`
	kvExpect(t, p, protocol.KVIncr, incr, `{"code":0,"rev":1,"value":"1"}`)
	kvExpect(t, p, protocol.KVIncr, incr, `{"code":0,"rev":1,"value":"1"}`)
	kvExpect(t, p, protocol.KVIncr, `{"ns":"n","key":"a","by":2,"token":"t1"}`, `{"code":1019}`)
	kvExpect(t, p, protocol.KVIncr, `{"ns":"m","key":"a","token":"t1"}`, `{"code":0,"rev":2,"value":"1"}`)
	kvExpect(t, p, protocol.KVGet, `{"ns":"n","key":"a"}`, `{"value":"1"}`)
}

func TestKVSurvivesARestart(t *testing.T) {
	srv := start(t, servertest.Options{})
	p := peer(t, srv)
	kvExpect(t, p, protocol.KVPut, `{"ns":"n","key":"a","value":"x","token":"t"}`, `{"code":0,"rev":1}`)
	kvExpect(t, p, protocol.KVPut, `{"ns":"n","key":"a","value":"y"}`, `{"code":0,"rev":2}`)
	srv.Restart()
	p = peer(t, srv)
	kvExpect(t, p, protocol.KVGet, `{"ns":"n","key":"a"}`, `{"code":0,"rev":2,"value":"y","create":1,"version":2}`)
	kvExpect(t, p, protocol.KVPut, `{"ns":"n","key":"a","value":"x","token":"t"}`, `{"code":0,"rev":1}`)
	kvExpect(t, p, protocol.KVGet, `{"ns":"n","key":"a","rev":1}`, `{"code":0,"value":"x"}`)
	kvExpect(t, p, protocol.KVPut, `{"ns":"n","key":"b","value":"z"}`, `{"code":0,"rev":3}`)
}

func TestKVOctetsTravelBehindTheObject(t *testing.T) {
	p := peer(t, start(t, servertest.Options{}))
	octets := "}{\x00\xff\"\r\n\\"
	call := func(cmd protocol.Command, body, want, tail string) {
		t.Helper()
		answer := p.Call(cmd, body)
		kvHas(t, want, answer)
		_, rest := kvBody(t, answer)
		require.Equal(t, tail, rest, answer)
	}
	n := len(octets)
	call(protocol.KVPut, fmt.Sprintf(`{"ns":"n","key":"a","raw":%d}%s`, n, octets), `{"code":0}`, "")
	call(protocol.KVGet, `{"ns":"n","key":"a","raw":1}`, fmt.Sprintf(`{"code":0,"type":"bytes","raw":%d,"value":"absent"}`, n), octets)
	call(protocol.KVGet, `{"ns":"n","key":"a"}`, `{"code":0,"type":"bytes","raw":"absent"}`, "")
	call(protocol.KVTxn, fmt.Sprintf(`{"ns":"n","then":[{"op":"put","key":"b","raw":2},{"op":"put","key":"c","value":"s"},{"op":"put","key":"d","raw":0},{"op":"get","key":"a"},{"op":"put","key":"e","raw":1}],"raw":1}%s`, "B\x00E"),
		fmt.Sprintf(`{"code":0,"results":[{"version":1},{},{},{"raw":%d},{}]}`, n), octets)
	call(protocol.KVMGet, `{"ns":"n","keys":["e","c","b","d"],"raw":1}`, `{"entries":[{"raw":1},{"value":"s"},{"raw":2},{"raw":0}]}`, "EB\x00")
	call(protocol.KVList, `{"ns":"n","raw":1}`, fmt.Sprintf(`{"entries":[{"raw":%d},{"raw":2},{"value":"s"},{"raw":0},{"raw":1}]}`, n), octets+"B\x00E")
	call(protocol.KVPut, `{"ns":"n","key":"b","raw":1,"prev":1}x`, `{"code":0,"prev":{"raw":2}}`, "B\x00")
	for _, body := range []string{
		`{"ns":"n","key":"z","raw":3}ab`, `{"ns":"n","key":"z","raw":1}ab`, `{"ns":"n","key":"z","raw":-1}`, `{"ns":"n","key":"z","value":"v"}x`,
		`{"ns":"n","key":"z","raw":1,"value":"v"}x`, `{"ns":"n","key":"z","raw":1,"type":"string"}x`, `{"ns":"n","key":"z","raw":9223372036854775807}ab`,
	} {
		reply, _ := kvBody(t, p.Call(protocol.KVPut, body))
		require.NotEqual(t, json.Number("0"), reply["code"], body)
	}
	call(protocol.KVGet, `{"ns":"n","key":"z"}`, `{"code":404}`, "")
}

func TestKVBadInputEachGetsItsCodeAndNothingIsApplied(t *testing.T) {
	p := peer(t, start(t, servertest.Options{}))
	kvExpect(t, p, protocol.KVPut, `{"ns":"n","key":"text","value":"x"}`, `{"code":0,"rev":1}`)
	kvExpect(t, p, protocol.KVPut, `{"ns":"n","key":"max","value":9223372036854775807}`, `{"code":0,"rev":2}`)
	long := strings.Repeat("k", 1025)
	ops := strings.TrimSuffix(strings.Repeat(`{"op":"put","key":"k","value":"v"},`, 4097), ",")
	keys := strings.TrimSuffix(strings.Repeat(`"k",`, 1001), ",")
	for _, c := range []struct {
		name string
		cmd  protocol.Command
		body string
		code int
		text string
	}{
		{"not JSON", protocol.KVPut, `{"ns":`, 1001, "json"},
		{"no object", protocol.KVPut, `[1]`, 1001, "object"},
		{"unknown type", protocol.KVPut, `{"ns":"n","key":"k","type":"text","value":"v"}`, 1008, "type"},
		{"unfit int", protocol.KVPut, `{"ns":"n","key":"k","type":"int","value":"v"}`, 1009, "int"},
		{"unfit base64", protocol.KVPut, `{"ns":"n","key":"k","type":"bytes","value":"***"}`, 1009, "base64"},
		{"value too large", protocol.KVPut, `{"ns":"n","key":"k","value":"` + strings.Repeat("v", 1<<20+1) + `"}`, 413, "1048576"},
		{"empty key", protocol.KVPut, `{"ns":"n","key":"","value":"v"}`, 1010, "key"},
		{"control character", protocol.KVPut, `{"ns":"n","key":"a\u0001","value":"v"}`, 1010, "control"},
		{"empty namespace", protocol.KVPut, `{"ns":"","key":"k","value":"v"}`, 1010, "namespace"},
		{"long key", protocol.KVPut, `{"ns":"n","key":"` + long + `","value":"v"}`, 1011, "1024"},
		{"long key to get", protocol.KVGet, `{"ns":"n","key":"` + long + `"}`, 1011, "1024"},
		{"empty key to get", protocol.KVGet, `{"ns":"n","key":""}`, 1010, "key"},
		{"long namespace", protocol.KVPut, `{"ns":"` + long[:257] + `","key":"k","value":"v"}`, 1011, "256"},
		{"long token", protocol.KVPut, `{"ns":"n","key":"k","value":"v","token":"` + long[:129] + `"}`, 1011, "128"},
		{"long prefix", protocol.KVList, `{"ns":"n","prefix":"` + long + `"}`, 1011, "1024"},
		{"too many operations", protocol.KVTxn, `{"ns":"n","then":[` + ops + `]}`, 1012, "4096"},
		{"too many keys", protocol.KVMGet, `{"ns":"n","keys":[` + keys + `]}`, 1012, "1000"},
		{"negative ttl", protocol.KVPut, `{"ns":"n","key":"k","value":"v","ttl":-1}`, 1013, "ttl"},
		{"no ttl", protocol.KVPut, `{"ns":"n","key":"k","value":"v","ttl":0}`, 1013, "leave it out"},
		{"no ttl and expires", protocol.KVPut, `{"ns":"n","key":"k","value":"v","ttl":0,"expires":1}`, 1013, "leave it out"},
		{"no ttl of a count", protocol.KVIncr, `{"ns":"n","key":"k","ttl":0}`, 1013, "leave it out"},
		{"no ttl of a swap", protocol.KVCas, `{"ns":"n","key":"k","expect":null,"value":"v","ttl":0}`, 1013, "leave it out"},
		{"no ttl of a restored key", protocol.KVRestore, `{"ns":"n","key":"text","rev":1,"ttl":0}`, 1013, "leave it out"},
		{"no ttl in a transaction", protocol.KVTxn, `{"ns":"n","then":[{"op":"put","key":"k","value":"v","ttl":0}]}`, 1013, "leave it out"},
		{"no ttl of a lease", protocol.KVLease, `{"ttl":0}`, 1013, ""},
		{"endless ttl", protocol.KVPut, `{"ns":"n","key":"k","value":"v","ttl":3153600000001}`, 1013, "3153600000000"},
		{"ttl and expires", protocol.KVPut, `{"ns":"n","key":"k","value":"v","ttl":1,"expires":1}`, 1013, "expires"},
		{"short lease", protocol.KVLease, `{"ttl":99}`, 1013, "100ms"},
		{"overflow", protocol.KVIncr, `{"ns":"n","key":"max"}`, 1014, ""},
		{"out of bounds", protocol.KVIncr, `{"ns":"n","key":"max","by":-1,"max":5}`, 1015, "5"},
		{"increment of a text", protocol.KVIncr, `{"ns":"n","key":"text"}`, 1016, "string"},
		{"revision in the future", protocol.KVGet, `{"ns":"n","key":"text","rev":99}`, 1017, "99"},
		{"min_rev in the future", protocol.KVGet, `{"ns":"n","key":"text","min_rev":99}`, 1017, "99"},
		{"list of the future", protocol.KVList, `{"ns":"n","min_rev":99}`, 1017, "99"},
		{"restore of the future", protocol.KVRestore, `{"ns":"n","key":"text","rev":99}`, 1017, "99"},
		{"restore of what was not", protocol.KVRestore, `{"ns":"n","key":"max","rev":1}`, 404, "restore"},
		{"fence of nobody", protocol.KVPut, `{"ns":"n","key":"k","value":"v","if_fence":{"key":"lock","fence":1}}`, 1020, ""},
		{"no such lease", protocol.KVPut, `{"ns":"n","key":"k","value":"v","lease":77}`, 1021, "77"},
		{"lock without a lease", protocol.KVLock, `{"ns":"n","key":"lock"}`, 400, "lease"},
		{"lock with a lease that is not", protocol.KVLock, `{"ns":"n","key":"lock","lease":77}`, 1021, "77"},
		{"unlock of nothing", protocol.KVUnlock, `{"ns":"n","key":"lock","fence":1}`, 1020, ""},
		{"no such operation", protocol.KVTxn, `{"ns":"n","then":[{"op":"put","key":"k","value":"v"},{"op":"burn"}]}`, 402, "burn"},
		{"one bad operation", protocol.KVTxn, `{"ns":"n","then":[{"op":"put","key":"k","value":"v"},{"op":"incr","key":"text"}]}`, 1016, "string"},
		{"ttl that is a text", protocol.KVPut, `{"ns":"n","key":"k","value":"v","ttl":"soon"}`, 400, "ttl"},
	} {
		t.Run(c.name, func(t *testing.T) {
			answer := p.Call(c.cmd, c.body)
			kvHas(t, fmt.Sprintf(`{"code":%d}`, c.code), answer)
			reply, _ := kvBody(t, answer)
			require.NotEmpty(t, reply["desc"])
			require.Contains(t, reply["desc"], c.text)
			kvExpect(t, p, protocol.KVGet, `{"ns":"n","key":"k"}`, `{"code":404,"rev":2}`)
		})
	}
}
