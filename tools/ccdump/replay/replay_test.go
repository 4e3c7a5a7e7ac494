package replay

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"confcenter/protocol"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestCompare(t *testing.T) {
	for _, one := range []struct {
		cmd            protocol.Command
		old, now, want string
	}{
		{protocol.GetConfig, `{"code":0,"mtime":5,"contents":{"a":1.50}}`, `{"mtime":9,"contents":{"a":1.50},"code":0}`, ""},
		{protocol.GetConfig, `{"code":0,"contents":{"a":1.50}}`, `{"code":0,"contents":{"a":1.5}}`, "contents.a is 1.5, in the capture 1.50"},
		{protocol.GetConfig, `{"code":0,"mtime":5,"contents":null}`, `{"code":0,"mtime":0,"contents":null}`, "mtime is 0, in the capture 5"},
		{protocol.GetConfig, `{"code":0,"contents":{"mtime":1}}`, `{"code":0,"contents":{"mtime":2}}`, "contents.mtime is 2, in the capture 1"},
		{protocol.GetConfig, `1`, `{"code":0}`, `the body is {"code":0}, in the capture 1`},
		{protocol.GetConfig, `{"code":0}`, `{"code":404,"desc":"x"}`, "code is 404, in the capture 0"},
		{protocol.GetConfig, `{"code":0}`, `{"code":0,"deleted":1}`, "deleted is 1, not there in the capture"},
		{protocol.GetConfig, `{"code":0,"deleted":1}`, `{"code":0}`, "deleted is not there, in the capture 1"},
		{protocol.GetConfig, `not JSON`, `{}`, `the body is {}, in the capture "not JSON"`},
		{protocol.GetCfgName, `{"mtime":[1,5]}`, `{"mtime":[1,6]}`, ""},
		{protocol.GetCfgName, `{"a":[1,5]}`, `{"a":[0,6]}`, "a[0] is 0, in the capture 1"},
		{protocol.GetCfgName, `{"a":[1,5]}`, `{}`, "a is not there, in the capture [1,5]"},
		{protocol.GetCfgName, `{"code":0,"data":[{"name":"a","mtime":1}]}`, `{"code":0,"data":[{"name":"a","mtime":2}]}`, ""},
		{protocol.GetCli, `{"code":0,"data":[{"svrname":"a","fd":"1"},{"svrname":"b","fd":"2"}]}`, `{"code":0,"data":[{"svrname":"b","fd":"7"},{"svrname":"a","fd":"8"}]}`, ""},
		{protocol.GetCli, `{"code":0,"data":[{"svrname":"a"}]}`, `{"code":0,"data":[]}`, "data has 0 elements, in the capture 1"},
		{protocol.GetLogr, `{"code":0,"data":["x"]}`, `{"code":0,"data":[]}`, ""},
		{protocol.KVStat, `{"code":0,"keys":1}`, `{"code":501}`, "the body is 501, in the capture 0"},
		{protocol.KVGet, `{"code":0,"rev":3,"value":"x","mod":1,"version":1}`, `{"code":0,"rev":9,"value":"x","mod":7,"version":1}`, ""},
		{protocol.KVGet, `{"code":0,"version":1}`, `{"code":0,"version":2}`, "version is 2, in the capture 1"},
		{protocol.KVGet, `{"code":0,"raw":1}a`, `{"code":0,"raw":1}b`, `the octets behind the JSON are "b", in the capture "a"`},
		{protocol.KVList, `{"entries":[{"value":{"mod":1},"mod":4}]}`, `{"entries":[{"value":{"mod":2},"mod":5}]}`, "entries[0].value.mod is 2, in the capture 1"},
		{protocol.StGet, `{"code":0,"fields":{"rev":"1"},"versions":{"rev":1700000000000001}}`, `{"code":0,"fields":{"rev":"1"},"versions":{"rev":1800000000000005}}`, ""},
		{protocol.StGet, `{"code":0,"fields":{"rev":"1"}}`, `{"code":0,"fields":{"rev":"2"}}`, `fields.rev is "2", in the capture "1"`},
		{protocol.StUpdate, `{"code":412,"versions":{"a":7}}`, `{"code":412,"versions":{"a":0}}`, "versions.a is 0, in the capture 7"},
		{protocol.StIncr, `{"code":0,"rev":5,"values":{"n":3},"prev":{"fields":{"n":"2"},"versions":{"n":6}}}`, `{"code":0,"rev":9,"values":{"n":3},"prev":{"fields":{"n":"2"},"versions":{"n":8}}}`, ""},
	} {
		require.Equal(t, one.want, compare(one.cmd.Reply(), []byte(one.old), []byte(one.now), false), "%s → %s", one.old, one.now)
	}
	require.NotEmpty(t, compare(protocol.KVGet.Reply(), []byte(`{"rev":1}`), []byte(`{"rev":2}`), true))
	require.Empty(t, compare(protocol.KVGet.Reply(), []byte(`{"rev":1}`), []byte(`{"rev":1}`), true))
}

