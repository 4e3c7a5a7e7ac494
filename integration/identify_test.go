package integration

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/internal/servertest"
	"confcenter/protocol"
	"confcenter/server/tcp"
)

// whoami sends a WHOAMI and returns the reply, which always has an int svrid: Python
// clients die without one.
func whoami(t *testing.T, p *servertest.Peer, body string) protocol.Identified {
	t.Helper()
	reply := p.Call(protocol.Whoami, body)
	require.Contains(t, object(t, reply), "svrid", reply)
	id, err := protocol.ParseIdentified([]byte(reply))
	require.NoError(t, err, reply)
	return id
}

func TestWhoami(t *testing.T) {
	srv := start(t, servertest.Options{})

	t.Run("success_without_main_config_is_code_svrid_and_epoch", func(t *testing.T) {
		p := dial(t, srv)
		reply := object(t, p.Call(protocol.Whoami, `{"svrid":0}`))
		require.ElementsMatch(t, []string{"code", "svrid", "epoch"}, keys(reply))
		require.Equal(t, srv.Store.Epoch(), reply["epoch"])
	})
	for _, svrid := range []string{"0", "-1", "-2147483648"} {
		t.Run("svrid_"+svrid+"_is_assigned", func(t *testing.T) {
			require.Greater(t, whoami(t, dial(t, srv), `{"svrid":`+svrid+`}`).ID, int32(2000))
		})
	}
	for _, svrid := range []int32{4711, 2147483647} {
		t.Run(fmt.Sprintf("free_svrid_%d_is_granted", svrid), func(t *testing.T) {
			require.Equal(t, svrid, whoami(t, dial(t, srv), fmt.Sprintf(`{"svrid":%d}`, svrid)).ID)
		})
	}
	t.Run("the_servers_own_svrid_is_refused", func(t *testing.T) {
		refused := whoami(t, dial(t, srv), `{"svrid":1}`)
		require.EqualValues(t, 400, refused.Code)
		require.Contains(t, refused.Desc, "svrid=1 existed")
	})
	t.Run("svrid_is_free_again_right_after_the_owners_close", func(t *testing.T) {
		owner := dial(t, srv)
		owner.Identify(`{"svrid":5000}`)
		require.NoError(t, owner.Close())
		eventually(t, "the id is given out again", func() bool {
			return whoami(t, dial(t, srv), `{"svrid":5000}`).Code == 0
		})
	})
	t.Run("svrid_of_a_live_connection_is_refused_and_closed_and_the_owner_unaffected", func(t *testing.T) {
		owner, other := dial(t, srv), dial(t, srv)
		owner.Identify(`{"svrid":6000,"svrname":"owner"}`)
		refused := whoami(t, other, `{"svrid":6000,"svrname":"thief"}`)
		require.EqualValues(t, 400, refused.Code)
		require.Zero(t, refused.ID)
		require.Contains(t, refused.Desc, "6000")
		other.Closed()
		require.Equal(t, "owner", properties(t, owner, 6000)["svrname"])
	})
	t.Run("automatic_ids_skip_claimed_ones_and_the_owner_keeps_its_id", func(t *testing.T) {
		next := peer(t, srv).ID + 1
		owner := dial(t, srv)
		owner.Identify(fmt.Sprintf(`{"svrid":%d,"svrname":"claimed"}`, next))
		newcomer := dial(t, srv)
		require.Equal(t, next+1, newcomer.Identify(`{"svrid":0}`).ID)
		require.Equal(t, "claimed", properties(t, newcomer, next)["svrname"])
	})
}

func TestWhoamiFirstAutomaticIDIsServerIDTimes1000Plus1001(t *testing.T) {
	t.Parallel()
	for serverID, want := range map[int]int32{0: 2001, 1: 2001, 7: 8001} {
		t.Run(fmt.Sprintf("server_%d", serverID), func(t *testing.T) {
			srv := start(t, servertest.Options{Server: tcp.Config{ServerID: serverID}})
			require.Equal(t, want, peer(t, srv).ID)
			require.Equal(t, want+1, peer(t, srv).ID)
			srv.Restart()
			require.Equal(t, want, peer(t, srv).ID, "the counter starts again with the process")
		})
	}
}

