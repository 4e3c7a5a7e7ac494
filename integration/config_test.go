package integration

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/internal/servertest"
	"confcenter/protocol"
	"confcenter/server/tcp"
)

// old is a file time well in the past: 2017.
const old = 1_500_000_000

// The files that GETCONFIG chooses from, with their times.
var (
	library = files(
		"_meta.json", `{"conf_inherit":{
			"app-dev.json": "common.json app.json",
			"sparse.json": "  common.json   missing.json ",
			"tabbed.json": "common.json\tapp.json",
			"comma.json": "common.json,app.json",
			"list.json": ["common.json"],
			"array.json": "common.json",
			"overarray.json": "array.json common.json",
			"ghost.json": "common.json app.json",
			"hollow.json": "missing.json",
			"second.json": "app-dev.json"
		}}`,
		"common.json", `{"key1":"common","hojl":"common","key3":{"a":1,"b":2},"nil":1}`,
		"app.json", `{"key1":"app","hojl":"app"}`,
		"app-dev.json", "{\n    \"key1\": \"dev\",\n    \"key2\": [ 10, [ 20, 21 ] ],\n    \"key3\": { \"subkey3\": \"value3\" },\n    \"nil\": null\n}\n",
		"sparse.json", `{"own":1}`, "tabbed.json", `{"own":1}`, "comma.json", `{"own":1}`, "list.json", `{"own":1}`,
		"array.json", `[1,2]`, "overarray.json", `{"own":1}`, "second.json", `{"own":1}`,
		"scalar.json", `"text"`, "null.json", `null`,
		"paths.json", `{"key":{"sub":{"0":"member"}},"0":"zero","list":["first",{"k":"second"}],"é":1,"a\"b":2,"":3," ":4,"deep":{"key":{"sub":5}}}`,
		"exact", "ignored", "exact.json", `{"with":"suffix"}`,
	)
	libraryTimes = map[string]int32{
		"_meta.json": old, "common.json": old + 30, "app.json": old + 20, "app-dev.json": old + 10, "sparse.json": old + 40, "tabbed.json": old,
		"comma.json": old, "list.json": old, "array.json": old, "overarray.json": old, "second.json": old, "scalar.json": old, "null.json": old,
		"paths.json": old, "exact.json": old,
	}
)

const (
	devOwn    = `{"key1":"dev","key2":[10,[20,21]],"key3":{"subkey3":"value3"},"nil":null}`
	devMerged = `{"key1":"dev","hojl":"app","key3":{"subkey3":"value3"},"nil":null,"key2":[10,[20,21]]}`
)

// reply is the full form, with the name as it was sent.
func reply(mtime int32, name, contents string) string {
	return fmt.Sprintf(`{"code":0,"mtime":%d,"file_pattern":%s,"contents":%s}`, mtime, name, contents)
}

// deletedReply is the reply for a deleted file: CppCloud's {}, and a member of ours that
// distinguishes it from an empty document.
func deletedReply(mtime int32, name, contents string) string {
	return fmt.Sprintf(`{"code":0,"mtime":%d,"file_pattern":%s,"contents":%s,"deleted":1}`, mtime, name, contents)
}