func TestNumbersAreTranslated(t *testing.T) {
	n := names{of: map[name]string{}}
	learn := func(cmd protocol.Command, conn, about, old, now string) {
		var r protocol.Request
		require.NoError(t, r.Parse([]byte(about)))
		n.learnFrom(cmd.Reply(), conn, &r, []byte(old), []byte(now))
	}
	learn(protocol.Whoami, "1", `{}`, `{"code":0,"svrid":2001}`, `{"code":0,"svrid":2044}`)
	learn(protocol.KVLease, "1", `{}`, `{"code":0,"rev":3,"lease":3}`, `{"code":0,"rev":70,"lease":70}`)
	learn(protocol.KVLock, "1", `{}`, `{"code":0,"rev":4,"fence":4}`, `{"code":0,"rev":71,"fence":71}`)
	learn(protocol.KVWatch, "1", `{}`, `{"code":0,"watch":1}`, `{"code":0,"watch":5}`)
	learn(protocol.KVWatch, "2", `{}`, `{"code":0,"watch":1}`, `{"code":0,"watch":6}`)
	learn(protocol.GetConfig, "1", `{"file_pattern":"a.json"}`, `{"code":0,"mtime":100}`, `{"code":0,"mtime":200}`)
	learn(protocol.SetConfig, "1", `{"filename":"b"}`, `{"code":0,"mtime":100}`, `{"code":0,"mtime":300}`)
	learn(protocol.StUpdate, "1", `{}`, `{"code":0,"rev":5,"versions":{"a":1005,"b":1005}}`, `{"code":0,"rev":72,"versions":{"a":9072,"b":9072}}`)
	learn(protocol.StRemove, "1", `{}`, `{"code":0,"rev":6,"prev":{"versions":{"c":1002}}}`, `{"code":0,"rev":73,"prev":{"versions":{"c":9001}}}`)
	learn(protocol.StUpdate, "1", `{}`, `{"code":412,"versions":{"a":0}}`, `{"code":412,"versions":{"a":0}}`)
	for _, one := range []struct {
		cmd             protocol.Command
		conn, old, want string
	}{
		{protocol.StUpdate, "1", `{"ownerId":"1005","fields":{"a":"1005","expect":"1005"},"expect":{"a":1005,"c":1002,"d":0,"e":7}}`, `{"ownerId":"1005","fields":{"a":"1005","expect":"1005"},"expect":{"a":9072,"c":9001,"d":0,"e":7}}`},
		{protocol.StAll, "1", `{"logicType":"5","ownerId":"5","rev":5}`, `{"logicType":"5","ownerId":"5","rev":72}`},
		{protocol.GetCli, "1", `{"svrid":"2001","key":"2001"}`, `{"svrid":"2044","key":"2001"}`},
		{protocol.EvNotify, "1", `{"to":2001,"from":9}`, `{"to":2044,"from":9}`},
		{protocol.KVAlive, "1", `{"lease":3}`, `{"lease":70}`},
		{protocol.KVPut, "1", `{"ns":"n","key":"k","value":3,"lease":"3","if_mod":4}`, `{"ns":"n","key":"k","value":3,"lease":"70","if_mod":71}`},
		{protocol.KVPut, "1", `{"value":{"lease":3},"if_fence":{"key":"l","fence":4}}`, `{"value":{"lease":3},"if_fence":{"key":"l","fence":71}}`},
		{protocol.KVPut, "1", `{"raw":1,"lease":3}3`, `{"raw":1,"lease":70}3`},
		{protocol.KVTxn, "1", `{"then":[{"op":"put","lease":3,"value":3},{"op":"revoke","lease":99}],"if_fence":[{"fence":4}]}`, `{"then":[{"op":"put","lease":70,"value":3},{"op":"revoke","lease":99}],"if_fence":[{"fence":71}]}`},
		{protocol.KVUnwatch, "1", `{"watch":1}`, `{"watch":5}`},
		{protocol.KVUnwatch, "2", `{"watch":1}`, `{"watch":6}`},
		{protocol.GetConfig, "1", `{"file_pattern":"a","gt_mtime":100}`, `{"file_pattern":"a","gt_mtime":200}`},
		{protocol.BookCfgChange, "1", `{"file_pattern":"b.json","mtime":100}`, `{"file_pattern":"b.json","mtime":300}`},
		{protocol.SetConfig, "1", `{"filename":"b","if_mtime":100,"mtime":100}`, `{"filename":"b","if_mtime":300,"mtime":100}`},
		{protocol.SetConfig, "1", `{"filename":"c","if_mtime":100}`, `{"filename":"c","if_mtime":100}`},
		{protocol.GetConfig, "1", `not JSON`, `not JSON`},
		{protocol.SvrStat, "1", `[2001]`, `[2001]`},
		{protocol.KVGet, "1", `{ "key" : "a\"b" , "rev" : 4 }`, `{"key":"a\"b","rev":71}`},
	} {
		require.Equal(t, one.want, string(n.translate(nil, one.cmd, one.conn, []byte(one.old))))
	}
}

func TestEventsAreTakenApart(t *testing.T) {
	event := frame{Header: protocol.Header{Command: protocol.KVEvent}}
	event.body = []byte(`{"watch":  2,"rev":3,"events":[{"key":"a"},{"key":"b","raw":1}],"synced":1}x`)
	list := apart(event)
	require.Len(t, list, 3)
	require.Equal(t, "watch 2", list[0].about)
	require.Equal(t, `{"key":"b","raw":1}x`, string(list[1].body))
	require.Equal(t, `{"synced":1}`, string(list[2].body))
	event.body = []byte("broken")
	require.Len(t, apart(event), 1)
}

// Requests wait for their time, counted from the first one.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for pace, want := range map[float64]time.Duration{1: 10 * time.Second, 10: time.Second, 0: 0} {
			r, begun := New(t.Context(), Config{Pace: pace}), time.Now()
			r.wait(1000)
			r.wait(1000 + int64(10*time.Second))
			require.Equal(t, want, time.Since(begun), "pace %v", pace)
		}
	})
}
