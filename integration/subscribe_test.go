package integration

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/internal/servertest"
	"confcenter/protocol"
	"confcenter/server/tcp"
	"confcenter/server/tcp/loop"
)

func subscribeServer(t *testing.T) *servertest.Server {
	return start(t, servertest.Options{
		Files: files(
			"_meta.json", `{"conf_inherit":{"dev.json":"common.json none.json app.json","ghost.json":"common.json"}}`,
			"common.json", `{"c":1}`, "app.json", `{"a":1}`, "dev.json", `{"d":1,"part":{"x":1,"y":1}}`, "other.json", `{}`, "with blank ü.json", `{}`,
		),
		Before: at(t, map[string]int32{"_meta.json": old, "common.json": old + 2, "app.json": old + 1, "dev.json": old, "other.json": old, "with blank ü.json": old}),
	})
}

func TestSubscribe(t *testing.T) {
	srv := subscribeServer(t)
	for _, row := range []struct {
		name, request string
		code, mtime   int32
		desc          string
	}{
		{"reply_names_the_file", `{"file_pattern":"dev.json"}`, 0, old, "monitor dev.json  success"},
		{"reply_names_existing_and_missing_bases_too", `{"file_pattern":"dev.json","incbase":1}`, 0, old + 2, "monitor common.json none.json app.json dev.json  success"},
		{"incbase_as_a_string_counts", `{"file_pattern":"dev.json","incbase":"1"}`, 0, old + 2, "monitor common.json none.json app.json dev.json  success"},
		{"incbase_2_counts", `{"file_pattern":"dev.json","incbase":2}`, 0, old + 2, "monitor common.json none.json app.json dev.json  success"},
		{"incbase_true_counts", `{"file_pattern":"dev.json","incbase":true}`, 0, old + 2, "monitor common.json none.json app.json dev.json  success"},
		{"incbase_0_does_not", `{"file_pattern":"dev.json","incbase":0}`, 0, old, "monitor dev.json  success"},
		{"name_is_completed", `{"file_pattern":"dev"}`, 0, old, "monitor dev.json  success"},
		{"name_with_blanks_and_non_ascii", `{"file_pattern":"with blank ü.json"}`, 0, old, "monitor with blank ü.json  success"},
		{"unknown_file_is_420", `{"file_pattern":"none.json"}`, 420, 0, "no file=none.json"},
		{"absent_name_is_420", `{}`, 420, 0, "no file="},
		{"empty_name_is_420", `{"file_pattern":""}`, 420, 0, "no file="},
		{"name_of_another_type_is_420", `{"file_pattern":["dev.json"]}`, 420, 0, "no file="},
		{"no_object_is_420", `[]`, 420, 0, "no file="},
		{"missing_file_with_bases_is_420", `{"file_pattern":"ghost.json","incbase":1}`, 420, 0, "no file=ghost.json"},
	} {
		t.Run(row.name, func(t *testing.T) {
			require.Equal(t, protocol.Subscribed{Result: protocol.Result{Code: row.code, Desc: row.desc}, Mtime: row.mtime}, book(t, peer(t, srv), row.request))
		})
	}
	t.Run("bad_json_is_404", func(t *testing.T) {
		require.EqualValues(t, 404, result(t, peer(t, srv).Call(protocol.BookCfgChange, `{`)).Code)
	})
	t.Run("quote_in_an_unknown_name_is_escaped", func(t *testing.T) {
		require.Equal(t, `no file=a"b`, book(t, peer(t, srv), `{"file_pattern":"a\"b"}`).Desc)
	})
	t.Run("deleted_file_is_known", func(t *testing.T) {
		p := peer(t, srv)
		p.Set("gone.json", `{}`)
		set(t, p, "gone.json", `null`, ``)
		require.Zero(t, book(t, p, `{"file_pattern":"gone.json"}`).Code)
	})
}

