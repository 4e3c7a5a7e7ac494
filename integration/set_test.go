package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/confstore"
	"confcenter/internal/atomicfile"
	"confcenter/internal/atomicfile/atomicfiletest"
	"confcenter/internal/clock/clocktest"
	"confcenter/internal/servertest"
	"confcenter/kvstore/memory"
	"confcenter/protocol"
)

// now is the server's time in tests of versions: 2023.
const now = 1_700_000_000

// setServer has a.json of version old, a subscriber of it, and a clock at now.
func setServer(t *testing.T) (srv *servertest.Server, writer, follower *servertest.Peer) {
	srv = start(t, servertest.Options{
		Files:  files("a.json", `{"k":1}`),
		Before: at(t, map[string]int32{"a.json": old}),
		Store:  confstore.Config{Clock: clocktest.NewFake(time.Unix(now, 0)), NoEvents: true},
	})
	follower = peer(t, srv)
	require.Zero(t, book(t, follower, `{"file_pattern":"a.json"}`).Code)
	return srv, peer(t, srv), follower
}

// told expects a push and nothing after it.
func told(t *testing.T, p *servertest.Peer, name string, mtime int32) {
	t.Helper()
	require.Equal(t, protocol.Change{File: name, Mtime: mtime}, p.Push())
	p.Quiet()
}

func updated(code, mtime int32, desc string) protocol.ConfigUpdated {
	return protocol.ConfigUpdated{Result: protocol.Result{Code: code, Desc: desc}, Mtime: mtime}
}

