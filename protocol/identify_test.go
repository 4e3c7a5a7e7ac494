package protocol_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"confcenter/protocol"
)

func TestIdentifyBytes(t *testing.T) {
	require.Equal(t, `{"svrid":0,"svrname":"app1","clitype":300}`, string(protocol.AppendIdentify(nil, protocol.Identify{Name: "app1"})))
	require.Equal(t, `{"svrid":2001,"svrname":"a\"b","tag":"dev","clitype":300,"desc":"x","pid":"7"}`,
		string(protocol.AppendIdentify(nil, protocol.Identify{ID: 2001, Name: `a"b`, Tag: "dev", Props: map[string]string{"pid": "7", "desc": "x"}})),
		"properties in the order of their names")
	require.Equal(t, `{"code":0,"svrid":2001,"epoch":"5eed"}`, string(protocol.AppendIdentified(nil, 2001, "", "5eed")))
	require.Equal(t, `{"code":0,"mconf":"app1-dev.json","svrid":2001,"epoch":"5eed"}`,
		string(protocol.AppendIdentified(nil, 2001, "app1-dev.json", "5eed")))
	require.Equal(t, `{"code":400,"svrid":0,"desc":"leak of svrid?"}`, string(protocol.AppendNotIdentified(nil, 400, "leak of svrid?")),
		"a refusal has a svrid too")
}

func TestParseIdentified(t *testing.T) {
	for _, c := range []struct {
		name, body string
		want       protocol.Identified
	}{
		{"CppCloud's server", `{ "code": 0, "mconf":"app1.json",  "svrid": 2001 }`, protocol.Identified{ID: 2001, MainConf: "app1.json"}},
		{"ours", `{"code":0,"svrid":2001,"epoch":"5eed"}`, protocol.Identified{ID: 2001, Epoch: "5eed"}},
		{"CppCloud's refusal has no svrid", `{ "code": 400, "desc": "svrid=7 existed" }`,
			protocol.Identified{Result: protocol.Result{Code: 400, Desc: "svrid=7 existed"}}},
		{"our refusal", `{"code":400,"svrid":0,"desc":"no"}`, protocol.Identified{Result: protocol.Result{Code: 400, Desc: "no"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := protocol.ParseIdentified([]byte(c.body))
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
	for _, body := range []string{``, `1`, `{}`, `{"code":0}`, `{"svrid":1}`, `{"code":0,"svrid":"2001"}`} {
		_, err := protocol.ParseIdentified([]byte(body))
		require.Error(t, err, body)
	}
}

func TestIdentifyRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := protocol.Identify{
			ID: rapid.Int32().Draw(t, "id"), Name: text(t, "name"), Tag: text(t, "tag"),
			Props: rapid.MapOfN(rapid.StringMatching(`p_[a-z"\\]{0,4}`), rapid.String(), 0, 5).Draw(t, "props"),
		}
		r := parse(t, string(protocol.AppendIdentify(nil, m)))
		id, ok := r.Int("svrid")
		require.True(t, ok)
		require.Equal(t, m.ID, id)
		props, fits := r.Properties()
		require.True(t, fits)
		got := map[string]string{}
		for _, p := range props {
			got[p.Name] = p.Value
		}
		valid := func(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
		want := map[string]string{"svrname": valid(m.Name), "clitype": fmt.Sprint(protocol.ClientType)}
		if m.Tag != "" {
			want["tag"] = valid(m.Tag)
		}
		for name, value := range m.Props {
			want[name] = value
		}
		require.Equal(t, want, got)
	})
}

func TestIdentifiedRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := protocol.Identified{ID: rapid.Int32().Draw(t, "id"), MainConf: text(t, "mconf"), Epoch: text(t, "epoch")}
		got, err := protocol.ParseIdentified(protocol.AppendIdentified(nil, want.ID, want.MainConf, want.Epoch))
		require.NoError(t, err)
		require.Equal(t, want, got)

		refused := protocol.Identified{Result: protocol.Result{Code: rapid.Int32().Draw(t, "code"), Desc: text(t, "desc")}}
		got, err = protocol.ParseIdentified(protocol.AppendNotIdentified(nil, int(refused.Code), refused.Desc))
		require.NoError(t, err)
		require.Equal(t, refused, got)
	})
}

