package hide_test

import (
	"encoding/json" // a decoder that is not the product's
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/internal/jsontext"
	"confcenter/protocol"
	"confcenter/tools/ccdump/hide"
)

const (
	token  = "cct_0123456789abcdef_AbCdEfGhIjKlMnOpQrStUvWxYz-_0123456789abcdefghi"
	masked = "cct_0123456789abcdef_***"

	cfShow, cfDiff, cfExplain, cfApply protocol.Command = 0x0301, 0x0302, 0x0304, 0x0308
)

func TestWhatIsHidden(t *testing.T) {
	for _, one := range []struct {
		name     string
		cmd      protocol.Command
		body     string
		revealed bool
		want     string
	}{
		{"a token to sign in with", protocol.Whoami, `{"svrname":"a","token":"` + token + `"}`, false, `{"svrname":"a","token":"***"}`},
		{"a wrong one", protocol.Whoami, `{"token":"hunter2","svrname":"a"}`, false, `{"token":"***","svrname":"a"}`},
		{"a WHOAMI that is no JSON", protocol.Whoami, `{"token":"hunter2","svrname":`, false, `***`},
		{"a WHOAMI before a NUL byte", protocol.Whoami, "{\"token\":\"hunter2\"}\x00", false, "{\"token\":\"***\"}\x00"},
		{"a token that was made", protocol.SetConfig.Reply(), `{"code":0,"id":"0123456789abcdef","text":"` + token + `"}`, false, `{"code":0,"id":"0123456789abcdef","text":"` + masked + `"}`},
		{"a token in a text", protocol.SetConfig, `{"comment":"x ` + token + `, and ` + token + `"}`, false, `{"comment":"x ` + masked + `, and ` + masked + `"}`},
		{"a token that is spelled otherwise", protocol.SetConfig, `{"comment":"\u0063ct\u005f` + token[4:] + `"}`, false, `{"comment":"` + masked + `"}`},
		{"a token as a name", protocol.SetConfig, `{"` + token + `":{"a":1}}`, false, `{"` + masked + `":{"a":1}}`},
		{"a session", protocol.SetConfig, `["ccs_` + token[4:] + `"]`, false, `["ccs_` + masked[4:] + `"]`},
		{"a token in what is no JSON", protocol.SetConfig, `{"a":"` + token, false, `{"a":"` + masked},
		{"what tells apart requests", protocol.SetConfig, `{"filename":"a","token":"once"}`, false, `{"filename":"a","token":"once"}`},
		{"a token in a document", protocol.SetConfig, `{"contents":{"token":"t","github_token":"u","tokens":3}}`, false, `{"contents":{"token":"***","github_token":"***","tokens":3}}`},
		{"passwords", protocol.GetConfig.Reply(), `{"contents":{"db":{"Pass_Word":1,"passwd": "x" ,"api-key":["a","b"],"useSecret":true,"client_secret":{"a":{"b":1}},"port":1}}}`, false,
			`{"contents":{"db":{"Pass_Word":"***","passwd": "***" ,"api-key":"***","useSecret":true,"client_secret":"***","port":1}}}`},
		{"a mark", protocol.KVGet.Reply(), `{"value":"$secret:v1:k1:QUJD+/==:kv:ns/a","n":1}`, false, `{"value":"$secret:v1:k1:***:kv:ns/a","n":1}`},
		{"a value to be sealed", protocol.KVPut, `{"ns":"n","value":"x","key":"k","seal":true}`, false, `{"ns":"n","value":"***","key":"k","seal":true}`},
		{"values in a transaction", protocol.KVTxn, `{"then":[{"seal":1,"value":{"a":[1]}},{"value":"open"},{"value":"open","seal":false}]}`, false,
			`{"then":[{"seal":1,"value":"***"},{"value":"open"},{"value":"open","seal":false}]}`},
		{"a value within one", protocol.SetConfig, `{"contents":{"a":{"$seal":{"x":1}},"b":2}}`, false, `{"contents":{"a":{"$seal":"***"},"b":2}}`},
		{"a value to be sealed, cut off", protocol.SetConfig, `{"contents":{"a":{"$seal":"x`, false, `***`},
		{"octets to be sealed", protocol.KVPut, "{\"seal\":true,\"raw\":2}\x00\xff", false, "{\"seal\":true,\"raw\":2}\x00\xff"},
		{"a reply that reveals", protocol.KVMGet.Reply(), `{"code":0,"entries":[{"key":"k","value":{"a":1},"prev":{"value":"x"}}]}`, true, `{"code":0,"entries":[{"key":"k","value":"***","prev":"***"}]}`},
		{"changes that reveal", protocol.CfEvent, `{"events":[{"contents":[1],"changes":[{"path":"/a","old":"x","new":null}]}]}`, true, `{"events":[{"contents":"***","changes":[{"path":"/a","old":"***","new":null}]}]}`},
		{"a reply that reveals, cut off", protocol.KVGet.Reply(), `{"code":0,"value":"x`, true, `***`},
		{"a document as text", cfApply, `{"documents":[{"name":"s","text":"{\"x\":{\"$seal\":\"hunterAx\"},\"token\":\"t\",\"n\":[1]}"}]}`, false,
			`{"documents":[{"name":"s","text":"{\"x\":{\"$seal\":\"***\"},\"token\":\"***\",\"n\":[1]}"}]}`},
		{"text within text", cfShow.Reply(), `{"text":"{\"a\":\"{\\\"password\\\":1,\\\"b\\\":2}\"}"}`, false, `{"text":"{\"a\":\"{\\\"password\\\":\\\"***\\\",\\\"b\\\":2}\"}"}`},
		{"a part of a text", cfShow.Reply(), `{"name":"a","text":"terBx\"}}","next":9}`, false, `{"name":"a","text":"***","next":9}`},
		{"a password in a diff", cfDiff.Reply(), `{"text":"--- a\n+++ b\n@@ -1 +1 @@\n-{\"db\":{\"password\":\"hunterBx\"}}\n+{}\n"}`, false, `{"text":"***"}`},
		{"the middle of a diff", cfDiff.Reply(), `{"text":"--- a\n+++ b\n@@ -9,2 +9,2 @@\n-\"hunterBx\"\n+3\n"}`, false, `{"text":"***"}`},
		{"no password in a diff", cfDiff.Reply(), `{"text":"--- a\n+++ b\n@@ -1 +1 @@\n-{\"a\":1}\n+{}\n"}`, false, `{"text":"--- a\n+++ b\n@@ -1 +1 @@\n-{\"a\":1}\n+{}\n"}`},
		{"paths", cfDiff.Reply(), `{"paths":[{"path":"/pwd","old":"x","new":2},{"old":"x","path":"/a/secrets/0"},{"path":"/b","old":{"pwd":1},"new":3}]}`, false,
			`{"paths":[{"path":"/pwd","old":"***","new":"***"},{"old":"***","path":"/a/secrets/0"},{"path":"/b","old":{"pwd":"***"},"new":3}]}`},
		{"a path that is explained", cfExplain.Reply(), `{"path":"/db/password","files":[{"name":"a","value":"x"}],"winner":"a","value":"x"}`, false,
			`{"path":"/db/password","files":[{"name":"a","value":"***"}],"winner":"a","value":"***"}`},
		{"a text in another command", protocol.KVPut, `{"value":"{\"pwd\":\"x\"}","text":"x \"y\""}`, false, `{"value":"{\"pwd\":\"***\"}","text":"x \"y\""}`},
		{"lines of JSON", protocol.KVPut, `{"value":"{\"pwd\":\"x\"}\n{}"}`, false, `{"value":"***"}`},
		{"a password, cut off", protocol.SetConfig, `{"contents":{"password":"x`, false, `***`},
		{"a text, cut off", cfApply, `{"documents":[{"text":"{\"$seal\":\"x`, false, `***`},
		{"nothing", protocol.GetConfig.Reply(), `{"contents":{"a":[1,{"b":"cct_"}]}}`, false, `{"contents":{"a":[1,{"b":"cct_"}]}}`},
		{"no body", protocol.Whoami, ``, false, ``},
	} {
		t.Run(one.name, func(t *testing.T) {
			body := []byte(one.body)
			require.Equal(t, one.want, string(hide.Body(one.cmd, body, true, one.revealed)))
			require.Equal(t, one.body, string(body), "it is left as it was")
		})
	}
	require.Equal(t, "***", string(hide.Body(protocol.Whoami, []byte(`{"token":"x"}`), false, false)), "what is cut off may say anything")
	require.Equal(t, "a "+masked, hide.Text("a "+token))
}