func TestSubscriptions(t *testing.T) {
	srv := subscribeServer(t)
	writer := peer(t, srv)
	n := 0
	change := func(name string) int32 { n++; return writer.Set(name, fmt.Sprintf(`{"n":%d}`, n)) }

	t.Run("repeats_are_told_once", func(t *testing.T) {
		p := peer(t, srv)
		for range 3 {
			book(t, p, `{"file_pattern":"other.json"}`)
		}
		told(t, p, "other.json", change("other.json"))
	})
	t.Run("names_with_blanks_and_non_ascii_are_told", func(t *testing.T) {
		p := peer(t, srv)
		book(t, p, `{"file_pattern":"with blank ü.json"}`)
		told(t, p, "with blank ü.json", change("with blank ü.json"))
	})
	t.Run("a_completed_name_is_told_as_it_was_subscribed", func(t *testing.T) {
		p := peer(t, srv)
		book(t, p, `{"file_pattern":"other"}`)
		told(t, p, "other", change("other.json"))
	})
	t.Run("both_spellings_are_told_each", func(t *testing.T) {
		p := peer(t, srv)
		book(t, p, `{"file_pattern":"other"}`)
		book(t, p, `{"file_pattern":"other.json"}`)
		mtime := change("other.json")
		require.ElementsMatch(t, []protocol.Change{{File: "other", Mtime: mtime}, {File: "other.json", Mtime: mtime}}, []protocol.Change{p.Push(), p.Push()})
		p.Quiet()
	})
	t.Run("end_with_the_connection", func(t *testing.T) {
		p := dial(t, srv)
		p.Identify(`{"svrid":9001}`)
		book(t, p, `{"file_pattern":"other.json"}`)
		require.NoError(t, p.Close())
		again := dial(t, srv)
		eventually(t, "the id is free", func() bool {
			again = dial(t, srv)
			return whoami(t, again, `{"svrid":9001}`).Code == 0
		})
		change("other.json")
		again.Quiet()
	})
	t.Run("a_repeated_whoami_neither_doubles_nor_steals_them", func(t *testing.T) {
		p, q := peer(t, srv), peer(t, srv)
		book(t, p, `{"file_pattern":"other.json"}`)
		whoami(t, p, fmt.Sprintf(`{"svrid":%d}`, q.ID))
		book(t, p, `{"file_pattern":"other.json"}`)
		book(t, q, `{"file_pattern":"other.json"}`)
		mtime := change("other.json")
		told(t, p, "other.json", mtime)
		told(t, q, "other.json", mtime)
	})
	t.Run("a_svrid_property_set_by_setargs_steals_none", func(t *testing.T) {
		p, q := peer(t, srv), peer(t, srv)
		book(t, p, `{"file_pattern":"other.json"}`)
		q.Call(protocol.SetArgs, fmt.Sprintf(`{"svrid":%d}`, p.ID))
		require.Zero(t, book(t, q, `{"file_pattern":"other.json"}`).Code)
		mtime := change("other.json")
		told(t, p, "other.json", mtime)
		told(t, q, "other.json", mtime)
	})
	t.Run("survive_delete_and_recreation", func(t *testing.T) {
		p := peer(t, srv)
		book(t, p, `{"file_pattern":"other.json"}`)
		told(t, p, "other.json", set(t, writer, "other.json", `null`, ``).Mtime)
		told(t, p, "other.json", change("other.json"))
	})
	t.Run("with_incbase_follow_bases_that_appear_later", func(t *testing.T) {
		p := subscribed(t, srv, "dev.json")
		mtime := change("none.json")
		require.Equal(t, protocol.Change{File: "none.json", Mtime: mtime}, p.Push())
		told(t, p, "dev.json", mtime)
		set(t, writer, "none.json", `null`, ``)
		require.Equal(t, "none.json", p.Push().File)
		require.Equal(t, "dev.json", p.Push().File)
		p.Quiet()
	})
	t.Run("without_incbase_do_not_follow_bases", func(t *testing.T) {
		p := peer(t, srv)
		book(t, p, `{"file_pattern":"dev.json"}`)
		change("common.json")
		p.Quiet()
	})
}