func TestProperties(t *testing.T) {
	for _, c := range []struct {
		name, body string
		want       []protocol.Property
	}{
		{"strings and integers become strings", `{"svrid":0,"svrname":"app1","pid":-7,"clitype":100,"shell":"a \"b\""}`,
			[]protocol.Property{{"svrname", "app1"}, {"pid", "-7"}, {"clitype", "100"}, {"shell", `a "b"`}}},
		{"everything else is dropped", `{"a":1.5,"b":true,"c":null,"d":{},"e":[],"f":3000000000,"g":"kept"}`,
			[]protocol.Property{{"g", "kept"}}},
		{"the server's own are not believed", `{"_ip":"1.2.3.4","fd":1,"atime":2,"clisock":"x","svrid":3,"_mainconf":"y","_IP":"kept"}`,
			[]protocol.Property{{"_IP", "kept"}}},
		{"first of equal names", `{"tag":"a","tag":"b","t\u0061g":"c"}`, []protocol.Property{{"tag", "a"}}},
		{"bytes that are not UTF-8", "{\"n\xff\":\"a\xfe\xffb\",\"n\xfe\":\"second\"}", []protocol.Property{{"n\uFFFD", "a\uFFFDb"}}},
		{"empty", `{}`, nil},
		{"not an object", `["a"]`, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, fits := parse(t, c.body).Properties()
			require.True(t, fits)
			require.Equal(t, c.want, got)
		})
	}
}

func TestPropertiesAreLimited(t *testing.T) {
	object := func(n int, member string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, member, i)
		}
		return "{" + strings.TrimSuffix(b.String(), ",") + "}"
	}
	props, fits := parse(t, object(protocol.MaxProperties, `"p%d":"x",`)).Properties()
	require.True(t, fits)
	require.Len(t, props, protocol.MaxProperties)
	_, fits = parse(t, object(protocol.MaxProperties+1, `"p%d":"x",`)).Properties()
	require.False(t, fits)

	// Members that become nothing cost time too.
	props, fits = parse(t, object(8*protocol.MaxProperties, `"p":%d,`)).Properties()
	require.True(t, fits)
	require.Equal(t, []protocol.Property{{"p", "0"}}, props)
	_, fits = parse(t, object(8*protocol.MaxProperties+1, `"p":%d,`)).Properties()
	require.False(t, fits)
}

func FuzzParseIdentified(f *testing.F) {
	f.Add([]byte(`{ "code": 0, "mconf":"app1.json",  "svrid": 2001 }`))
	f.Add([]byte(`{"code":400,"svrid":0,"desc":"leak of svrid?"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		who, err := protocol.ParseIdentified(body)
		if err != nil || who.Code != 0 {
			return
		}
		again, err := protocol.ParseIdentified(protocol.AppendIdentified(nil, who.ID, who.MainConf, who.Epoch))
		require.NoError(t, err)
		who.Desc = "" // success has none
		require.Equal(t, who, again)
	})
}

func FuzzProperties(f *testing.F) {
	f.Add([]byte(`{"svrid":0,"svrname":"app1","pid":7,"a":1.5,"a":"x","_ip":"y"}`))
	f.Add([]byte(`{"\ud83d\ude00":"\u0000","":""}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		var r protocol.Request
		if r.Parse(body) != nil {
			return
		}
		props, fits := r.Properties()
		if !fits {
			require.Nil(t, props)
			return
		}
		require.LessOrEqual(t, len(props), protocol.MaxProperties)
		seen := map[string]bool{}
		for _, p := range props {
			require.False(t, seen[p.Name])
			seen[p.Name] = true
			require.NotContains(t, []string{"_ip", "fd", "atime", "clisock", "svrid", "_mainconf"}, p.Name)
		}
		// What is stored can be listed again, whatever it contains.
		records, _, err := protocol.ParseRecords(protocol.AppendRecords(nil, slices.Values([][]protocol.Property{props}), true))
		require.NoError(t, err)
		require.Len(t, records, 1)
		require.Len(t, records[0], len(props))
	})
}
