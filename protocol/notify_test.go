package protocol_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"confcenter/protocol"
)

func TestChangeBytes(t *testing.T) {
	require.Equal(t, `{"notify":"cfg_change","filename":"app1.json","mtime":1539596953}`,
		string(protocol.AppendChange(nil, protocol.Change{File: "app1.json", Mtime: 1539596953})))
	require.Equal(t, `{"notify":"cfg_change","filename":"app1","mtime":5,"key_pattern":"/k"}`,
		string(protocol.AppendChange(nil, protocol.Change{File: "app1", Mtime: 5, Path: "/k"})))
}

// Both SDKs answer a push that has from; the C++ SDK ends its thread at one
// without notify.
func TestChangeIsWhatBothSDKsTake(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := protocol.Change{File: text(t, "file"), Mtime: rapid.Int32().Draw(t, "mtime"), Path: text(t, "path")}
		body := protocol.AppendChange(nil, c)
		r := parse(t, string(body))
		require.Equal(t, "cfg_change", string(r.Text("notify")))
		_, ok := r.Member("from")
		require.False(t, ok)
		_, ok = r.Int("mtime")
		require.True(t, ok)

		got, ok, err := protocol.ParseChange(body)
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, c, got)
	})
}

func TestParseChange(t *testing.T) {
	for _, body := range []string{
		`{}`, `[]`, `{"notify":"provider_down","svrid":1}`, `{"notify":"cfg_change2","mtime":1}`, `{"notify":1}`, `{"notify":""}`,
	} {
		c, ok, err := protocol.ParseChange([]byte(body))
		require.NoError(t, err, body)
		require.False(t, ok, body)
		require.Zero(t, c, body)
	}
	for _, body := range []string{``, `{`, `{"notify":"cfg_change"}`, `{"notify":"cfg_change","mtime":15012341234}`, `{"notify":"cfg_change","mtime":"1"}`} {
		_, ok, err := protocol.ParseChange([]byte(body))
		require.Error(t, err, body)
		require.False(t, ok, body)
	}
}

func TestNotifyResultBytes(t *testing.T) {
	require.Equal(t, `{"code":-1,"notify_r":"check-\"alive\""}`, string(protocol.AppendNotifyResult(nil, -1, []byte(`check-"alive"`))))
	require.Equal(t, `{"code":0,"notify_r":"closelink"}`, string(protocol.AppendNotifyResult(nil, 0, []byte(protocol.NotifyCloseLink))))
}

func TestRouteErrorBytes(t *testing.T) {
	require.Equal(t, `{"code":-1,"from":1,"to":2001,"refer_path":"a>\"b>","act_path":"1>","error":"RouteExException"}`,
		string(protocol.AppendRouteError(nil, 1, 2001, []byte(`a>"b>`))))
}

func TestAppendRouted(t *testing.T) {
	for _, c := range []struct{ name, body, want string }{
		{"compact, with three members behind", `{ "to" : 2002 , "notify" : "x" , "n" : 1.50 }`,
			`{"to":2002,"notify":"x","n":1.50,"from":2001,"jump":1,"path":"2001>1>"}`},
		{"nobody speaks in another's name", `{"from":7,"path":"7>","jump":9,"fr\u006fm":8,"to":2002}`,
			`{"to":2002,"from":2001,"jump":1,"path":"2001>1>"}`},
		{"doubles stay", `{"to":1,"to":2}`, `{"to":1,"to":2,"from":2001,"jump":1,"path":"2001>1>"}`},
		{"text as it was", `{"a\"b":"\u00e9\/","big":18446744073709551616}`,
			`{"a\"b":"\u00e9\/","big":18446744073709551616,"from":2001,"jump":1,"path":"2001>1>"}`},
		{"nothing else", `{}`, `{"from":2001,"jump":1,"path":"2001>1>"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			// A frame's header precedes the body in the same buffer.
			before := protocol.BeginFrame(nil, protocol.EvNotify, 1)
			got := protocol.AppendRouted(append([]byte(nil), before...), parse(t, c.body), 2001, 1)
			require.Equal(t, string(before)+c.want, string(got))
		})
	}
}

func FuzzParseChange(f *testing.F) {
	f.Add([]byte(`{"notify":"cfg_change", "filename":"app1.json", "mtime":5}`))
	f.Add([]byte(`{"notify":"closelink","svrid":1}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		c, ok, err := protocol.ParseChange(body)
		if err != nil || !ok {
			require.Zero(t, c)
			return
		}
		again, ok, err := protocol.ParseChange(protocol.AppendChange(nil, c))
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, c, again)
	})
}

func FuzzAppendRouted(f *testing.F) {
	f.Add([]byte(`{"to":2002,"from":1,"notify":"x"}`), int32(2001))
	f.Add([]byte(`{"\u0066rom":{"a":[]},"":""}`), int32(-1))
	f.Fuzz(func(t *testing.T, body []byte, from int32) {
		var r protocol.Request
		if r.Parse(body) != nil {
			return
		}
		routed := parse(t, string(protocol.AppendRouted(nil, &r, from, 1)))
		require.True(t, routed.IsObject())
		got, ok := routed.Int("from")
		require.True(t, ok)
		require.Equal(t, from, got)
		jump, _ := routed.Int("jump")
		require.EqualValues(t, 1, jump)
		for _, m := range r.Members() {
			switch name := string(m.Key); name {
			case "from", "jump", "path":
			default:
				_, ok := routed.Member(name)
				require.True(t, ok, name)
			}
		}
	})
}
