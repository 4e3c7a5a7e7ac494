package integration

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/confstore"
	"confcenter/internal/servertest"
	"confcenter/protocol"
	"confcenter/server/tcp"
)

// heir follows a document that inherits, as an SDK does: it fetches only when told of a
// greater version than it has.
type heir struct {
	*servertest.Server
	t      *testing.T
	sdk    *servertest.Peer
	writer *servertest.Peer
	name   string
	has    int32
}

func startHeir(t *testing.T, opts servertest.Options, name string) *heir {
	t.Helper()
	srv := start(t, opts)
	h := &heir{Server: srv, t: t, sdk: subscribed(t, srv, name), writer: peer(t, srv), name: name}
	h.has = get(t, h.sdk, name, true).Mtime
	return h
}

// told expects pushes for these names in this order, the last for the document itself
// with a greater version than the SDK has, and new contents of that version.
func (h *heir) told(contents string, names ...string) {
	h.t.Helper()
	for i, name := range names {
		c := h.sdk.Push()
		require.Equal(h.t, name, c.File)
		if i == len(names)-1 {
			require.Greater(h.t, c.Mtime, h.has, "the SDK acts on a greater version only")
			h.fetches(contents, c.Mtime)
		}
	}
	h.sdk.Quiet()
}

func (h *heir) fetches(contents string, mtime int32) {
	h.t.Helper()
	body := h.sdk.Call(protocol.GetConfig, string(protocol.AppendConfigQuery(nil, h.name, "", h.has, true)))
	c, err := protocol.ParseConfig([]byte(body))
	require.NoError(h.t, err)
	require.False(h.t, c.UpToDate, "what was told is not there")
	require.JSONEq(h.t, contents, string(c.Contents))
	require.Equal(h.t, mtime, c.Mtime)
	h.has = c.Mtime
	require.Equal(h.t, `1`, h.sdk.Call(protocol.GetConfig, string(protocol.AppendConfigQuery(nil, h.name, "", h.has, true))))
}

func family() servertest.Options {
	return servertest.Options{Files: files(
		"_meta.json", `{"conf_inherit":{"dev.json":"common.json app.json"}}`,
		"common.json", `{"c":1,"o":{"c":1}}`, "app.json", `{"a":1,"o":{"a":1}}`, "dev.json", `{"d":1}`, "other.json", `{}`,
	)}
}