// A CppCloud program that is answered 420 does not ask again: it must be told when what it
// wanted appears.
func TestSubscribeToMissingFileIsToldWhenItAppears(t *testing.T) {
	srv := subscribeServer(t)
	writer := peer(t, srv)
	missing := func(t *testing.T, p *servertest.Peer, request, name string) {
		require.Equal(t, protocol.Subscribed{Result: protocol.Result{Code: 420, Desc: "no file=" + name}}, book(t, p, request))
	}
	t.Run("by_setconfig", func(t *testing.T) {
		p := peer(t, srv)
		missing(t, p, `{"file_pattern":"set.json","incbase":"1"}`, "set.json")
		p.Quiet()
		told(t, p, "set.json", writer.Set("set.json", `{"n":1}`))
		told(t, p, "set.json", writer.Set("set.json", `{"n":2}`))
	})
	t.Run("by_a_file_on_the_disk", func(t *testing.T) {
		p := peer(t, srv)
		missing(t, p, `{"file_pattern":"sub/dropped","incbase":1}`, "sub/dropped")
		srv.Write("sub/dropped.json", `{}`)
		push := p.Push()
		require.Equal(t, "sub/dropped", push.File, "as it was asked for")
		require.Equal(t, p.Get("sub/dropped").Mtime, push.Mtime)
	})
	t.Run("once_however_often_it_asked", func(t *testing.T) {
		p := peer(t, srv)
		for range 3 {
			missing(t, p, `{"file_pattern":"often.json"}`, "often.json")
		}
		told(t, p, "often.json", writer.Set("often.json", `{"n":1}`))
		require.Zero(t, book(t, p, `{"file_pattern":"often.json"}`).Code)
		told(t, p, "often.json", writer.Set("often.json", `{"n":2}`))
	})
	t.Run("deleted_and_created_again", func(t *testing.T) {
		p := peer(t, srv)
		missing(t, p, `{"file_pattern":"again.json","incbase":1}`, "again.json")
		told(t, p, "again.json", writer.Set("again.json", `{"n":1}`))
		told(t, p, "again.json", set(t, writer, "again.json", `null`, ``).Mtime)
		told(t, p, "again.json", writer.Set("again.json", `{"n":1}`))
	})
	t.Run("by_inheritance_only", func(t *testing.T) {
		p := peer(t, srv)
		missing(t, p, `{"file_pattern":"heir.json","incbase":1}`, "heir.json")
		writer.Set("_meta.json", `{"conf_inherit":{"dev.json":"common.json none.json app.json","ghost.json":"common.json","heir.json":"other.json none.json"}}`)
		require.Equal(t, protocol.Change{File: "other.json", Mtime: writer.Get("other.json").Mtime}, p.Push(), "its version is what makes a client ask")
		told(t, p, "heir.json", 0)
		mtime := writer.Set("other.json", `{"o":1}`)
		require.Equal(t, protocol.Change{File: "other.json", Mtime: mtime}, p.Push())
		told(t, p, "heir.json", 0)
		writer.Set("heir.json", `{"h":1}`)
		push := p.Push()
		require.Equal(t, "heir.json", push.File)
		resolved, err := protocol.ParseConfig([]byte(p.Call(protocol.GetConfig, `{"file_pattern":"heir.json","incbase":1}`)))
		require.NoError(t, err)
		require.Equal(t, resolved.Mtime, push.Mtime)
	})
	t.Run("a_key_path_too", func(t *testing.T) {
		p := peer(t, srv)
		missing(t, p, `{"file_pattern":"part.json","key_pattern":"/k"}`, "part.json")
		writer.Set("part.json", `{"n":1}`)
		p.Quiet()
		mtime := writer.Set("part.json", `{"n":1,"k":1}`)
		require.Equal(t, protocol.Change{File: "part.json", Mtime: mtime, Path: "/k"}, p.Push())
	})
	t.Run("unless_it_unsubscribed", func(t *testing.T) {
		p := peer(t, srv)
		missing(t, p, `{"file_pattern":"left.json"}`, "left.json")
		require.Zero(t, book(t, p, `{"file_pattern":"left.json","unsubscribe":1}`).Code)
		writer.Set("left.json", `{}`)
		p.Quiet()
	})
	t.Run("a_name_that_can_never_be_is_not_remembered", func(t *testing.T) {
		p := peer(t, srv)
		for _, name := range []string{"", "../x", "/etc/passwd.json", "a//b", ".hidden"} {
			missing(t, p, fmt.Sprintf(`{"file_pattern":%q}`, name), name)
		}
		for _, c := range srv.Clients() {
			require.False(t, c.ID == p.ID && len(c.Subscriptions) > 0, "%v", c.Subscriptions)
		}
	})
}