func TestSetConfig(t *testing.T) {
	t.Parallel()
	t.Run("newer_is_served_written_pushed_and_answered_with_its_mtime", func(t *testing.T) {
		srv, p, follower := setServer(t)
		require.Equal(t, updated(0, old+5, "success"), set(t, p, "a.json", `{"k":[1,{"x":null}],"e":{}}`, `,"mtime":1500000005`))
		told(t, follower, "a.json", old+5)
		require.Equal(t, reply(old+5, `"a.json"`, `{"k":[1,{"x":null}],"e":{}}`), p.Call(protocol.GetConfig, `{"file_pattern":"a.json"}`))
		require.Equal(t, `{"k":[1,{"x":null}],"e":{}}`, onDisk(t, srv, "a.json"), "on one line as before")
		require.Zero(t, set(t, p, "b.json", `{"k":[1,{"x":null}],"e":{}}`, "").Code)
		require.Equal(t, "{\n    \"k\": [\n        1,\n        {\n            \"x\": null\n        }\n    ],\n    \"e\": {}\n}\n", onDisk(t, srv, "b.json"), "people's form, four blanks")
	})
	t.Run("escaped_text_is_stored_readable", func(t *testing.T) {
		srv, p, follower := setServer(t)
		// As CppCloud's console and Python SDK send it.
		require.Equal(t, updated(0, now, "success"), set(t, p, "a.json", `{"\u914d\u7f6e": "\ud83d\ude00\u0022\u200b", "n": 1.50}`, ""))
		told(t, follower, "a.json", now)
		require.Equal(t, `{"配置":"😀\u0022\u200b","n":1.50}`, onDisk(t, srv, "a.json"))
		require.Equal(t, reply(now, `"a.json"`, `{"配置":"😀\u0022\u200b","n":1.50}`), p.Call(protocol.GetConfig, `{"file_pattern":"a.json"}`))
		srv.Store.Reload()
		follower.Quiet()
	})
	t.Run("contents_that_are_not_UTF8_are_refused", func(t *testing.T) {
		srv, p, follower := setServer(t)
		r := set(t, p, "a.json", "{\"k\":\"\xff\"}", "")
		require.EqualValues(t, 404, r.Code)
		require.Contains(t, r.Desc, "byte 0xFF at offset 6 is not UTF-8")
		require.Equal(t, `{"k":1}`, onDisk(t, srv, "a.json"))
		follower.Quiet()
	})
	t.Run("new_file_is_listed_with_flag_1", func(t *testing.T) {
		_, p, _ := setServer(t)
		require.Equal(t, updated(0, 77, "success"), set(t, p, "new.json", `{}`, `,"mtime":77`))
		require.Equal(t, `{"a.json":[1,1500000000],"new.json":[1,77]}`, p.Call(protocol.GetCfgName, ``))
	})
	t.Run("equal_mtime_is_accepted_and_served_with_a_greater_one", func(t *testing.T) {
		_, p, follower := setServer(t)
		require.Equal(t, updated(0, old+1, "success"), set(t, p, "a.json", `{"k":2}`, `,"mtime":1500000000`))
		told(t, follower, "a.json", old+1)
	})
	t.Run("older_is_judged_by_the_mtime_given_not_by_the_raised_one", func(t *testing.T) {
		_, p, _ := setServer(t)
		set(t, p, "a.json", `{"k":2}`, `,"mtime":1500000000`)
		set(t, p, "a.json", `{"k":3}`, `,"mtime":1500000000`)
		require.Equal(t, updated(0, old+3, "success"), set(t, p, "a.json", `{"k":4}`, `,"mtime":1500000001`))
	})
	t.Run("older_is_refused_with_the_stored_mtime_nothing_written_nothing_pushed", func(t *testing.T) {
		srv, p, follower := setServer(t)
		before := onDisk(t, srv, "a.json")
		u := set(t, p, "a.json", `{"k":"stale"}`, `,"mtime":1499999999`)
		require.EqualValues(t, 409, u.Code)
		require.EqualValues(t, old, u.Mtime)
		follower.Quiet()
		require.Equal(t, before, onDisk(t, srv, "a.json"))
		require.JSONEq(t, `{"k":1}`, string(p.Get("a.json").Contents))
		srv.Restart()
		p = peer(t, srv)
		require.Equal(t, reply(old, `"a.json"`, `{"k":1}`), p.Call(protocol.GetConfig, `{"file_pattern":"a.json"}`))
	})
	t.Run("older_names_the_same_mtime_in_both_members", func(t *testing.T) {
		_, p, _ := setServer(t)
		set(t, p, "a.json", `{"k":2}`, `,"mtime":1500000000`) // served with one more
		require.Equal(t, updated(409, old+1, "a.json: mtime 1499999999 is older than the stored 1500000001; read the current version and write again"),
			set(t, p, "a.json", `{"k":3}`, `,"mtime":1499999999`))
	})
	t.Run("no_mtime_is_the_servers_clock", func(t *testing.T) {
		_, p, follower := setServer(t)
		require.Equal(t, updated(0, now, "success"), set(t, p, "a.json", `{"k":2}`, ``))
		told(t, follower, "a.json", now)
	})
	for _, mtime := range []string{`0`, `"1600000000"`, `1600000000.0`, `null`, `true`} {
		t.Run("mtime_"+mtime+"_is_none", func(t *testing.T) {
			_, p, _ := setServer(t)
			require.Equal(t, updated(0, now, "success"), set(t, p, "a.json", `{"k":2}`, `,"mtime":`+mtime))
		})
	}
	for mtime, text := range map[string]string{
		`15012341234`: "15012341234", `2147483648`: "2147483648", `-2147483649`: "-2147483649", `3e9`: "3e9",
		`1` + strings.Repeat("0", 300): "10000000000000000000000000000000…",
	} {
		t.Run("mtime_beyond_int32_is_refused_by_name_"+text, func(t *testing.T) {
			srv, p, follower := setServer(t)
			before := onDisk(t, srv, "a.json")
			require.Equal(t, updated(400, 0, "mtime "+text+" is not within -2147483648 to 2147483647; give whole seconds since 1970, or none for the server's clock; nothing was written"),
				set(t, p, "a.json", `{"k":2}`, `,"mtime":`+mtime))
			require.EqualValues(t, 400, set(t, p, "a.json", `null`, `,"mtime":`+mtime).Code, "deleting, too")
			follower.Quiet()
			require.Equal(t, before, onDisk(t, srv, "a.json"))
		})
	}
	t.Run("no_mtime_within_the_same_second_is_one_more", func(t *testing.T) {
		_, p, follower := setServer(t)
		for i := range int32(3) {
			require.Equal(t, updated(0, now+i, "success"), set(t, p, "a.json", fmt.Sprint(i), ``))
			told(t, follower, "a.json", now+i)
		}
	})
	t.Run("no_mtime_while_the_stored_one_lies_in_the_future_is_one_more", func(t *testing.T) {
		_, p, follower := setServer(t)
		require.Equal(t, updated(0, now+9000, "success"), set(t, p, "a.json", `{"k":2}`, fmt.Sprintf(`,"mtime":%d`, now+9000)))
		told(t, follower, "a.json", now+9000)
		require.Equal(t, updated(0, now+9001, "success"), set(t, p, "a.json", `{"k":3}`, ``))
		told(t, follower, "a.json", now+9001)
	})
	t.Run("mtime_more_than_a_day_ahead_is_refused", func(t *testing.T) {
		_, p, follower := setServer(t)
		require.NotZero(t, set(t, p, "a.json", `{"k":2}`, `,"mtime":2147483647`).Code)
		follower.Quiet()
		refused := set(t, p, "a.json", `{"k":2}`, fmt.Sprintf(`,"mtime":%d`, now+86_401))
		require.Equal(t, updated(400, old, "a.json: mtime 1700086401 is 2023-11-15T22:13:21Z, more than a day ahead of the server's clock, and more than one above the stored version; give the current time in seconds, or omit mtime"), refused)
		follower.Quiet()
		require.Equal(t, updated(0, now+86_400, "success"), set(t, p, "a.json", `{"k":2}`, fmt.Sprintf(`,"mtime":%d`, now+86_400)))
		require.Equal(t, updated(0, now+86_401, "success"), set(t, p, "a.json", `{"k":3}`, ``))
		require.EqualValues(t, 400, set(t, p, "a.json", `{"k":4}`, fmt.Sprintf(`,"mtime":%d`, now+86_403)).Code)
		require.Equal(t, updated(0, now+86_402, "success"), set(t, p, "a.json", `{"k":4}`, fmt.Sprintf(`,"mtime":%d`, now+86_402)), "one more than what is served")
	})
	t.Run("negative_mtime_never_makes_a_version_below_1", func(t *testing.T) {
		_, p, _ := setServer(t)
		u := set(t, p, "n.json", `{"k":2}`, `,"mtime":-5`)
		if u.Code == 0 {
			require.Positive(t, u.Mtime, "0 and less mean no file")
			require.Equal(t, u.Mtime, p.Get("n.json").Mtime)
		} else {
			require.Nil(t, p.Get("n.json").Contents)
		}
	})
	t.Run("same_contents_change_nothing_and_push_nothing", func(t *testing.T) {
		_, p, follower := setServer(t)
		require.Equal(t, updated(0, old, "success"), set(t, p, "a.json", ` { "k" : 1 } `, ``))
		follower.Quiet()
		require.EqualValues(t, old, p.Get("a.json").Mtime)
	})
	t.Run("name_is_completed", func(t *testing.T) {
		srv, p, follower := setServer(t)
		require.Equal(t, updated(0, now, "success"), set(t, p, "a", `{"k":2}`, ``))
		told(t, follower, "a.json", now)
		require.Empty(t, onDisk(t, srv, "a"))
	})
	t.Run("further_members_are_ignored", func(t *testing.T) {
		_, p, _ := setServer(t)
		require.Zero(t, set(t, p, "a.json", `{"k":2}`, `,"callby":"setall","from":9,"x":[1]`).Code)
	})
	t.Run("directories_on_the_way_are_made", func(t *testing.T) {
		srv, p, _ := setServer(t)
		require.Zero(t, set(t, p, "new/sub/b.json", `{"k":2}`, ``).Code)
		require.JSONEq(t, `{"k":2}`, onDisk(t, srv, "new/sub/b.json"))
	})
	for _, contents := range []string{`"text"`, `17`, `true`, `false`, `[]`, `-1.50`} {
		t.Run("contents_"+contents+"_are_stored_whole_also_across_a_restart", func(t *testing.T) {
			srv, p, follower := setServer(t)
			require.Zero(t, set(t, p, "a.json", contents, ``).Code)
			told(t, follower, "a.json", now)
			require.JSONEq(t, contents, onDisk(t, srv, "a.json"))
			srv.Restart()
			require.Equal(t, contents, string(peer(t, srv).Get("a.json").Contents))
		})
	}
	t.Run("the_file_gets_the_time_that_was_given", func(t *testing.T) {
		srv, p, _ := setServer(t)
		set(t, p, "a.json", `{"k":2}`, `,"mtime":1500000005`)
		info, err := os.Stat(filepath.Join(srv.ConfDir, "a.json"))
		require.NoError(t, err)
		require.EqualValues(t, old+5, info.ModTime().Unix())
	})
	t.Run("versions_of_the_wire_survive_a_restart", func(t *testing.T) {
		srv, p, _ := setServer(t)
		set(t, p, "a.json", `{"k":2}`, `,"mtime":1500000005`)
		set(t, p, "sub/b.json", `{"k":2}`, `,"mtime":1500000006`)
		srv.Restart()
		require.Equal(t, `{"a.json":[1,1500000005],"sub/b.json":[1,1500000006]}`, peer(t, srv).Call(protocol.GetCfgName, ``))
	})
}