func TestGetConfig(t *testing.T) {
	srv := start(t, servertest.Options{Files: library, Before: at(t, libraryTimes)})
	for _, row := range []struct{ name, request, want string }{
		{"full_form_is_compact_and_keeps_the_order_of_members", `{"file_pattern":"app-dev.json"}`, reply(old+10, `"app-dev.json"`, devOwn)},
		{"name_is_completed_and_echoed_as_requested", `{"file_pattern":"app-dev"}`, reply(old+10, `"app-dev"`, devOwn)},
		{"name_with_escapes_is_echoed_byte_by_byte", `{"file_pattern":"app\u002ddev"}`, reply(old+10, `"app\u002ddev"`, devOwn)},
		{"dot_slash_is_another_name", `{"file_pattern":"./app-dev.json"}`, reply(0, `"./app-dev.json"`, `null`)},
		{"other_case_is_another_name", `{"file_pattern":"App-dev.json"}`, reply(0, `"App-dev.json"`, `null`)},
		{"name_with_a_nul_is_unknown", `{"file_pattern":"app-dev.json\u0000"}`, reply(0, `"app-dev.json\u0000"`, `null`)},
		{"unknown_file_is_code_0_mtime_0_null", `{"file_pattern":"none.json"}`, reply(0, `"none.json"`, `null`)},
		{"nothing_is_mandatory_and_the_name_then_empty", `{}`, reply(0, `""`, `null`)},
		{"name_with_a_quote_is_echoed_valid", `{"file_pattern":"a\"b\\c\n"}`, reply(0, `"a\"b\\c\n"`, `null`)},
		{"a_json_file_may_hold_an_array", `{"file_pattern":"array.json"}`, reply(old, `"array.json"`, `[1,2]`)},
		{"or_a_scalar", `{"file_pattern":"scalar.json"}`, reply(old, `"scalar.json"`, `"text"`)},
		{"or_null", `{"file_pattern":"null.json"}`, reply(old, `"null.json"`, `null`)},

		{"gt_mtime_equal_is_up_to_date", `{"file_pattern":"app.json","gt_mtime":1500000020}`, `1`},
		{"gt_mtime_greater_is_up_to_date", `{"file_pattern":"app.json","gt_mtime":1500000021}`, `1`},
		{"gt_mtime_smaller_is_the_full_form", `{"file_pattern":"app.json","gt_mtime":1500000019}`, reply(old+20, `"app.json"`, library["app.json"])},
		{"gt_mtime_zero_is_none", `{"file_pattern":"app.json","gt_mtime":0}`, reply(old+20, `"app.json"`, library["app.json"])},
		{"gt_mtime_negative_is_always_the_full_form", `{"file_pattern":"app.json","gt_mtime":-1}`, reply(old+20, `"app.json"`, library["app.json"])},
		{"up_to_date_comes_before_the_key", `{"file_pattern":"app.json","gt_mtime":1500000020,"key_pattern":"/none"}`, `1`},
		{"gt_mtime_with_a_completed_name", `{"file_pattern":"app","gt_mtime":1500000020}`, `1`},

		{"incbase_merges_the_bases_left_weakest", `{"file_pattern":"app-dev.json","incbase":1}`, reply(old+30, `"app-dev.json"`, devMerged)},
		{"incbase_counts_the_greatest_mtime_of_all", `{"file_pattern":"app-dev.json","incbase":1,"gt_mtime":1500000029}`, reply(old+30, `"app-dev.json"`, devMerged)},
		{"incbase_up_to_date_with_the_greatest", `{"file_pattern":"app-dev.json","incbase":1,"gt_mtime":1500000030}`, `1`},
		{"incbase_any_other_int_but_0", `{"file_pattern":"app-dev.json","incbase":-2}`, reply(old+30, `"app-dev.json"`, devMerged)},
		{"incbase_0_is_no", `{"file_pattern":"app-dev.json","incbase":0}`, reply(old+10, `"app-dev.json"`, devOwn)},
		{"incbase_as_a_string_like_the_cpp_sdk", `{"file_pattern":"app-dev.json","incbase":"1"}`, reply(old+30, `"app-dev.json"`, devMerged)},
		{"incbase_as_a_string_0_is_no", `{"file_pattern":"app-dev.json","incbase":"0"}`, reply(old+10, `"app-dev.json"`, devOwn)},
		{"incbase_true", `{"file_pattern":"app-dev.json","incbase":true}`, reply(old+30, `"app-dev.json"`, devMerged)},
		{"inbase_the_documents_spelling", `{"file_pattern":"app-dev.json","inbase":1}`, reply(old+30, `"app-dev.json"`, devMerged)},
		{"incbase_with_a_completed_name", `{"file_pattern":"app-dev","incbase":1}`, reply(old+30, `"app-dev"`, devMerged)},
		{"incbase_without_an_entry", `{"file_pattern":"app.json","incbase":1}`, reply(old+20, `"app.json"`, library["app.json"])},
		{"missing_bases_and_blanks_are_skipped", `{"file_pattern":"sparse.json","incbase":1}`,
			reply(old+40, `"sparse.json"`, `{"key1":"common","hojl":"common","key3":{"a":1,"b":2},"nil":1,"own":1}`)},
		{"a_tab_separates_nothing", `{"file_pattern":"tabbed.json","incbase":1}`, reply(old, `"tabbed.json"`, `{"own":1}`)},
		{"a_comma_separates_nothing", `{"file_pattern":"comma.json","incbase":1}`, reply(old, `"comma.json"`, `{"own":1}`)},
		{"a_list_is_not_understood", `{"file_pattern":"list.json","incbase":1}`, reply(old, `"list.json"`, `{"own":1}`)},
		{"a_base_that_is_no_object_is_skipped", `{"file_pattern":"overarray.json","incbase":1}`,
			reply(old+30, `"overarray.json"`, `{"key1":"common","hojl":"common","key3":{"a":1,"b":2},"nil":1,"own":1}`)},
		{"a_file_that_is_no_object_is_skipped", `{"file_pattern":"array.json","incbase":1}`, reply(old+30, `"array.json"`, library["common.json"])},
		{"bases_of_bases_are_not_followed", `{"file_pattern":"second.json","incbase":1}`,
			reply(old+10, `"second.json"`, `{"key1":"dev","key2":[10,[20,21]],"key3":{"subkey3":"value3"},"nil":null,"own":1}`)},
		{"a_missing_file_with_bases_is_the_bases_with_mtime_0", `{"file_pattern":"ghost.json","incbase":1}`,
			reply(0, `"ghost.json"`, `{"key1":"app","hojl":"app","key3":{"a":1,"b":2},"nil":1}`)},
		{"a_missing_file_with_bases_and_gt_mtime_is_the_same", `{"file_pattern":"ghost.json","incbase":1,"gt_mtime":5}`,
			reply(0, `"ghost.json"`, `{"key1":"app","hojl":"app","key3":{"a":1,"b":2},"nil":1}`)},
		{"a_missing_file_without_any_base_is_an_empty_object", `{"file_pattern":"hollow.json","incbase":1}`, reply(0, `"hollow.json"`, `{}`)},
		{"a_missing_file_with_bases_asked_without_incbase", `{"file_pattern":"ghost.json"}`, reply(0, `"ghost.json"`, `null`)},
		{"incbase_with_a_key", `{"file_pattern":"app-dev.json","incbase":1,"key_pattern":"/hojl"}`, reply(old+30, `"app-dev.json"`, `"app"`)},
		{"the_merge_is_shallow", `{"file_pattern":"app-dev.json","incbase":1,"key_pattern":"/key3/a"}`, reply(old+30, `"app-dev.json"`, `null`)},

		{"meta_json_is_an_ordinary_config", `{"file_pattern":"_meta.json","key_pattern":"conf_inherit/app-dev.json"}`, reply(old, `"_meta.json"`, `"common.json app.json"`)},
	} {
		t.Run(row.name, func(t *testing.T) {
			require.Equal(t, row.want, peer(t, srv).Call(protocol.GetConfig, row.request))
		})
	}
	t.Run("unknown_file_with_gt_mtime_is_an_object_never_a_bare_null", func(t *testing.T) {
		got := object(t, peer(t, srv).Call(protocol.GetConfig, `{"file_pattern":"none.json","gt_mtime":5}`))
		require.NotEmpty(t, got["desc"])
		delete(got, "desc")
		require.Equal(t, map[string]any{"code": json.Number("404"), "mtime": json.Number("0"), "file_pattern": "none.json", "contents": nil}, got)
	})
}