// Our own members in BOOKCFGCHANGE, which CppCloud's clients never send.
func TestSubscribeExtensions(t *testing.T) {
	srv := subscribeServer(t)
	writer := peer(t, srv)
	t.Run("mtime_older_than_the_files_is_told_at_once_behind_the_reply", func(t *testing.T) {
		p := peer(t, srv)
		require.Zero(t, book(t, p, fmt.Sprintf(`{"file_pattern":"dev","incbase":1,"mtime":%d}`, old+1)).Code)
		told(t, p, "dev", old+2)
	})
	t.Run("mtime_0_of_a_client_that_has_nothing", func(t *testing.T) {
		p := peer(t, srv)
		book(t, p, `{"file_pattern":"dev.json","mtime":0}`)
		told(t, p, "dev.json", old)
	})
	t.Run("mtime_of_a_current_client_is_not_told", func(t *testing.T) {
		p := peer(t, srv)
		book(t, p, fmt.Sprintf(`{"file_pattern":"dev","incbase":1,"mtime":%d}`, old+2))
		p.Quiet()
	})
	t.Run("missing_ok_subscribes_before_the_file_is_there", func(t *testing.T) {
		p := peer(t, srv)
		require.Equal(t, protocol.Subscribed{Result: protocol.Result{Desc: "monitor later.json  success"}}, book(t, p, `{"file_pattern":"later","missing_ok":1,"mtime":0}`))
		p.Quiet()
		told(t, p, "later", writer.Set("later.json", `{}`))
	})
	t.Run("missing_ok_with_a_name_that_can_never_be_is_refused", func(t *testing.T) {
		p := peer(t, srv)
		require.EqualValues(t, 400, book(t, p, `{"file_pattern":"../x","missing_ok":1}`).Code)
	})
	t.Run("key_pattern_is_told_only_when_that_part_changes", func(t *testing.T) {
		p := peer(t, srv)
		require.Zero(t, book(t, p, `{"file_pattern":"dev","key_pattern":"/part/x"}`).Code)
		writer.Set("dev.json", `{"d":2,"part":{"x":1,"y":2}}`)
		p.Quiet()
		mtime := writer.Set("dev.json", `{"d":2,"part":{"x":2,"y":2}}`)
		require.Equal(t, protocol.Change{File: "dev", Mtime: mtime, Path: "/part/x"}, p.Push())
		mtime = writer.Set("dev.json", `{"d":2}`)
		require.Equal(t, protocol.Change{File: "dev", Mtime: mtime, Path: "/part/x"}, p.Push())
		writer.Set("dev.json", `{"d":3}`)
		p.Quiet()
	})
	t.Run("key_pattern_of_the_resolved_document_follows_bases", func(t *testing.T) {
		p := peer(t, srv)
		require.Zero(t, book(t, p, `{"file_pattern":"dev.json","key_pattern":"c","incbase":1}`).Code)
		writer.Set("app.json", `{"a":2}`)
		p.Quiet()
		mtime := writer.Set("common.json", `{"c":2}`)
		require.Equal(t, protocol.Change{File: "dev.json", Mtime: mtime, Path: "c"}, p.Push())
		writer.Set("app.json", `{"a":2,"c":2}`) // hides the base's, with the same value
		p.Quiet()
		writer.Set("common.json", `{"c":3}`)
		p.Quiet()
	})
	t.Run("unsubscribe_ends_just_that_name_and_path", func(t *testing.T) {
		p := peer(t, srv)
		book(t, p, `{"file_pattern":"other.json"}`)
		book(t, p, `{"file_pattern":"other"}`)
		book(t, p, `{"file_pattern":"other.json","key_pattern":"n"}`)
		require.Zero(t, book(t, p, `{"file_pattern":"other.json","unsubscribe":1}`).Code)
		mtime := writer.Set("other.json", `{"n":1}`)
		require.ElementsMatch(t, []protocol.Change{{File: "other", Mtime: mtime}, {File: "other.json", Mtime: mtime, Path: "n"}}, []protocol.Change{p.Push(), p.Push()})
		p.Quiet()
	})
	t.Run("unsubscribe_of_nothing_is_success", func(t *testing.T) {
		require.Zero(t, book(t, peer(t, srv), `{"file_pattern":"other.json","unsubscribe":1}`).Code)
	})
}

func TestSubscribeBeyondTheLimit(t *testing.T) {
	srv := start(t, servertest.Options{
		Files:  files("a.json", `{}`, "b.json", `{}`, "c.json", `{}`),
		Server: tcp.Config{Limits: loop.Limits{Subscriptions: 2}},
	})
	p := peer(t, srv)
	require.Zero(t, book(t, p, `{"file_pattern":"a.json"}`).Code)
	require.Zero(t, book(t, p, `{"file_pattern":"b.json"}`).Code)
	require.EqualValues(t, 1005, book(t, p, `{"file_pattern":"c.json"}`).Code)
	require.EqualValues(t, 1005, book(t, p, `{"file_pattern":"missing.json"}`).Code, "it would have to be remembered")
	require.Zero(t, book(t, p, `{"file_pattern":"a.json","unsubscribe":1}`).Code)
	require.Zero(t, book(t, p, `{"file_pattern":"c.json"}`).Code)
	q := peer(t, srv)
	for _, name := range []string{"x.json", "y.json", "x.json"} {
		require.EqualValues(t, 420, book(t, q, `{"file_pattern":"`+name+`"}`).Code)
	}
	require.EqualValues(t, 1005, book(t, q, `{"file_pattern":"a.json"}`).Code, "what is missing counts")
}
