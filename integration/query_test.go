package integration

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"confcenter/internal/servertest"
	"confcenter/protocol"
)

func TestGetCli(t *testing.T) {
	srv := start(t, servertest.Options{})
	p := dial(t, srv)
	p.Identify(`{"svrid":3000,"svrname":"one","pid":5}`)
	q := dial(t, srv)
	q.Identify(`{"svrid":3001,"svrname":"two"}`)
	anonymous := dial(t, srv)
	eventually(t, "all three are there", func() bool { return srv.Stats().Get("server_connections") == 3 })
	ask := func(t *testing.T, body string) map[string]any { return object(t, p.Call(protocol.GetCli, body)) }

	t.Run("one_by_int_or_string", func(t *testing.T) {
		for _, svrid := range []string{`3001`, `"3001"`} {
			got := ask(t, `{"svrid":`+svrid+`}`)
			require.Equal(t, json.Number("0"), got["code"])
			require.Equal(t, "success", got["desc"])
			require.Equal(t, json.Number("1"), got["count"])
			require.Len(t, got["data"], 1)
			require.Equal(t, "two", got["data"].([]any)[0].(map[string]any)["svrname"])
		}
	})
	for _, body := range []string{`{}`, `{"svrid":0}`, `{"svrid":"0"}`, `{"svrid":null}`, `[]`} {
		t.Run("all_with_those_that_have_not_identified_"+body, func(t *testing.T) {
			got := ask(t, body)
			require.Equal(t, json.Number("3"), got["count"])
			require.Len(t, got["data"], 3)
		})
	}
	t.Run("values_are_strings_and_names_sorted", func(t *testing.T) {
		body := p.Call(protocol.GetCli, `{"svrid":3000}`)
		names := regexp.MustCompile(`"([a-z_]+)":"`).FindAllStringSubmatch(body[strings.Index(body, "["):], -1)
		var list []string
		for _, n := range names {
			list = append(list, n[1])
		}
		require.True(t, slices.IsSorted(list), "%v", list)
		require.Subset(t, list, []string{"pid", "svrid", "svrname", "_ip", "fd", "atime", "clisock"})
	})
	t.Run("key_leaves_just_that_property", func(t *testing.T) {
		require.Equal(t, []any{map[string]any{"pid": "5"}}, ask(t, `{"svrid":3000,"key":"pid"}`)["data"])
		require.Equal(t, []any{map[string]any{}}, ask(t, `{"svrid":3001,"key":"pid"}`)["data"])
	})
	t.Run("unknown_is_404", func(t *testing.T) {
		require.Equal(t, protocol.Result{Code: 404, Desc: "no exit svrid=999"}, result(t, p.Call(protocol.GetCli, `{"svrid":999}`)))
	})
	t.Run("negative_is_success_and_empty", func(t *testing.T) {
		got := ask(t, `{"svrid":-1}`)
		require.Equal(t, json.Number("0"), got["count"])
		require.Equal(t, []any{}, got["data"])
	})
	t.Run("bad_json_is_404", func(t *testing.T) {
		require.EqualValues(t, 404, result(t, p.Call(protocol.GetCli, ``)).Code)
	})
	require.NoError(t, anonymous.Close())
}