func TestWhichRequestsReveal(t *testing.T) {
	for body, want := range map[string]bool{
		`{"ns":"n","key":"k","reveal":true}`: true, `{"reveal":1}`: true, `{"\u0072eveal":1}`: true,
		`{"reveal":false}`: false, `{"reveal":0}`: false, `{"key":"reveal"}`: false, `{"reveal":`: false,
		`{"file_pattern":"a","key_pattern":"/db/password"}`: true, `{"file_pattern":"a","key_pattern":"/db/port"}`: false,
	} {
		require.Equal(t, want, hide.Reveals(protocol.GetConfig, []byte(body)), body)
	}
}

// Whatever is hidden, JSON stays JSON, and no token and no password is left in it.
func FuzzBody(f *testing.F) {
	f.Add(`{"a":{"password":"SECRET1"},"b":["`+token+`"],"value":"SECRET1","seal":true}`, true)
	f.Add(`{"\u0024seal":"SECRET1"} `, false)
	f.Add(strings.Repeat(`{"a":`, 100)+`{"apikey":"SECRET1"}`+strings.Repeat(`}`, 100), false)
	f.Fuzz(func(t *testing.T, body string, revealed bool) {
		out := hide.Body(protocol.SetConfig, []byte(body), true, revealed)
		if _, err := jsontext.Check([]byte(body)); err != nil {
			return
		}
		_, err := jsontext.Check(out)
		require.NoError(t, err, "%s", out)
		require.NotRegexp(t, `cc[ts]_[0-9a-f]+_[0-9A-Za-z_-]`, string(out))
		var v any
		if json.Unmarshal(out, &v) == nil {
			require.NotContains(t, passwords(v), "SECRET1")
		}
	})
}

// passwords are the texts of members that are secret.
func passwords(v any) (list []string) {
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			if text, ok := value.(string); ok && hide.Secret(name, false) {
				list = append(list, text)
			}
			list = append(list, passwords(value)...)
		}
	case []any:
		for _, value := range v {
			list = append(list, passwords(value)...)
		}
	}
	return list
}