func TestInheritedChanges(t *testing.T) {
	t.Parallel()
	t.Run("a_base_set_is_told_by_its_name_first_then_by_the_subscribed_name", func(t *testing.T) {
		h := startHeir(t, family(), "dev")
		mtime := h.writer.Set("common.json", `{"c":2}`)
		require.Equal(t, protocol.Change{File: "common.json", Mtime: mtime}, h.sdk.Push())
		h.told(`{"c":2,"a":1,"o":{"a":1},"d":1}`, "dev")
		h.writer.Set("common.json", `{"c":3}`)
		h.told(`{"c":3,"a":1,"o":{"a":1},"d":1}`, "common.json", "dev")
	})
	t.Run("a_base_edited_on_the_disk_too", func(t *testing.T) {
		h := startHeir(t, family(), "dev.json")
		h.Write("app.json", `{"a":2}`)
		h.told(`{"c":1,"o":{"c":1},"a":2,"d":1}`, "app.json", "dev.json")
	})
	t.Run("a_base_older_than_what_the_heir_has_is_told_with_a_greater_version", func(t *testing.T) {
		opts := family()
		opts.Before = at(t, map[string]int32{"common.json": old, "app.json": old, "dev.json": now + 1000})
		h := startHeir(t, opts, "dev.json")
		require.EqualValues(t, now+1000, h.has)
		require.Greater(t, set(t, h.writer, "common.json", `{"c":2}`, `,"mtime":1500000001`).Mtime, int32(now+1000))
		h.told(`{"c":2,"a":1,"o":{"a":1},"d":1}`, "common.json", "dev.json")
	})
	t.Run("a_base_removed_by_the_wire_or_from_the_disk", func(t *testing.T) {
		h := startHeir(t, family(), "dev.json")
		require.Zero(t, set(t, h.writer, "app.json", `null`, ``).Code)
		h.told(`{"c":1,"o":{"c":1},"d":1}`, "app.json", "dev.json")
		h.Remove("common.json")
		h.told(`{"d":1}`, "common.json", "dev.json")
		h.writer.Set("app.json", `{"a":9}`)
		h.told(`{"a":9,"d":1}`, "app.json", "dev.json")
	})
	t.Run("the_document_itself_is_told_by_its_name_alone", func(t *testing.T) {
		h := startHeir(t, family(), "dev.json")
		h.writer.Set("dev.json", `{"d":2,"c":0}`)
		h.told(`{"c":0,"a":1,"o":{"a":1},"d":2}`, "dev.json")
	})
	t.Run("a_document_removed_leaves_its_bases", func(t *testing.T) {
		h := startHeir(t, family(), "dev.json")
		set(t, h.writer, "dev.json", `null`, ``)
		h.told(`{"c":1,"a":1,"o":{"a":1}}`, "dev.json")
	})
	t.Run("bases_changed_together_are_told_weakest_first_and_the_document_once", func(t *testing.T) {
		opts := family()
		opts.Store = confstore.Config{QuietPeriod: 2 * time.Second, MaxSettle: servertest.Patience}
		h := startHeir(t, opts, "dev.json")
		h.Write("dev.json", `{"d":2}`)
		h.Write("app.json", `{"a":2}`)
		h.Write("common.json", `{"c":2}`)
		h.told(`{"c":2,"a":2,"d":2}`, "common.json", "app.json", "dev.json")
	})
	t.Run("a_change_that_the_document_hides_is_told_all_the_same", func(t *testing.T) {
		h := startHeir(t, family(), "dev.json")
		h.writer.Set("dev.json", `{"c":0,"d":1}`)
		h.told(`{"c":0,"a":1,"o":{"a":1},"d":1}`, "dev.json")
		h.writer.Set("common.json", `{"c":5}`)
		h.told(`{"c":0,"a":1,"o":{"a":1},"d":1}`, "common.json", "dev.json")
	})
	t.Run("files_that_are_no_bases_are_not_told", func(t *testing.T) {
		h := startHeir(t, family(), "dev.json")
		h.writer.Set("other.json", `{"k":1}`)
		h.sdk.Quiet()
	})
	t.Run("who_follows_base_and_heir_is_told_of_the_base_once", func(t *testing.T) {
		h := startHeir(t, family(), "dev.json")
		require.Zero(t, book(t, h.sdk, `{"file_pattern":"common.json"}`).Code)
		mtime := h.writer.Set("common.json", `{"c":2}`)
		require.Equal(t, protocol.Change{File: "common.json", Mtime: mtime}, h.sdk.Push())
		h.told(`{"c":2,"a":1,"o":{"a":1},"d":1}`, "dev.json")
	})
	t.Run("frame_exact_tells_the_base_alone", func(t *testing.T) {
		opts := family()
		opts.Server = tcp.Config{FrameExact: true}
		h := startHeir(t, opts, "dev.json")
		mtime := h.writer.Set("common.json", `{"c":2}`)
		told(t, h.sdk, "common.json", mtime)
		require.Greater(t, mtime, h.has, "which is enough for an SDK that asks for whatever is older")
		h.fetches(`{"c":2,"a":1,"o":{"a":1},"d":1}`, get(t, h.sdk, "dev.json", true).Mtime)
		told(t, h.sdk, "dev.json", h.writer.Set("dev.json", `{"d":2}`))
	})
}