func TestSetArgs(t *testing.T) {
	srv := start(t, servertest.Options{})
	success := protocol.Result{Desc: "success"}
	t.Run("merges_properties", func(t *testing.T) {
		p := dial(t, srv)
		p.Identify(`{"svrid":0,"svrname":"a","desc":"kept"}`)
		require.Equal(t, success, result(t, p.Call(protocol.SetArgs, `{"svrname":"b","load":7,"skip":[1],"skip2":null}`)))
		got := properties(t, p, p.ID)
		require.Equal(t, []string{"kept", "b", "7"}, []string{got["desc"], got["svrname"], got["load"]})
		require.NotContains(t, got, "skip")
		require.NotContains(t, got, "skip2")
	})
	t.Run("does_not_touch_what_the_server_keeps", func(t *testing.T) {
		p := peer(t, srv)
		require.Equal(t, success, result(t, p.Call(protocol.SetArgs, `{"svrid":77,"_ip":"x","fd":"x","atime":"x","clisock":"x","_mainconf":"x"}`)))
		got := properties(t, p, p.ID)
		require.Equal(t, fmt.Sprint(p.ID), got["svrid"])
		require.Equal(t, "127.0.0.1", got["_ip"])
		require.NotContains(t, got, "_mainconf")
	})
	t.Run("other_warn_is_401_and_stays_open_with_the_properties_stored", func(t *testing.T) {
		p := peer(t, srv)
		require.EqualValues(t, 401, result(t, p.Call(protocol.SetArgs, `{"warn":"maybe","k":"v"}`)).Code)
		require.Equal(t, "v", properties(t, p, p.ID)["k"])
	})
	t.Run("bad_json_is_404_and_no_object_changes_nothing", func(t *testing.T) {
		p := peer(t, srv)
		require.EqualValues(t, 404, result(t, p.Call(protocol.SetArgs, `{`)).Code)
		require.Equal(t, success, result(t, p.Call(protocol.SetArgs, `[]`)))
	})
	t.Run("more_than_is_kept_is_refused_and_changes_nothing", func(t *testing.T) {
		p := peer(t, srv)
		require.EqualValues(t, 400, result(t, p.Call(protocol.SetArgs, `{"svrname":"x","big":"`+strings.Repeat("x", 20_000)+`"}`)).Code)
		require.Equal(t, "peer", properties(t, p, p.ID)["svrname"])
	})
}

func TestGetWarn(t *testing.T) {
	srv := start(t, servertest.Options{})
	p, q := dial(t, srv), dial(t, srv)
	p.Identify(`{"svrid":3,"svrname":"p","site":"x"}`)
	q.Identify(`{"svrid":2,"svrname":"q","site":"y"}`)
	warned := func(body string) []string {
		reply := p.Call(protocol.GetWarn, body)
		require.EqualValues(t, 0, result(t, reply).Code)
		records, _, err := protocol.ParseRecords([]byte(reply))
		require.NoError(t, err)
		var ids []string
		for _, r := range records {
			ids = append(ids, r["svrid"])
		}
		slices.Sort(ids)
		return ids
	}
	require.Empty(t, warned(`{}`))
	p.Call(protocol.SetArgs, `{"warn":"ng"}`)
	q.Call(protocol.SetArgs, `{"warn":"ok"}`)
	require.Equal(t, []string{"2", "3"}, warned(`{}`), "ok and ng enter the list")
	require.Equal(t, []string{"2"}, warned(`{"filter_key":"site","filter_val":"y"}`))
	require.Empty(t, warned(`{"filter_key":"site","filter_val":"z"}`))
	require.Equal(t, []string{"2", "3"}, warned(`[]`), "no object is no filter")
	p.Call(protocol.SetArgs, `{"warn":"clear"}`)
	require.Equal(t, []string{"2"}, warned(`{}`), "clear removes oneself")
	require.NoError(t, q.Close())
	eventually(t, "whoever leaves is off the list", func() bool { return len(warned(`{}`)) == 0 })
	require.EqualValues(t, 404, result(t, p.Call(protocol.GetWarn, `{`)).Code)
}

func TestHungup(t *testing.T) {
	srv := start(t, servertest.Options{})
	p := peer(t, srv)
	records := func(body string) []map[string]string {
		reply := p.Call(protocol.Hungup, body)
		require.EqualValues(t, 0, result(t, reply).Code)
		list, _, err := protocol.ParseRecords([]byte(reply))
		require.NoError(t, err)
		return list
	}
	profile := map[int]string{}
	for id, clitype := range map[int]string{11: `1`, 12: `"1"`, 13: `100`} {
		x := dial(t, srv)
		profile[id] = fmt.Sprintf("%s@%d-1@srv", x.LocalAddr(), id)
		x.Identify(fmt.Sprintf(`{"svrid":%d,"clitype":%s,"svrname":"srv","name":"n","shell":"a \"b\"","progi":"bin"}`, id, clitype))
		require.NoError(t, x.Close())
	}
	eventually(t, "only clients of the type server are listed when they left", func() bool {
		return srv.Stats().Get("server_connections") == 1 && len(records(`{"op":"get"}`)) == 2
	})
	one := records(`{"op":"get","svrid":"11"}`)
	require.Len(t, one, 1)
	require.Equal(t, []string{"begin_time", "end_time", "name", "progi", "shell", "svrid", "svrname"}, sortedKeys(one[0]))
	require.Equal(t, []string{"11", "srv", "n", `a "b"`, profile[11]}, []string{one[0]["svrid"], one[0]["svrname"], one[0]["name"], one[0]["shell"], one[0]["progi"]})
	for _, member := range []string{"begin_time", "end_time"} {
		require.Regexp(t, `^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$`, one[0][member])
	}
	require.Len(t, records(`{"op":"get","svrid":12}`), 1)
	require.EqualValues(t, 0, result(t, p.Call(protocol.Hungup, `{"op":"set","svrid":11}`)).Code)
	require.Len(t, records(`{"op":"get","svrid":0}`), 1)
	require.EqualValues(t, 0, result(t, p.Call(protocol.Hungup, `{"op":"set"}`)).Code)
	require.Empty(t, records(`{"op":"get"}`))
	for _, body := range []string{`{}`, `{"op":"del"}`, `{"op":5}`, `[]`} {
		require.Equal(t, protocol.Result{Code: 402, Desc: "leak of op param"}, result(t, p.Call(protocol.Hungup, body)), body)
	}
	require.EqualValues(t, 404, result(t, p.Call(protocol.Hungup, `{`)).Code)
}

