package integration

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/internal/servertest"
	"confcenter/protocol"
)

// received expects a frame with that command, sequence and body.
func received(t *testing.T, p *servertest.Peer, cmd protocol.Command, seq uint16, body string) {
	t.Helper()
	f := p.Next()
	require.Equal(t, cmd, f.Command, f)
	require.Equal(t, seq, f.Seq, f)
	require.Equal(t, body, f.Body)
}

func TestNotifyForTheServer(t *testing.T) {
	srv := start(t, servertest.Options{})
	t.Run("every_one_is_in_the_operation_log_but_not_what_it_says", func(t *testing.T) {
		p := peer(t, srv)
		p.Call(protocol.EvNotify, `{"notify":"check-alive","mark":"with \"quotes\"\nand lines"}`)
		lines, err := protocol.ParseLines([]byte(p.Call(protocol.GetLogr, `{"size":50}`)))
		require.NoError(t, err)
		require.Contains(t, fmt.Sprint(lines), "NOTIFY")
		require.Contains(t, fmt.Sprint(lines), "check-alive")
		require.NotContains(t, fmt.Sprint(lines), "quotes", "it may be a secret between two others")
	})
	for _, kind := range []string{"check-alive", "exit", "cfg_change", "shellcmd", ""} {
		t.Run("other_than_closelink_is_code_-1_"+kind, func(t *testing.T) {
			require.Equal(t, fmt.Sprintf(`{"code":-1,"notify_r":%q}`, kind), peer(t, srv).Call(protocol.EvNotify, fmt.Sprintf(`{"notify":%q}`, kind)))
		})
	}
	for _, body := range []string{`{}`, `[]`, `5`, `null`, `"x"`} {
		t.Run("without_notify_is_code_-1_"+body, func(t *testing.T) {
			require.Equal(t, `{"code":-1,"notify_r":""}`, peer(t, srv).Call(protocol.EvNotify, body))
		})
	}
	t.Run("bad_json_is_404", func(t *testing.T) {
		require.EqualValues(t, 404, result(t, peer(t, srv).Call(protocol.EvNotify, `{`)).Code)
	})
	t.Run("notify_is_echoed_escaped", func(t *testing.T) {
		require.Equal(t, `a"b\`, object(t, peer(t, srv).Call(protocol.EvNotify, `{"notify":"a\"b\\"}`))["notify_r"])
	})
	t.Run("closelink_closes_that_client_who_gets_nothing", func(t *testing.T) {
		p, victim := peer(t, srv), peer(t, srv)
		require.Equal(t, `{"code":0,"notify_r":"closelink"}`, p.Call(protocol.EvNotify, fmt.Sprintf(`{"notify":"closelink","svrid":%d}`, victim.ID)))
		victim.Closed()
	})
	t.Run("closelink_never_cuts_a_frame", func(t *testing.T) {
		// A Python client that is left in the middle of a frame spins for ever.
		p, victim := peer(t, srv), peer(t, srv)
		p.Set("large.json", `"`+strings.Repeat("x", 4<<20-100)+`"`)
		for range 4 {
			victim.Send(protocol.GetConfig, `{"file_pattern":"large.json"}`)
		}
		first := victim.Next() // more than the sockets' buffers hold is on its way
		require.Equal(t, protocol.GetConfig.Reply(), first.Command)
		require.Equal(t, `{"code":0,"notify_r":"closelink"}`, p.Call(protocol.EvNotify, fmt.Sprintf(`{"notify":"closelink","svrid":%d}`, victim.ID)))
		for {
			if _, err := victim.TryNext(); err != nil {
				require.NotErrorIs(t, err, io.ErrUnexpectedEOF)
				break
			}
		}
	})
	for _, svrid := range []string{`999999`, `0`, `-1`, `"x"`, `null`} {
		t.Run("closelink_without_such_a_client_is_code_-2_"+svrid, func(t *testing.T) {
			require.Equal(t, `{"code":-2,"notify_r":"closelink"}`, peer(t, srv).Call(protocol.EvNotify, `{"notify":"closelink","svrid":`+svrid+`}`))
		})
	}
	t.Run("closelink_of_oneself_closes_without_a_reply_and_the_server_goes_on", func(t *testing.T) {
		p := peer(t, srv)
		p.Send(protocol.EvNotify, fmt.Sprintf(`{"notify":"closelink","svrid":%d}`, p.ID))
		p.Closed()
		peer(t, srv).Quiet()
	})
	for _, to := range []string{`1`, `"1"`} {
		t.Run("to_the_server_id_is_for_the_server_"+to, func(t *testing.T) {
			require.Equal(t, `{"code":-1,"notify_r":"x"}`, peer(t, srv).Call(protocol.EvNotify, `{"notify":"x","to":`+to+`}`))
		})
	}
}

func TestNotifyRouted(t *testing.T) {
	srv := start(t, servertest.Options{})
	t.Run("target_gets_it_under_the_same_command_and_sequence_with_from_jump_and_path", func(t *testing.T) {
		p, q := peer(t, srv), peer(t, srv)
		for _, to := range []string{fmt.Sprint(q.ID), fmt.Sprintf(`"%d"`, q.ID)} {
			seq := p.Send(protocol.EvNotify, `{ "notify" : "cfg", "n" : 1.50 , "to" : `+to+` }`)
			received(t, q, protocol.EvNotify, seq, fmt.Sprintf(`{"notify":"cfg","n":1.50,"to":%s,"from":%d,"jump":1,"path":"%d>1>"}`, to, p.ID, p.ID))
		}
		p.Quiet() // the server itself answers nothing
	})
	t.Run("the_targets_answer_comes_back_the_same_way", func(t *testing.T) {
		p, q := peer(t, srv), peer(t, srv)
		seq := p.Send(protocol.EvNotify, fmt.Sprintf(`{"notify":"q","to":%d}`, q.ID))
		require.Equal(t, seq, q.Next().Seq)
		q.Raw(frame(protocol.EvNotify.Reply(), seq, fmt.Sprintf(`{"code":0,"result":"done","to":%d}`, p.ID)))
		received(t, p, protocol.EvNotify.Reply(), seq, fmt.Sprintf(`{"code":0,"result":"done","to":%d,"from":%d,"jump":1,"path":"%d>1>"}`, p.ID, q.ID, q.ID))
		q.Quiet()
	})
	t.Run("from_cannot_be_forged", func(t *testing.T) {
		p, q := peer(t, srv), peer(t, srv)
		for _, forged := range []string{`1`, `"x"`, `false`, `0`} {
			seq := p.Send(protocol.EvNotify, fmt.Sprintf(`{"from":%s,"notify":"x","to":%d,"jump":9,"path":"evil>"}`, forged, q.ID))
			received(t, q, protocol.EvNotify, seq, fmt.Sprintf(`{"notify":"x","to":%d,"from":%d,"jump":1,"path":"%d>1>"}`, q.ID, p.ID, p.ID))
		}
	})
	t.Run("a_sender_whose_id_ends_in_1_keeps_its_path", func(t *testing.T) {
		p, q := dial(t, srv), peer(t, srv)
		p.Identify(`{"svrid":4441}`)
		seq := p.Send(protocol.EvNotify, fmt.Sprintf(`{"notify":"x","to":%d}`, q.ID))
		received(t, q, protocol.EvNotify, seq, fmt.Sprintf(`{"notify":"x","to":%d,"from":4441,"jump":1,"path":"4441>1>"}`, q.ID))
	})
	routeError := func(t *testing.T, p *servertest.Peer, cmd protocol.Command, to string) {
		t.Helper()
		got := object(t, p.Call(cmd, `{"notify":"x","path":"a>","to":`+to+`}`))
		require.Equal(t, "-1", fmt.Sprint(got["code"]))
		require.Equal(t, "1", fmt.Sprint(got["from"]))
		require.Equal(t, fmt.Sprint(p.ID), fmt.Sprint(got["to"]))
		require.Equal(t, "a>", got["refer_path"])
		require.Equal(t, "1>", got["act_path"])
		require.NotEmpty(t, got["error"])
		p.Quiet()
	}
	for name, to := range map[string]string{"unknown": `999999`, "zero": `0`, "negative": `-5`, "null": `null`, "text": `"abc"`, "float": `1.5`, "empty": `""`} {
		t.Run("target_"+name+"_is_a_route_error_and_stays_open", func(t *testing.T) {
			routeError(t, peer(t, srv), protocol.EvNotify, to)
		})
	}
	t.Run("target_oneself_is_a_route_error", func(t *testing.T) {
		p := peer(t, srv)
		routeError(t, p, protocol.EvNotify, fmt.Sprint(p.ID))
	})
	t.Run("an_answer_without_a_target_is_dropped", func(t *testing.T) {
		p := peer(t, srv)
		for _, body := range []string{`{"code":0}`, `{"to":999999}`, `{"to":0}`, `{"to":null}`, `[]`, `{ bad`, ``, fmt.Sprintf(`{"to":%d}`, p.ID)} {
			p.Send(protocol.EvNotify.Reply(), body)
		}
		p.Quiet()
	})
	t.Run("a_target_that_left_is_a_route_error", func(t *testing.T) {
		p, q := peer(t, srv), peer(t, srv)
		require.NoError(t, q.Close())
		eventually(t, "it is gone", func() bool {
			return result(t, p.Call(protocol.GetCli, fmt.Sprintf(`{"svrid":%d}`, q.ID))).Code == 404
		})
		routeError(t, p, protocol.EvNotify, fmt.Sprint(q.ID))
	})
	t.Run("apprunlog_is_only_routed", func(t *testing.T) {
		p, q := peer(t, srv), peer(t, srv)
		for _, body := range []string{`{}`, `[]`, `{"notify":"x"}`, `7`} {
			p.Send(protocol.AppRunLog, body)
		}
		p.Quiet()
		seq := p.Send(protocol.AppRunLog, fmt.Sprintf(`{"size":"10","to":%d}`, q.ID))
		received(t, q, protocol.AppRunLog, seq, fmt.Sprintf(`{"size":"10","to":%d,"from":%d,"jump":1,"path":"%d>1>"}`, q.ID, p.ID, p.ID))
		q.Raw(frame(protocol.AppRunLog.Reply(), seq, fmt.Sprintf(`{"code":0,"data":["a"],"to":%d}`, p.ID)))
		received(t, p, protocol.AppRunLog.Reply(), seq, fmt.Sprintf(`{"code":0,"data":["a"],"to":%d,"from":%d,"jump":1,"path":"%d>1>"}`, p.ID, q.ID, q.ID))
		routeError(t, p, protocol.AppRunLog, `999999`)
		require.EqualValues(t, 404, result(t, p.Call(protocol.AppRunLog, `{`)).Code)
	})
}

func TestExchange(t *testing.T) {
	srv := start(t, servertest.Options{})
	t.Run("body_is_relayed_with_nothing_added", func(t *testing.T) {
		p, q := peer(t, srv), peer(t, srv)
		seq := p.Send(protocol.Exchang, fmt.Sprintf(`{ "to" : %d , "k" : [ 1.0 , "a b" ] , "k" : 2 }`, q.ID))
		received(t, q, protocol.Exchang, seq, fmt.Sprintf(`{"to":%d,"k":[1.0,"a b"],"k":2}`, q.ID))
		q.Raw(frame(protocol.Exchang.Reply(), seq, fmt.Sprintf(`{"to":%d,"answer":1}`, p.ID)))
		received(t, p, protocol.Exchang.Reply(), seq, fmt.Sprintf(`{"to":%d,"answer":1}`, p.ID))
		p.Quiet()
		q.Quiet()
	})
	t.Run("also_to_oneself", func(t *testing.T) {
		p := peer(t, srv)
		body := fmt.Sprintf(`{"to":%d}`, p.ID)
		seq := p.Send(protocol.Exchang, body)
		received(t, p, protocol.Exchang, seq, body)
	})
	for _, body := range []string{`{"to":999999}`, `{}`, `{"to":"2001"}`, `{"to":null}`, `[]`, `5`} {
		t.Run("without_a_target_is_400_"+body, func(t *testing.T) {
			require.Equal(t, protocol.Result{Code: 400, Desc: "dst svr offline"}, result(t, peer(t, srv).Call(protocol.Exchang, body)))
		})
	}
	t.Run("an_answer_without_a_target_is_dropped", func(t *testing.T) {
		p := peer(t, srv)
		for _, body := range []string{`{"to":999999}`, `{}`, `[`, `[]`} {
			p.Send(protocol.Exchang.Reply(), body)
		}
		p.Quiet()
	})
	t.Run("bad_json_is_404", func(t *testing.T) {
		require.EqualValues(t, 404, result(t, peer(t, srv).Call(protocol.Exchang, `{`)).Code)
	})
}