func TestChangesOfMetaJSON(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ name, meta, contents string }{
		{"a_shortened_list", `{"conf_inherit":{"dev.json":"common.json"}}`, `{"c":1,"o":{"c":1},"d":1}`},
		{"a_longer_list", `{"conf_inherit":{"dev.json":"common.json app.json other.json"}}`, `{"c":1,"a":1,"o":{"a":1},"d":1,"other":1}`},
		{"another_order", `{"conf_inherit":{"dev.json":"app.json common.json"}}`, `{"c":1,"a":1,"o":{"c":1},"d":1}`},
		{"no_list_any_more", `{}`, `{"d":1}`},
		{"deep_merging_for_all", `{"conf_inherit":{"dev.json":"common.json app.json"},"inherit_options":{"*":{"merge":"deep"}}}`, `{"c":1,"a":1,"o":{"c":1,"a":1},"d":1}`},
		{"deep_merging_for_the_file", `{"conf_inherit":{"dev.json":"common.json app.json"},"inherit_options":{"dev.json":{"merge":"deep"}}}`, `{"c":1,"a":1,"o":{"c":1,"a":1},"d":1}`},
		{"following_the_bases_bases", `{"conf_inherit":{"dev.json":"app.json","app.json":"other.json"},"inherit_options":{"dev.json":{"chain":true}}}`, `{"other":1,"a":1,"o":{"a":1},"d":1}`},
	} {
		for _, way := range []string{"set_by_the_wire", "edited_on_the_disk"} {
			t.Run(row.name+"_"+way+"_reaches_subscribers_with_a_greater_version", func(t *testing.T) {
				opts := family()
				opts.Files["other.json"] = `{"other":1}`
				h := startHeir(t, opts, "dev.json")
				if way == "set_by_the_wire" {
					h.writer.Set("_meta.json", row.meta)
				} else {
					h.Write("_meta.json", row.meta)
				}
				h.told(row.contents, "dev.json")
			})
		}
	}
	t.Run("with_a_shortened_list_the_dropped_base_is_told_no_more", func(t *testing.T) {
		h := startHeir(t, family(), "dev.json")
		h.writer.Set("_meta.json", `{"conf_inherit":{"dev.json":"common.json"}}`)
		h.told(`{"c":1,"o":{"c":1},"d":1}`, "dev.json")
		h.writer.Set("app.json", `{"a":2}`)
		h.sdk.Quiet()
		h.writer.Set("common.json", `{"c":2}`)
		h.told(`{"c":2,"d":1}`, "common.json", "dev.json")
	})
	t.Run("a_list_that_names_a_base_anew_makes_existing_subscriptions_follow_it", func(t *testing.T) {
		h := startHeir(t, family(), "dev.json")
		h.writer.Set("_meta.json", `{"conf_inherit":{"dev.json":"other.json"}}`)
		h.told(`{"d":1}`, "dev.json")
		h.writer.Set("other.json", `{"x":1}`)
		h.told(`{"x":1,"d":1}`, "other.json", "dev.json")
	})
	t.Run("a_list_changed_while_the_server_was_down_raises_the_version", func(t *testing.T) {
		h := startHeir(t, family(), "dev.json")
		h.Stop()
		h.Write("_meta.json", `{"conf_inherit":{"dev.json":"common.json"}}`)
		h.Restart()
		h.sdk = subscribed(t, h.Server, "dev.json")
		c := get(t, h.sdk, "dev.json", true)
		require.Greater(t, c.Mtime, h.has)
		require.JSONEq(t, `{"c":1,"o":{"c":1},"d":1}`, string(c.Contents))
	})
	t.Run("a_change_that_concerns_others_is_not_told", func(t *testing.T) {
		h := startHeir(t, family(), "dev.json")
		h.writer.Set("_meta.json", `{"conf_inherit":{"dev.json":"common.json app.json","other.json":"app.json"},"app_profile":{"default":{"x":"y.json"}}}`)
		h.sdk.Quiet()
	})
	t.Run("who_follows_without_incbase_is_not_told", func(t *testing.T) {
		h := startHeir(t, family(), "dev.json")
		p := peer(t, h.Server)
		book(t, p, `{"file_pattern":"dev.json"}`)
		h.writer.Set("_meta.json", `{}`)
		p.Quiet()
	})
	t.Run("cycles_and_missing_bases_are_reported_by_name_and_cut", func(t *testing.T) {
		opts := family()
		opts.Files["_meta.json"] = `{"conf_inherit":{"dev.json":"app.json","app.json":"dev.json","other.json":"nowhere.json"},"inherit_options":{"*":{"chain":true}}}`
		h := startHeir(t, opts, "dev.json")
		require.JSONEq(t, `{"a":1,"o":{"a":1},"d":1}`, string(get(t, h.sdk, "dev.json", true).Contents))
		_, problems, err := protocol.ParseConfigFiles([]byte(h.sdk.Call(protocol.GetCfgName, `{"detail":1}`)))
		require.NoError(t, err)
		text := fmt.Sprint(problems)
		for _, name := range []string{"dev.json", "app.json", "nowhere.json"} {
			require.Contains(t, text, name)
		}
	})
}