func TestSetConfigDelete(t *testing.T) {
	t.Parallel()
	for name, members := range map[string]string{"absent": ``, "null": `,"contents":null`} {
		t.Run("contents_"+name+"_deletes", func(t *testing.T) {
			srv, p, follower := setServer(t)
			require.JSONEq(t, `{"code":0,"mtime":1500000005,"desc":"remove a.json success"}`,
				p.Call(protocol.SetConfig, `{"filename":"a.json","mtime":1500000005`+members+`}`))
			told(t, follower, "a.json", old+5)
			require.Empty(t, onDisk(t, srv, "a.json"))
			require.Equal(t, `{"a.json":[0,1500000005]}`, p.Call(protocol.GetCfgName, ``))
			for _, row := range [][2]string{
				{`{"file_pattern":"a.json"}`, deletedReply(old+5, `"a.json"`, `{}`)},
				{`{"file_pattern":"a.json","key_pattern":"k"}`, deletedReply(old+5, `"a.json"`, `null`)},
				{`{"file_pattern":"a.json","gt_mtime":1500000005}`, `1`},
				{`{"file_pattern":"a.json","gt_mtime":1500000004}`, deletedReply(old+5, `"a.json"`, `{}`)},
			} {
				require.Equal(t, row[1], p.Call(protocol.GetConfig, row[0]))
			}
		})
	}
	t.Run("older_is_refused", func(t *testing.T) {
		srv, p, follower := setServer(t)
		u := set(t, p, "a.json", `null`, `,"mtime":1499999999`)
		require.EqualValues(t, 409, u.Code)
		require.EqualValues(t, old, u.Mtime)
		follower.Quiet()
		require.NotEmpty(t, onDisk(t, srv, "a.json"))
		require.NotNil(t, p.Get("a.json").Contents)
	})
	t.Run("of_an_unknown_file_is_success_and_nothing", func(t *testing.T) {
		srv, p, _ := setServer(t)
		require.NoError(t, os.WriteFile(filepath.Join(srv.ConfDir, "plain.txt"), []byte("x"), 0o644))
		for _, name := range []string{"none.json", "plain.txt"} {
			u := set(t, p, name, `null`, ``)
			require.Zero(t, u.Code)
			require.Equal(t, fmt.Sprintf("remove %s success", name), u.Desc)
		}
		require.Equal(t, `{"a.json":[1,1500000000]}`, p.Call(protocol.GetCfgName, ``))
		require.Equal(t, "x", onDisk(t, srv, "plain.txt"))
	})
	t.Run("a_second_time_pushes_nothing", func(t *testing.T) {
		_, p, follower := setServer(t)
		set(t, p, "a.json", `null`, ``)
		told(t, follower, "a.json", now)
		require.Zero(t, set(t, p, "a.json", `null`, ``).Code)
		follower.Quiet()
	})
	t.Run("recreation_older_than_the_delete_is_refused_and_stays_deleted", func(t *testing.T) {
		srv, p, follower := setServer(t)
		set(t, p, "a.json", `null`, `,"mtime":1500000009`)
		told(t, follower, "a.json", old+9)
		require.EqualValues(t, 409, set(t, p, "a.json", `{"k":1}`, `,"mtime":1500000008`).Code)
		follower.Quiet()
		require.Empty(t, onDisk(t, srv, "a.json"))
		require.Contains(t, p.Call(protocol.GetCfgName, ``), `"a.json":[0,`)
	})
	t.Run("recreation_is_told_to_the_same_subscribers", func(t *testing.T) {
		_, p, follower := setServer(t)
		set(t, p, "a.json", `null`, ``)
		told(t, follower, "a.json", now)
		require.Zero(t, set(t, p, "a.json", `{"k":1}`, ``).Code)
		told(t, follower, "a.json", now+1)
	})
	t.Run("is_remembered_across_a_restart", func(t *testing.T) {
		srv, p, _ := setServer(t)
		set(t, p, "a.json", `null`, `,"mtime":1500000009`)
		srv.Restart()
		p = peer(t, srv)
		require.Equal(t, `{"a.json":[0,1500000009]}`, p.Call(protocol.GetCfgName, ``))
		require.Equal(t, deletedReply(old+9, `"a.json"`, `{}`), p.Call(protocol.GetConfig, `{"file_pattern":"a.json","gt_mtime":5}`), "no unknown file, which kills C++ clients")
		require.EqualValues(t, 409, set(t, p, "a.json", `{"k":1}`, `,"mtime":1500000008`).Code)
	})
}