func TestGetConfigKeyPattern(t *testing.T) {
	srv := start(t, servertest.Options{Files: library, Before: at(t, libraryTimes)})
	whole := library["paths.json"]
	for pattern, want := range map[string]string{
		"": whole, "/": whole, "//": whole, "/ /": whole, " ": whole,
		"key/sub": `{"0":"member"}`, "/key/sub": `{"0":"member"}`, "key/sub/": `{"0":"member"}`, "//key//sub": `{"0":"member"}`, "/key/ /sub": `{"0":"member"}`,
		"key/sub/0": `"member"`, "0": `"zero"`, "list/0": `"first"`, "list/00": `"first"`, "list/01/k": `"second"`, "list/4294967296": `"first"`,
		"list/1": `{"k":"second"}`, "list/2": `null`, "list/-1": `null`, "list/x": `null`, "list/1x": `null`, "list/+1": `null`, "list/0/0": `null`,
		"none": `null`, "key/none": `null`, "KEY": `null`, "é": `1`, `a"b`: `2`, "deep/key/sub": `5`, "00": `null`,
	} {
		t.Run(strings.ReplaceAll("pattern_"+pattern, "/", "|"), func(t *testing.T) {
			body := peer(t, srv).Call(protocol.GetConfig, `{"file_pattern":"paths.json","key_pattern":`+quote(pattern)+`}`)
			require.Equal(t, reply(old, `"paths.json"`, want), body)
		})
	}
	t.Run("pattern_into_an_array_document", func(t *testing.T) {
		body := peer(t, srv).Call(protocol.GetConfig, `{"file_pattern":"array.json","key_pattern":"/1"}`)
		require.Equal(t, reply(old, `"array.json"`, `2`), body)
	})
	t.Run("pattern_into_a_scalar_is_null", func(t *testing.T) {
		body := peer(t, srv).Call(protocol.GetConfig, `{"file_pattern":"scalar.json","key_pattern":"/0"}`)
		require.Equal(t, reply(old, `"scalar.json"`, `null`), body)
	})
}

