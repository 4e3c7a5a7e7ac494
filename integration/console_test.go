package integration

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/internal/servertest"
	"confcenter/protocol"
)

// console is CppCloud's web console: pages in a browser that reach the server through
// one identified connection.
func console(t *testing.T, srv *servertest.Server) *servertest.Peer {
	t.Helper()
	p := dial(t, srv)
	p.Identify(`{"svrid": 0, "svrname": "Web-Ctrl", "clitype": 20, "localsock": "", "pid": 5, "tag": ""}`)
	return p
}

func TestConsole(t *testing.T) {
	t.Parallel()
	t.Run("confname_is_an_object_of_arrays_of_exactly_two", func(t *testing.T) {
		srv := start(t, servertest.Options{Files: files("a.json", `{}`, "b.json", `{}`)})
		p := console(t, srv)
		set(t, p, "b.json", `null`, ``)
		got := object(t, p.Call(protocol.GetCfgName, `{}`))
		require.Len(t, got, 2)
		for name, value := range got {
			require.Len(t, value, 2, "it keeps the text in a third element and loads only what has none: %s", name)
		}
	})
	t.Run("getconf_with_absent_parameters_as_null", func(t *testing.T) {
		srv := start(t, servertest.Options{Files: files("a.json", `{"k":1}`), Before: at(t, map[string]int32{"a.json": old})})
		p := console(t, srv)
		require.Equal(t, reply(old, `"a.json"`, `{"k":1}`), p.Call(protocol.GetConfig, `{"file_pattern": "a.json", "key_pattern": null, "incbase": null, "gt_mtime": null}`))
		require.Equal(t, reply(old, `"a.json"`, `{"k":1}`), p.Call(protocol.GetConfig, `{"file_pattern": "a.json", "incbase": "1"}`))
	})
	t.Run("setconf_edits_and_deletes_without_an_mtime", func(t *testing.T) {
		srv := start(t, servertest.Options{Files: files("a.json", `{"k":1}`)})
		p := console(t, srv)
		for _, body := range []string{`{"filename": "a.json", "contents": {"k": 2}}`, `{"filename": "a.json"}`, `{"filename": "new.json", "contents": {}}`} {
			got := object(t, p.Call(protocol.SetConfig, body))
			require.Equal(t, json.Number("0"), got["code"])
			require.NotEmpty(t, got["mtime"])
			require.NotEmpty(t, got["desc"])
		}
		require.Contains(t, p.Call(protocol.GetCfgName, `{}`), `"a.json":[0,`)
	})
	t.Run("what_it_lists_it_can_open_also_by_directories", func(t *testing.T) {
		srv := start(t, servertest.Options{Files: files("dir/a.json", `{"k":1}`)})
		p := console(t, srv)
		for name := range object(t, p.Call(protocol.GetCfgName, `{}`)) {
			require.JSONEq(t, `{"k":1}`, string(p.Get(name).Contents))
		}
	})
	t.Run("clidata_is_flat_objects_of_strings", func(t *testing.T) {
		srv := start(t, servertest.Options{})
		p := console(t, srv)
		dial(t, srv).Identify(`{"svrid":0,"svrname":"app","pid":5,"_provider_mark":"a+b"}`)
		got := object(t, p.Call(protocol.GetCli, `{"svrid": 0}`))
		require.Equal(t, json.Number("0"), got["code"])
		marks := 0
		for _, item := range got["data"].([]any) {
			for name, value := range item.(map[string]any) {
				require.IsType(t, "", value, name)
			}
			if item.(map[string]any)["_provider_mark"] == "a+b" {
				marks++
			}
		}
		require.Equal(t, 1, marks)
	})
	t.Run("notify_reaches_its_target_and_the_answer_comes_back", func(t *testing.T) {
		srv := start(t, servertest.Options{})
		p, app := console(t, srv), peer(t, srv)
		seq := p.Send(protocol.EvNotify, fmt.Sprintf(`{"notify": "check-alive", "to": %d, "cmdid": "21", "force": "0"}`, app.ID))
		f := app.Next()
		got := object(t, f.Body)
		require.Equal(t, "check-alive", got["notify"])
		app.Raw(frame(protocol.EvNotify.Reply(), f.Seq, fmt.Sprintf(`{"code": 0, "result": "alive", "to": %d}`, int32Of(got["from"]))))
		answer := object(t, answered(t, p, protocol.EvNotify, seq))
		require.Equal(t, json.Number("0"), answer["code"])
		require.Equal(t, "alive", answer["result"])
	})
	t.Run("notify_closelink_by_svrid", func(t *testing.T) {
		srv := start(t, servertest.Options{})
		p, app := console(t, srv), peer(t, srv)
		got := object(t, p.Call(protocol.EvNotify, fmt.Sprintf(`{"notify": "closelink", "svrid": %d}`, app.ID)))
		require.Equal(t, json.Number("0"), got["code"])
		app.Closed()
	})
	t.Run("notify_to_nobody_is_answered_in_time", func(t *testing.T) {
		srv := start(t, servertest.Options{})
		require.Equal(t, json.Number("-1"), object(t, console(t, srv).Call(protocol.EvNotify, `{"notify": "exit", "to": 4040}`))["code"])
	})
	t.Run("syslog_with_its_size_as_a_string", func(t *testing.T) {
		srv := start(t, servertest.Options{})
		p := console(t, srv)
		for range 20 {
			p.Call(protocol.EvNotify, `{"notify":"x"}`)
		}
		got := object(t, p.Call(protocol.GetLogr, `{"size": "12", "page": "0"}`))
		require.Len(t, got["data"], 12)
		require.IsType(t, "", got["data"].([]any)[0])
	})
	t.Run("runlog_is_routed", func(t *testing.T) {
		srv := start(t, servertest.Options{})
		p, app := console(t, srv), peer(t, srv)
		seq := p.Send(protocol.AppRunLog, fmt.Sprintf(`{"to": %d, "size": "100"}`, app.ID))
		f := app.Next()
		require.Equal(t, protocol.AppRunLog, f.Command)
		app.Raw(frame(protocol.AppRunLog.Reply(), f.Seq, fmt.Sprintf(`{"code": 0, "data": ["line"], "to": %d}`, p.ID)))
		require.Equal(t, []any{"line"}, object(t, answered(t, p, protocol.AppRunLog, seq))["data"])
	})
}