// What one client says about itself must not break the replies to others: CppCloud's
// Python clients die of one that is not UTF-8.
func TestRepliesAboutOthersAreUTF8OnOneLine(t *testing.T) {
	srv := start(t, servertest.Options{})
	odd := dial(t, srv)
	odd.Identify("{\"svrid\":0,\"svrname\":\"n\xff\\n2026-01-01 00:00:00: CONFDEL\",\"tag\":\"\xfe\",\"clitype\":1,\"p\xff\":\"v\xff\"}")
	odd.Call(protocol.SetConfig, "{\"filename\":\"a\xff\\n| result=success\",\"contents\":1}")
	odd.Call(protocol.EvNotify, "{\"notify\":\"x\xff\"}")
	odd.Call(protocol.SetArgs, "{\"warn\":\"ng\",\"q\":\"\xff\"}")
	p := peer(t, srv)
	whole := func(reply string) {
		require.True(t, utf8.ValidString(reply), "%q", reply)
	}
	whole(p.Call(protocol.GetCli, `{}`))
	whole(p.Call(protocol.GetWarn, `{}`))
	require.NoError(t, odd.Close())
	eventually(t, "the client is gone", func() bool { return srv.Stats().Get("server_connections") == 1 })
	whole(p.Call(protocol.Hungup, `{"op":"get"}`))
	reply := p.Call(protocol.GetLogr, `{"size":200}`)
	whole(reply)
	lines, err := protocol.ParseLines([]byte(reply))
	require.NoError(t, err)
	require.NotEmpty(t, lines)
	for _, line := range lines {
		require.NotContains(t, line, "\n")
	}
	require.Contains(t, fmt.Sprint(lines), "filename=a\uFFFD | result=success")
}

