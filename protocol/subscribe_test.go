package protocol_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"confcenter/protocol"
)

func TestSubscription(t *testing.T) {
	for _, c := range []struct {
		name, body string
		want       protocol.Subscription
	}{
		{"design document", `{"file_pattern": "app1-dev.json"}`, protocol.Subscription{File: "app1-dev.json"}},
		{"Python SDK", `{"file_pattern":"a","incbase":1}`, protocol.Subscription{File: "a", Inherit: true}},
		{"C++ SDK", `{"file_pattern":"a","incbase":"1"}`, protocol.Subscription{File: "a", Inherit: true}},
		{"the document's other spelling", `{"file_pattern":"a","inbase":true}`, protocol.Subscription{File: "a", Inherit: true}},
		{"all of ours", `{"file_pattern":"a","incbase":0,"mtime":0,"key_pattern":"/k","missing_ok":1,"unsubscribe":true}`,
			protocol.Subscription{File: "a", HasMtime: true, Path: "/k", MissingOK: true, Unsubscribe: true}},
		{"mtime that is no int32", `{"file_pattern":"a","mtime":"5"}`, protocol.Subscription{File: "a"}},
		{"nothing", `{}`, protocol.Subscription{}},
		{"not an object", `[]`, protocol.Subscription{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, parse(t, c.body).Subscription())
		})
	}
}

func TestSubscriptionBytes(t *testing.T) {
	require.Equal(t, `{"file_pattern":"a.json"}`, string(protocol.AppendSubscription(nil, protocol.Subscription{File: "a.json"})),
		"an old server sees nothing new")
	require.Equal(t, `{"file_pattern":"a","key_pattern":"/k","incbase":1,"mtime":0,"missing_ok":1,"unsubscribe":1}`,
		string(protocol.AppendSubscription(nil, protocol.Subscription{
			File: "a", Path: "/k", Inherit: true, HasMtime: true, MissingOK: true, Unsubscribe: true,
		})))
	require.Equal(t, `{"code":0,"desc":"monitor a.json  success","mtime":5}`, string(protocol.AppendSubscribed(nil, 5, "monitor a.json  success")))
}

func TestSubscriptionRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := protocol.Subscription{
			File: text(t, "file"), Path: text(t, "path"), Inherit: rapid.Bool().Draw(t, "inherit"),
			MissingOK: rapid.Bool().Draw(t, "missing"), Unsubscribe: rapid.Bool().Draw(t, "un"),
		}
		if want.HasMtime = rapid.Bool().Draw(t, "has"); want.HasMtime {
			want.Mtime = rapid.Int32().Draw(t, "mtime")
		}
		require.Equal(t, want, parse(t, string(protocol.AppendSubscription(nil, want))).Subscription())

		reply := protocol.Subscribed{Result: protocol.Result{Desc: text(t, "desc")}, Mtime: rapid.Int32().Draw(t, "served")}
		got, err := protocol.ParseSubscribed(protocol.AppendSubscribed(nil, reply.Mtime, reply.Desc))
		require.NoError(t, err)
		require.Equal(t, reply, got)
	})
}

func TestParseSubscribed(t *testing.T) {
	got, err := protocol.ParseSubscribed([]byte(`{ "code": 420, "desc": "no file=a" }`))
	require.NoError(t, err)
	require.Equal(t, protocol.Subscribed{Result: protocol.Result{Code: 420, Desc: "no file=a"}}, got)
	for _, body := range []string{``, `{}`, `1`, `{"code":"0"}`} {
		_, err := protocol.ParseSubscribed([]byte(body))
		require.Error(t, err, body)
	}
}

func FuzzSubscription(f *testing.F) {
	f.Add([]byte(`{"file_pattern":"a","incbase":"1","mtime":5,"key_pattern":"/k","missing_ok":1,"unsubscribe":1}`))
	f.Add([]byte(`{"inbase":true}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		var r protocol.Request
		if r.Parse(body) != nil {
			return
		}
		s := r.Subscription()
		require.Equal(t, s, parse(t, string(protocol.AppendSubscription(nil, s))).Subscription())
	})
}

func FuzzParseSubscribed(f *testing.F) {
	f.Add([]byte(`{"code": 0, "desc": "monitor A B NAME  success"}`))
	f.Add([]byte(`{"code":0,"mtime":5}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		s, err := protocol.ParseSubscribed(body)
		if err != nil || s.Code != 0 {
			return
		}
		again, err := protocol.ParseSubscribed(protocol.AppendSubscribed(nil, s.Mtime, s.Desc))
		require.NoError(t, err)
		require.Equal(t, s, again)
	})
}