func TestGetConfigKeepsTextAsItIs(t *testing.T) {
	srv := start(t, servertest.Options{Files: files("doubles.json", `{"k":1,"k":2,"K":3}`)})
	p := peer(t, srv)
	t.Run("doubles_are_both_kept_by_a_first_start", func(t *testing.T) {
		require.Equal(t, `{"k":1,"k":2,"K":3}`, string(p.Get("doubles.json").Contents))
		c, err := protocol.ParseConfig([]byte(p.Call(protocol.GetConfig, `{"file_pattern":"doubles.json","key_pattern":"k"}`)))
		require.NoError(t, err)
		require.Equal(t, "1", string(c.Contents), "the first counts")
	})
	for name, text := range map[string]string{
		"numbers_keep_their_text": `{"a":1.50,"b":1e3,"c":18446744073709551616,"d":-0,"e":0.1e-7,"f":9223372036854775807,"g":1E+2}`,
		"strings_keep_their_text": `{"a":"/<>&","b":"éé\u2028","c":"\/","d":"\u0001\b\f\n","e":"😀"}`,
		"empty_containers":        `{"a":{},"b":[],"c":[{}],"":""}`,
	} {
		t.Run(name, func(t *testing.T) {
			for _, doc := range []string{name + "-wire.json", name + "-file.json"} {
				if strings.HasSuffix(doc, "-wire.json") {
					p.Set(doc, text)
				} else {
					srv.Write(doc, text)
					srv.Store.Reload()
				}
				eventually(t, doc, func() bool { return p.Get(doc).Contents != nil })
				require.Equal(t, text, string(p.Get(doc).Contents))
			}
		})
	}
	t.Run("no_length_loses_its_last_brace", func(t *testing.T) {
		// CppCloud's formatter cuts off the brace when the contents are 2033 bytes.
		for n := 2020; n < 2060; n++ {
			doc := `{"k":"` + strings.Repeat("x", n-8) + `"}`
			require.Len(t, doc, n)
			p.Set("len.json", doc)
			require.Equal(t, doc, string(p.Get("len.json").Contents))
		}
	})
}