func TestSetConfigRefusals(t *testing.T) {
	srv, p, follower := setServer(t)
	before := p.Call(protocol.GetCfgName, ``)
	for _, body := range []string{`{}`, `{"filename":""}`, `{"filename":5,"contents":{}}`, `{"filename":null}`, `{"filename":["a.json"]}`, `[]`, `"a.json"`, `null`, `{"FileName":"a.json"}`} {
		t.Run("without_a_name_is_400_under_the_reply_id_"+body, func(t *testing.T) {
			require.EqualValues(t, 400, result(t, p.Call(protocol.SetConfig, body)).Code)
			p.Quiet()
		})
	}
	t.Run("bad_json_is_404", func(t *testing.T) {
		require.EqualValues(t, 404, result(t, p.Call(protocol.SetConfig, `{"filename":"a.json","contents":{}`)).Code)
	})
	hostile := []string{
		"../out.json", "sub/../../out.json", "..", "/etc/out.json", "//out.json", "a//b.json", "./a.json", "sub/./a.json", "sub/", ".hidden.json", ".git/a.json",
		"sub/.x/a.json", "a\x00.json", "a.json\x00", "a\n.json", "a\x7f.json", `..\out.json`, `a\b.json`, strings.Repeat("x", 252) + ".json", strings.Repeat("d/", 600) + "a.json",
	}
	for _, name := range hostile {
		t.Run(fmt.Sprintf("hostile_name_is_400_%.20q", name), func(t *testing.T) {
			for _, contents := range []string{`{"evil":1}`, `null`} {
				u := set(t, p, name, contents, ``)
				if contents == `null` && u.Code == 0 {
					continue // deleting what cannot be is done already
				}
				require.EqualValues(t, 400, u.Code, u.Desc)
			}
		})
	}
	t.Run("name_with_invalid_utf8_is_400", func(t *testing.T) {
		require.EqualValues(t, 400, result(t, p.Call(protocol.SetConfig, "{\"filename\":\"a\xff.json\",\"contents\":{}}")).Code)
	})
	t.Run("nothing_of_it_has_left_a_trace", func(t *testing.T) {
		follower.Quiet()
		require.Equal(t, before, p.Call(protocol.GetCfgName, ``))
		var found []string
		require.NoError(t, filepath.WalkDir(filepath.Dir(srv.ConfDir), func(path string, d os.DirEntry, err error) error {
			if err == nil && !d.IsDir() && strings.HasSuffix(path, ".json") {
				found = append(found, path)
			}
			return err
		}))
		require.Equal(t, []string{filepath.Join(srv.ConfDir, "a.json")}, found)
	})
	t.Run("meta_json_that_is_no_object_is_refused", func(t *testing.T) {
		require.NotZero(t, set(t, p, "_meta.json", `[1]`, ``).Code)
		require.Nil(t, p.Get("_meta.json").Contents)
	})
}

func TestSetConfigThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	t.Run("name_of_a_directory", func(t *testing.T) {
		srv, p, _ := setServer(t)
		require.NoError(t, os.Mkdir(filepath.Join(srv.ConfDir, "dir.json"), 0o755))
		require.NotZero(t, set(t, p, "dir.json", `{"k":1}`, ``).Code)
		require.Nil(t, p.Get("dir.json").Contents)
	})
	t.Run("file_in_the_way_of_a_directory", func(t *testing.T) {
		_, p, _ := setServer(t)
		require.NotZero(t, set(t, p, "a.json/b.json", `{"k":1}`, ``).Code)
		require.Nil(t, p.Get("a.json/b.json").Contents)
		require.NotNil(t, p.Get("a.json").Contents)
	})
	t.Run("symlink_that_leads_outside", func(t *testing.T) {
		srv, p, _ := setServer(t)
		outside := t.TempDir()
		require.NoError(t, os.Symlink(outside, filepath.Join(srv.ConfDir, "out")))
		require.NotZero(t, set(t, p, "out/evil.json", `{"k":1}`, ``).Code)
		entries, err := os.ReadDir(outside)
		require.NoError(t, err)
		require.Empty(t, entries)
	})
	for _, full := range []string{"configuration", "data"} {
		t.Run("full_disk_of_the_"+full+"_directory_is_507_with_nothing_changed_and_nothing_pushed", func(t *testing.T) {
			var filesFail atomic.Bool
			trace := &atomicfiletest.Trace{FS: atomicfile.OS(), Hook: func(op atomicfiletest.Op) error {
				if filesFail.Load() && op.Kind == "write" {
					return syscall.ENOSPC
				}
				return nil
			}}
			log := memory.ForTest(t)
			srv := start(t, servertest.Options{Files: files("a.json", `{"k":1}`), Store: confstore.Config{FS: trace, State: log}, Before: func(dir string) {
				require.NoError(t, os.Mkdir(filepath.Join(filepath.Dir(dir), "data"), 0o755))
			}})
			p, follower := peer(t, srv), subscribed(t, srv, "a.json")
			before := onDisk(t, srv, "a.json")
			if full == "data" {
				log.SetFull(true)
			} else {
				filesFail.Store(true)
			}
			u := set(t, p, "a.json", `{"k":2}`, ``)
			require.EqualValues(t, 507, u.Code)
			require.NotContains(t, u.Desc, srv.ConfDir, "peers learn no paths")
			follower.Quiet()
			require.JSONEq(t, `{"k":1}`, string(p.Get("a.json").Contents))
			require.Equal(t, before, onDisk(t, srv, "a.json"))
			filesFail.Store(false)
			log.SetFull(false)
		})
	}
}