func TestGetLogr(t *testing.T) {
	srv := start(t, servertest.Options{Files: files("a.json", `{}`)})
	p := peer(t, srv)
	lines := func(t *testing.T, body string) []string {
		reply := p.Call(protocol.GetLogr, body)
		require.EqualValues(t, 0, result(t, reply).Code)
		list, err := protocol.ParseLines([]byte(reply))
		require.NoError(t, err)
		return list
	}
	p.Set("a.json", `{"k":1}`)
	set(t, p, "a.json", `null`, ``)
	left := peer(t, srv)
	require.NoError(t, left.Close())
	t.Run("kinds_and_newest_first", func(t *testing.T) {
		p.Call(protocol.EvNotify, `{"notify":"x"}`)
		eventually(t, "the close is logged", func() bool { return strings.Contains(fmt.Sprint(lines(t, `{"size":200}`)), "CLIENT_CLOSE") })
		all := lines(t, `{"size":200}`)
		for _, kind := range []string{"CLIENT_LOGIN", "CLIENT_CLOSE", "CONFCHANGE", "CONFDEL", "NOTIFY"} {
			require.True(t, slices.ContainsFunc(all, func(line string) bool { return strings.Contains(line, ": "+kind) }), "%s in %v", kind, all)
		}
		index := func(kind string) int {
			return slices.IndexFunc(all, func(line string) bool { return strings.Contains(line, kind) })
		}
		require.Less(t, index("CONFDEL"), index("CONFCHANGE"))
	})
	t.Run("changes_of_files_name_who_version_and_result", func(t *testing.T) {
		q := dial(t, srv)
		q.Identify(`{"svrid":77,"svrname":"web","clitype":20}`)
		who := fmt.Sprintf("opcli=%s@77-20@web", q.LocalAddr())
		first := func() string { return lines(t, `{"size":1}`)[0] }
		line := func(kind, file string, mtime int32, who, result string) string {
			at := time.Unix(int64(mtime), 0).Format("2006-01-02 15:04:05")
			return fmt.Sprintf(": %s| filename=%s| mtime=%d(%s)| %s| result=%s", kind, file, mtime, at, who, result)
		}
		mtime := q.Set("log.json", `{"k":1}`)
		require.Contains(t, first(), line("CONFCHANGE", "log.json", mtime, who, "success"))
		refused := set(t, q, "log", `{"k":2}`, `,"mtime":5`)
		require.NotZero(t, refused.Code)
		require.Contains(t, first(), line("CONFCHANGE", "log.json", mtime, who, refused.Desc))
		refused = set(t, q, "../log", `{"k":2}`, ``)
		require.NotZero(t, refused.Code)
		require.Contains(t, first(), line("CONFCHANGE", "../log.json", 0, who, refused.Desc))
		mtime = set(t, q, "log", `null`, ``).Mtime
		require.Contains(t, first(), line("CONFDEL", "log.json", mtime, who, "success"))

		follower := subscribed(t, srv, "log.json")
		srv.Write("log.json", `{"k":3}`)
		mtime = follower.Push().Mtime
		require.Contains(t, first(), line("CONFCHANGE", "log.json", mtime, "opcli=file", "success"))
	})
	t.Run("default_is_10_and_a_string_of_digits_counts", func(t *testing.T) {
		for i := range 30 {
			p.Call(protocol.EvNotify, fmt.Sprintf(`{"notify":"n%d"}`, i))
		}
		require.Len(t, lines(t, `{}`), 10)
		require.Len(t, lines(t, `{"size":15}`), 15)
		require.Len(t, lines(t, `{"size":"15","page":"1"}`), 15)
		require.Len(t, lines(t, `[]`), 10)
		require.Empty(t, lines(t, `{"size":-1}`))
	})
	t.Run("ring_of_200_and_whatever_is_logged_is_valid_json", func(t *testing.T) {
		for range 250 {
			p.Call(protocol.EvNotify, `{"notify":"a\"b\\c\n","x":"`+strings.Repeat("é", 2000)+`"}`)
		}
		require.Len(t, lines(t, `{"size":2000000}`), 200)
	})
	t.Run("bad_json_is_404", func(t *testing.T) {
		require.EqualValues(t, 404, result(t, p.Call(protocol.GetLogr, `{`)).Code)
	})
}

func TestTesting(t *testing.T) {
	srv := start(t, servertest.Options{})
	p := peer(t, srv)
	require.Empty(t, p.Call(protocol.Testing, `{"cmd":"broadshow"}`))
	for _, body := range []string{`{"cmd":"other"}`, `{}`, `[]`} {
		p.Send(protocol.Testing, body)
	}
	p.Quiet()
}

// The service registry is not built yet, and the reply says so. Counters get no reply,
// because Python clients would die of it.
func TestServiceRegistry(t *testing.T) {
	srv := start(t, servertest.Options{})
	for _, cmd := range []protocol.Command{protocol.SvrRegister, protocol.SvrSearch, protocol.SvrShow} {
		t.Run(cmd.String()+"_is_501", func(t *testing.T) {
			for _, body := range []string{`{"regname":"x"}`, `{}`, ``, `[`} {
				r := result(t, peer(t, srv).Call(cmd, body))
				require.EqualValues(t, 501, r.Code)
				require.NotEmpty(t, r.Desc)
			}
		})
	}
	t.Run("counters_are_taken_in_silence", func(t *testing.T) {
		p := peer(t, srv)
		for _, body := range []string{`[{"regname":"x","pvd_ok":1}]`, `{}`, ``, `[`} {
			p.Send(protocol.SvrStat, body)
		}
		p.Quiet()
	})
}