func TestGetConfigLarge(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{"head":"here"`)
	for i := range 20_000 {
		fmt.Fprintf(&b, `,"key%d":{"n":%d,"text":"value of %d"}`, i, i, i)
	}
	b.WriteString(`}`)
	large := b.String()
	require.Greater(t, len(large), 800_000)
	srv := start(t, servertest.Options{Files: files("large.json", large, "heir.json", `{"own":1}`, "_meta.json", `{"conf_inherit":{"heir.json":"large.json"}}`)})
	p := peer(t, srv)
	t.Run("whole", func(t *testing.T) {
		require.Equal(t, large, string(p.Get("large.json").Contents))
	})
	t.Run("each_key_and_a_request_pipelined_behind_it", func(t *testing.T) {
		for i := 0; i < 20_000; i += 997 {
			path := fmt.Sprintf("key%d/text", i)
			large := p.Send(protocol.GetConfig, string(protocol.AppendConfigQuery(nil, "large.json", path, 0, false)))
			small := p.Send(protocol.GetConfig, `{"file_pattern":"heir.json"}`)
			require.Contains(t, answered(t, p, protocol.GetConfig, large), fmt.Sprintf(`"contents":"value of %d"`, i))
			require.Contains(t, answered(t, p, protocol.GetConfig, small), `"contents":{"own":1}`)
		}
	})
	t.Run("merged", func(t *testing.T) {
		c := get(t, p, "heir.json", true)
		require.Equal(t, large[:len(large)-1]+`,"own":1}`, string(c.Contents))
	})
	t.Run("key_of_the_merged", func(t *testing.T) {
		body := p.Call(protocol.GetConfig, `{"file_pattern":"heir","incbase":1,"key_pattern":"key19999/n"}`)
		require.Contains(t, body, `"contents":19999}`)
	})
}

func TestGetConfigDocLiteral(t *testing.T) {
	srv := start(t, servertest.Options{Files: files("a.json", `{}`), Server: tcp.Config{DocLiteral: true}})
	p := peer(t, srv)
	require.Equal(t, `ok`, p.Call(protocol.GetConfig, `{"file_pattern":"a.json","gt_mtime":2147483647}`))
	require.Equal(t, `fail`, p.Call(protocol.GetConfig, `{"file_pattern":"none.json","gt_mtime":1}`))
	require.Equal(t, reply(0, `"none.json"`, `null`), p.Call(protocol.GetConfig, `{"file_pattern":"none.json"}`))
}

func TestGetCfgName(t *testing.T) {
	t.Parallel()
	t.Run("no_files_is_an_empty_object", func(t *testing.T) {
		srv := start(t, servertest.Options{})
		require.Equal(t, `{}`, peer(t, srv).Call(protocol.GetCfgName, ``))
	})
	t.Run("full_names_in_byte_order_compact_present_1_deleted_0", func(t *testing.T) {
		names := []string{"Z.json", "_meta.json", "a.json", "sub/b.json", "sub.json"}
		all := make(map[string]string)
		times := make(map[string]int32)
		for i, name := range names {
			all[name], times[name] = `{}`, old+int32(i)
		}
		srv := start(t, servertest.Options{Files: all, Before: at(t, times)})
		p := peer(t, srv)
		require.Equal(t, `{"Z.json":[1,1500000000],"_meta.json":[1,1500000001],"a.json":[1,1500000002],"sub.json":[1,1500000004],"sub/b.json":[1,1500000003]}`,
			p.Call(protocol.GetCfgName, ``))
		p.Call(protocol.SetConfig, `{"filename":"a.json","mtime":1600000000}`)
		require.Equal(t, `{"Z.json":[1,1500000000],"_meta.json":[1,1500000001],"a.json":[0,1600000000],"sub.json":[1,1500000004],"sub/b.json":[1,1500000003]}`,
			p.Call(protocol.GetCfgName, ``))
	})
	t.Run("body_is_ignored", func(t *testing.T) {
		srv := start(t, servertest.Options{Files: files("a.json", `{}`), Before: at(t, map[string]int32{"a.json": old})})
		for _, body := range []string{``, `{`, `[]`, `null`, "\x00", `{"detail":0}`} {
			require.Equal(t, `{"a.json":[1,1500000000]}`, peer(t, srv).Call(protocol.GetCfgName, body))
		}
	})
	t.Run("detail_shows_size_state_and_problems", func(t *testing.T) {
		srv := start(t, servertest.Options{
			Files:  files("good.json", `{ "k" : 1 }`, "bad.json", `{`, "_meta.json", `{"conf_inherit":{"good.json":"missing.json"}}`),
			Before: at(t, map[string]int32{"good.json": old}),
		})
		list, problems, err := protocol.ParseConfigFiles([]byte(peer(t, srv).Call(protocol.GetCfgName, `{"detail":1}`)))
		require.NoError(t, err)
		require.Contains(t, list, protocol.ConfigFile{Name: "good.json", Mtime: old, Size: 7, State: protocol.FileGood})
		var names []string
		for _, problem := range problems {
			names = append(names, problem.Name)
		}
		require.Contains(t, names, "bad.json")
		require.Contains(t, fmt.Sprint(problems), "missing.json")
	})
}

func TestWhatIsAConfigFile(t *testing.T) {
	names := []string{"a.json", "sub/dir/b.json", "ünï code.json", "x.json.json"}
	not := []string{"x.json.bak", ".json", ".hidden.json", ".git/c.json", "X.JSON", "plain.txt", "json", "sub/.d/e.json", "bom.json", "comment.json", "trailing.json", "empty.json"}
	all := make(map[string]string)
	for _, name := range append(append([]string(nil), names...), not...) {
		all[name] = `{"n":` + quote(name) + `}`
	}
	all["bom.json"] = "\xef\xbb\xbf{}"
	all["comment.json"] = "{} // no"
	all["trailing.json"] = "{} x"
	all["empty.json"] = ""
	outside := filepath.Join(t.TempDir(), "secret.json")
	require.NoError(t, os.WriteFile(outside, []byte(`{"secret":1}`), 0o644))
	srv := start(t, servertest.Options{Files: all, Before: func(dir string) {
		require.NoError(t, os.Symlink(outside, filepath.Join(dir, "out.json")))
		require.NoError(t, os.Symlink(filepath.Dir(outside), filepath.Join(dir, "outdir")))
		require.NoError(t, os.Symlink("a.json", filepath.Join(dir, "inside.json")))
		require.NoError(t, os.Mkdir(filepath.Join(dir, "folder.json"), 0o755))
	}})
	p := peer(t, srv)
	for _, name := range names {
		t.Run(strings.ReplaceAll(name, "/", "|")+"_is_served", func(t *testing.T) {
			require.JSONEq(t, all[name], string(p.Get(name).Contents))
		})
	}
	for _, name := range append(not, "out.json", "outdir/secret.json", "../secret.json", "folder.json") {
		t.Run(strings.ReplaceAll(name, "/", "|")+"_is_not", func(t *testing.T) {
			require.Nil(t, p.Get(name).Contents)
		})
	}
	t.Run("a_symlink_that_stays_inside_is_served", func(t *testing.T) {
		require.JSONEq(t, all["a.json"], string(p.Get("inside.json").Contents))
	})
	t.Run("the_list_has_just_these", func(t *testing.T) {
		want := append(append([]string(nil), names...), "inside.json")
		require.ElementsMatch(t, want, keys(object(t, p.Call(protocol.GetCfgName, ``))))
	})
}