func TestWhoamiRefusals(t *testing.T) {
	srv := start(t, servertest.Options{})
	for name, body := range map[string]string{
		"absent": `{}`, "string": `{"svrid":"5"}`, "null": `{"svrid":null}`, "float": `{"svrid":1.0}`, "exponent": `{"svrid":1e3}`,
		"bool": `{"svrid":true}`, "beyond_int32": `{"svrid":3000000000}`, "in_other_case": `{"SvrId":1}`,
		"body_array": `[]`, "body_number": `5`, "body_string": `"svrid"`, "body_null": `null`, "array_with_the_member_inside": `[{"svrid":1}]`,
	} {
		t.Run("svrid_"+name+"_is_refused_and_closed", func(t *testing.T) {
			p := dial(t, srv)
			refused := whoami(t, p, body)
			require.EqualValues(t, 400, refused.Code)
			require.Zero(t, refused.ID)
			p.Closed()
		})
	}
	for name, body := range map[string]string{"malformed": `{"svrid":1`, "empty": ``, "deep": strings.Repeat("[", 1000)} {
		t.Run(name+"_json_is_404_and_stays_open_unauthenticated", func(t *testing.T) {
			p := dial(t, srv)
			refused := whoami(t, p, body)
			require.EqualValues(t, 404, refused.Code)
			require.Zero(t, refused.ID)
			require.NotZero(t, whoami(t, p, `{"svrid":0}`).ID)
			unauthenticated := dial(t, srv)
			whoami(t, unauthenticated, body)
			require.EqualValues(t, 401, result(t, unauthenticated.Call(protocol.GetConfig, `{}`)).Code)
			unauthenticated.Closed()
		})
	}
	t.Run("more_properties_than_are_kept_is_refused_and_closed", func(t *testing.T) {
		p := dial(t, srv)
		refused := whoami(t, p, `{"svrid":0,"big":"`+strings.Repeat("x", 20_000)+`"}`)
		require.EqualValues(t, 400, refused.Code)
		p.Closed()
	})
}

func TestWhoamiProperties(t *testing.T) {
	srv := start(t, servertest.Options{})
	t.Run("strings_and_ints_become_strings_and_other_types_are_dropped", func(t *testing.T) {
		p := dial(t, srv)
		p.Identify(`{"svrid":0,"svrname":"app","tag":"t","clitype":100,"pid":-7,"empty":"","float":1.5,"bool":true,"nil":null,"list":[1],"map":{},"large":3000000000}`)
		got := properties(t, p, p.ID)
		require.Equal(t, []string{"_ip", "atime", "clisock", "clitype", "empty", "fd", "pid", "svrid", "svrname", "tag"}, sortedKeys(got))
		require.Equal(t, "100", got["clitype"])
		require.Equal(t, "-7", got["pid"])
		require.Equal(t, fmt.Sprint(p.ID), got["svrid"])
		require.Equal(t, "127.0.0.1", got["_ip"])
		require.Equal(t, p.LocalAddr().String(), got["clisock"])
	})
	t.Run("quotes_backslashes_and_control_characters_are_answered_and_escaped", func(t *testing.T) {
		p := dial(t, srv)
		shell := `python app.py "--name" C:\dir`
		require.Zero(t, whoami(t, p, `{"svrid":0,"shell":`+quote(shell)+`,"desc":"a\u0001\n\tb"}`).Code)
		p.ID = 0
		all := clients(t, p, 0)
		found := false
		for _, c := range all {
			found = found || c["shell"] == shell && c["desc"] == "a\x01\n\tb"
		}
		require.True(t, found, "%v", all)
	})
	t.Run("what_the_server_keeps_is_not_believed", func(t *testing.T) {
		p := dial(t, srv)
		id := p.Identify(`{"svrid":0,"_ip":"9.9.9.9","fd":"77","atime":"1","clisock":"x","_mainconf":"evil.json"}`)
		require.Empty(t, id.MainConf)
		got := properties(t, p, p.ID)
		require.Equal(t, "127.0.0.1", got["_ip"])
		require.NotEqual(t, "77", got["fd"])
		require.NotEqual(t, "1", got["atime"])
		require.NotContains(t, got, "_mainconf")
		require.Equal(t, p.LocalAddr().String(), got["clisock"])
	})
	t.Run("first_of_equal_names_wins", func(t *testing.T) {
		p := dial(t, srv)
		p.Identify(`{"svrid":31,"svrid":32,"svrname":"first","svrname":"second"}`)
		require.EqualValues(t, 31, p.ID)
		require.Equal(t, "first", properties(t, p, 31)["svrname"])
	})
}