func TestSetConfigIfMtime(t *testing.T) {
	_, p, follower := setServer(t)
	conflict := func(t *testing.T, name, condition string, stored int32) {
		t.Helper()
		u := set(t, p, name, `{"k":"no"}`, condition)
		require.EqualValues(t, 412, u.Code)
		require.Equal(t, stored, u.Mtime)
		follower.Quiet()
	}
	conflict(t, "a.json", `,"if_mtime":1499999999`, old)
	conflict(t, "a.json", `,"if_mtime":0`, old)
	conflict(t, "none.json", `,"if_mtime":5`, 0)
	require.Equal(t, updated(0, now, "success"), set(t, p, "a.json", `{"k":2}`, `,"if_mtime":1500000000`))
	told(t, follower, "a.json", now)
	conflict(t, "a.json", `,"if_mtime":1500000000`, now)
	require.Zero(t, set(t, p, "b.json", `{}`, `,"if_mtime":0`).Code, "0 means that there is no such file")
	require.Zero(t, set(t, p, "a.json", `null`, fmt.Sprintf(`,"if_mtime":%d`, now)).Code)
	told(t, follower, "a.json", now+1)
	require.Zero(t, set(t, p, "a.json", `{"k":3}`, `,"if_mtime":0`).Code, "a deleted file is not there")
	told(t, follower, "a.json", now+2)
}

// An unseen edit on the disk is taken in before a write is judged, so that the write
// cannot destroy it unnoticed.
func TestSetConfigTakesInAnUnseenEdit(t *testing.T) {
	srv, p, follower := setServer(t)
	srv.Write("a.json", `{"k":"edited"}`)
	setTime(t, filepath.Join(srv.ConfDir, "a.json"), old+50)
	u := set(t, p, "a.json", `{"k":"wire"}`, `,"if_mtime":1500000000`)
	require.EqualValues(t, 412, u.Code)
	told(t, follower, "a.json", u.Mtime)
	require.GreaterOrEqual(t, u.Mtime, int32(old+50))
	require.JSONEq(t, `{"k":"edited"}`, string(p.Get("a.json").Contents))
}

// Server-to-server writes from a client are neither obeyed nor answered.
func TestSetConfigBetweenServersIsIgnored(t *testing.T) {
	srv, p, follower := setServer(t)
	for _, cmd := range []protocol.Command{protocol.SetConfig2, protocol.SetConfig3} {
		p.Send(cmd, `{"filename":"a.json","mtime":1600000000,"contents":{"k":"evil"},"callby":"setall"}`)
		p.Send(cmd, `{}`)
		p.Send(cmd, `[`)
	}
	p.Quiet()
	follower.Quiet()
	require.EqualValues(t, 6, srv.Stats().Get("server_limits_met_total", "role"))
	require.JSONEq(t, `{"k":1}`, string(p.Get("a.json").Contents))
}