func TestWhoamiRepeated(t *testing.T) {
	srv := start(t, servertest.Options{Files: files("_meta.json", `{"app_profile":{"default":{"a":"a-main.json","b":"b-main.json"}}}`)})
	t.Run("keeps_the_first_id_merges_properties_and_resolves_the_main_config_again", func(t *testing.T) {
		p := dial(t, srv)
		first := p.Identify(`{"svrid":0,"svrname":"a","desc":"kept"}`)
		require.Equal(t, "a-main.json", first.MainConf)
		for _, body := range []string{`{"svrid":0,"svrname":"b"}`, `{"svrid":999,"clitype":100}`, `{"svrid":-3}`} {
			again := whoami(t, p, body)
			require.Zero(t, again.Code)
			require.Equal(t, first.ID, again.ID)
			require.Equal(t, "b-main.json", again.MainConf)
		}
		got := properties(t, p, first.ID)
		require.Equal(t, "kept", got["desc"])
		require.Equal(t, "b", got["svrname"])
		require.EqualValues(t, 404, result(t, p.Call(protocol.GetCli, `{"svrid":999}`)).Code, "no id but the first is anybody's")
	})
	t.Run("cannot_take_the_id_of_another", func(t *testing.T) {
		owner, thief := dial(t, srv), dial(t, srv)
		owner.Identify(`{"svrid":7000,"svrname":"owner"}`)
		mine := thief.Identify(`{"svrid":0}`).ID
		require.Equal(t, mine, whoami(t, thief, `{"svrid":7000}`).ID)
		require.Equal(t, "owner", properties(t, thief, 7000)["svrname"])
	})
	t.Run("with_bad_json_is_404_and_stays_identified", func(t *testing.T) {
		p := peer(t, srv)
		require.EqualValues(t, 404, whoami(t, p, `{`).Code)
		p.Quiet()
	})
}

const profiles = `{"app_profile":{
	"blue": {"app":"app-blue.json", "_rack":40, "notext":17, "half":"half-blue.json"},
	"badtypes": {"app":5, "_idc":"1", "_rack":1.5},
	"127.0.0.1": {"app":"app-ip.json", "other":"other-ip.json", "_idc":1, "_rack":2},
	"9.9.9.9": {"app":"app-nine.json"},
	"default": {"app":"app-default.json", "other":"other-default.json", "rest":"rest-default.json", "_idc":8, "_rack":9}
}}`

func TestWhoamiProfile(t *testing.T) {
	srv := start(t, servertest.Options{Files: files("_meta.json", profiles)})
	for _, row := range []struct{ name, body, main, idc, rack string }{
		{"each_value_comes_from_the_tag_section_else_the_ips", `"svrname":"app","tag":"blue"`, "app-blue.json", "1", "40"},
		{"without_a_tag_the_peers_ip_decides", `"svrname":"app"`, "app-ip.json", "1", "2"},
		{"a_tag_without_that_application_falls_back_to_the_ip", `"svrname":"other","tag":"blue"`, "other-ip.json", "1", "40"},
		{"and_then_to_default", `"svrname":"rest","tag":"blue"`, "rest-default.json", "1", "40"},
		{"an_unknown_tag_is_no_section", `"svrname":"app","tag":"green"`, "app-ip.json", "1", "2"},
		{"an_unknown_application_has_no_main_config", `"svrname":"nobody"`, "", "1", "2"},
		{"values_of_the_wrong_type_are_no_hits", `"svrname":"app","tag":"badtypes"`, "app-ip.json", "1", "2"},
		{"a_hit_overrides_what_the_client_sent", `"svrname":"app","idc":55,"rack":66`, "app-ip.json", "1", "2"},
		{"the_ip_a_client_claims_is_not_believed", `"svrname":"app","_ip":"9.9.9.9"`, "app-ip.json", "1", "2"},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := dial(t, srv)
			id := p.Identify(`{"svrid":0,` + row.body + `}`)
			require.Equal(t, row.main, id.MainConf)
			got := properties(t, p, id.ID)
			require.Equal(t, row.idc, got["idc"])
			require.Equal(t, row.rack, got["rack"])
			require.Equal(t, row.main, got["_mainconf"])
		})
	}
	t.Run("the_main_config_need_not_exist", func(t *testing.T) {
		p := dial(t, srv)
		main := p.Identify(`{"svrid":0,"svrname":"app","tag":"blue"}`).MainConf
		require.Nil(t, p.Get(main).Contents)
	})
	t.Run("a_changed_profile_counts_at_once", func(t *testing.T) {
		p := peer(t, srv)
		p.Set("_meta.json", `{"app_profile":{"default":{"app":"app-new.json"}}}`)
		require.Equal(t, "app-new.json", dial(t, srv).Identify(`{"svrid":0,"svrname":"app"}`).MainConf)
		p.Set("_meta.json", `{}`)
		id := dial(t, srv).Identify(`{"svrid":0,"svrname":"app","idc":55}`)
		require.Empty(t, id.MainConf)
		require.Equal(t, "55", properties(t, p, id.ID)["idc"], "without a hit what the client sent stands")
	})
}

func keys(m map[string]any) []string {
	var list []string
	for k := range m {
		list = append(list, k)
	}
	return list
}
