package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/confstore"
	"confcenter/internal/servertest"
	"confcenter/protocol"
)

// desk works on the conf directory while a subscriber listens.
type desk struct {
	*servertest.Server
	t        *testing.T
	follower *servertest.Peer
	versions map[string]int32 // last told or read
	edits    int
}

// startDesk serves files; the follower subscribes to all names, whether they exist or
// not, and to a sentinel.
func startDesk(t *testing.T, opts servertest.Options, names ...string) *desk {
	t.Helper()
	if opts.Files == nil {
		opts.Files = map[string]string{}
	}
	opts.Files["sentinel.json"] = `0`
	srv := start(t, opts)
	d := &desk{Server: srv, t: t, follower: peer(t, srv), versions: map[string]int32{}}
	for _, name := range append(names, "sentinel.json") {
		s := book(t, d.follower, fmt.Sprintf(`{"file_pattern":%s,"incbase":1,"missing_ok":1}`, quote(name)))
		require.Zero(t, s.Code, s.Desc)
		d.versions[name] = s.Mtime
	}
	return d
}

func (d *desk) path(name string) string { return filepath.Join(d.ConfDir, name) }

// edit writes into the file itself, like echo >.
func (d *desk) edit(name, text string) {
	d.t.Helper()
	require.NoError(d.t, os.WriteFile(d.path(name), []byte(text), 0o644))
}

// told expects one push for each name, in any order, with greater mtimes.
func (d *desk) told(names ...string) {
	d.t.Helper()
	left := map[string]bool{}
	for _, name := range names {
		left[name] = true
	}
	for range names {
		c := d.follower.Push()
		require.True(d.t, left[c.File], "%v, waiting for %v", c, left)
		delete(left, c.File)
		require.Greater(d.t, c.Mtime, d.versions[c.File], c.File)
		d.versions[c.File] = c.Mtime
	}
}

// nothingMore proves that every change on the disk has been pushed: the directory is
// read once more, and then the sentinel's push is the next.
func (d *desk) nothingMore() {
	d.t.Helper()
	d.Store.Reload()
	d.edits++
	d.edit("sentinel.json", fmt.Sprint(d.edits))
	d.told("sentinel.json")
	d.follower.Quiet()
}

// serves expects contents and the pushed version.
func (d *desk) serves(name, contents string) {
	d.t.Helper()
	c := get(d.t, d.follower, name, false)
	require.NotNil(d.t, c.Contents, name)
	require.JSONEq(d.t, contents, string(c.Contents))
	require.Equal(d.t, d.versions[name], c.Mtime)
}

func TestEditedFiles(t *testing.T) {
	t.Parallel()
	one := func() servertest.Options { return servertest.Options{Files: files("a.json", `{"k":0}`)} }

	t.Run("created", func(t *testing.T) {
		d := startDesk(t, one(), "new.json")
		d.edit("new.json", `{"k":1}`)
		d.told("new.json")
		d.serves("new.json", `{"k":1}`)
		d.nothingMore()
	})
	t.Run("edited_in_place_also_several_times_a_second", func(t *testing.T) {
		d := startDesk(t, one(), "a.json")
		for i := range 5 {
			d.edit("a.json", fmt.Sprintf(`{"k":%d}`, i+1))
			d.told("a.json")
			d.serves("a.json", fmt.Sprintf(`{"k":%d}`, i+1))
		}
		d.nothingMore()
	})
	t.Run("renamed_over", func(t *testing.T) {
		d := startDesk(t, one(), "a.json")
		d.Write("a.json", `{"k":1}`)
		d.told("a.json")
		d.serves("a.json", `{"k":1}`)
		d.nothingMore()
	})
	t.Run("saved_by_vim_with_a_backup_and_a_swap_file", func(t *testing.T) {
		opts := one()
		opts.Store.RemoveDelay = servertest.Patience // however slow this machine is
		d := startDesk(t, opts, "a.json")
		d.edit(".a.json.swp", "x")
		d.edit("4913", "")
		require.NoError(t, os.Remove(d.path("4913")))
		require.NoError(t, os.Rename(d.path("a.json"), d.path("a.json~")))
		d.edit("a.json", `{"k":1}`)
		require.NoError(t, os.Remove(d.path("a.json~")))
		require.NoError(t, os.Remove(d.path(".a.json.swp")))
		d.told("a.json")
		d.serves("a.json", `{"k":1}`)
		d.nothingMore()
	})
	t.Run("an_older_file_copied_over_with_its_time", func(t *testing.T) {
		d := startDesk(t, one(), "a.json")
		tmp := filepath.Join(t.TempDir(), "a.json")
		require.NoError(t, os.WriteFile(tmp, []byte(`{"k":"older"}`), 0o644))
		setTime(t, tmp, old)
		require.NoError(t, os.Rename(tmp, d.path("a.json")))
		d.told("a.json")
		d.serves("a.json", `{"k":"older"}`)
		d.nothingMore()
	})
	t.Run("moved_in_from_outside_and_moved_away", func(t *testing.T) {
		d := startDesk(t, one(), "a.json", "b.json")
		require.NoError(t, os.Rename(d.path("a.json"), d.path("b.json")))
		d.told("a.json", "b.json")
		d.serves("b.json", `{"k":0}`)
		d.serves("a.json", `{}`)
		d.nothingMore()
	})
	t.Run("removed", func(t *testing.T) {
		d := startDesk(t, one(), "a.json")
		d.Remove("a.json")
		d.told("a.json")
		d.serves("a.json", `{}`)
		require.Contains(t, d.follower.Call(protocol.GetCfgName, ``), fmt.Sprintf(`"a.json":[0,%d]`, d.versions["a.json"]))
		d.nothingMore()
		d.edit("a.json", `{"k":1}`)
		d.told("a.json")
	})
	t.Run("touched_or_laid_out_anew_is_no_change", func(t *testing.T) {
		d := startDesk(t, one(), "a.json")
		setTime(t, d.path("a.json"), old)
		d.nothingMore()
		d.edit("a.json", "{\n  \"k\" : 0\n}\n")
		d.nothingMore()
	})
	t.Run("removed_and_written_again_within_a_moment_is_no_removal", func(t *testing.T) {
		opts := one()
		opts.Store.RemoveDelay = servertest.Patience // however slow this machine is
		d := startDesk(t, opts, "a.json")
		d.Remove("a.json")
		d.edit("a.json", `{"k":0}`)
		d.nothingMore()
	})
	t.Run("set_by_the_wire_is_told_once", func(t *testing.T) {
		d := startDesk(t, one(), "a.json")
		peer(t, d.Server).Set("a.json", `{"k":1}`)
		d.told("a.json")
		d.nothingMore()
	})
	t.Run("edited_while_the_server_was_down_has_a_greater_version", func(t *testing.T) {
		d := startDesk(t, servertest.Options{Files: files("a.json", `{"k":0}`, "gone.json", `{}`, "same.json", `{}`)}, "a.json")
		p := peer(t, d.Server)
		before := map[string]int32{"a.json": p.Set("a.json", `{"k":1}`), "gone.json": p.Get("gone.json").Mtime, "same.json": p.Get("same.json").Mtime}
		d.Stop()
		d.edit("a.json", `{"k":2}`)
		setTime(t, d.path("a.json"), old)
		setTime(t, d.path("same.json"), old)
		d.Remove("gone.json")
		d.edit("new.json", `{}`)
		d.Restart()
		p = peer(t, d.Server)
		require.Greater(t, p.Get("a.json").Mtime, before["a.json"])
		require.JSONEq(t, `{"k":2}`, string(p.Get("a.json").Contents))
		require.Greater(t, p.Get("gone.json").Mtime, before["gone.json"])
		require.Equal(t, `{}`, string(p.Get("gone.json").Contents))
		require.Equal(t, before["same.json"], p.Get("same.json").Mtime, "a touched file is no change")
		require.NotNil(t, p.Get("new.json").Contents)
	})
}

func TestBrokenFiles(t *testing.T) {
	t.Parallel()
	problems := func(t *testing.T, d *desk) map[string]string {
		t.Helper()
		_, list, err := protocol.ParseConfigFiles([]byte(d.follower.Call(protocol.GetCfgName, `{"detail":1}`)))
		require.NoError(t, err)
		m := map[string]string{}
		for _, p := range list {
			m[p.Name] = p.Text
		}
		return m
	}
	t.Run("the_last_good_version_stays_in_service_across_a_restart_and_is_reported_until_it_heals", func(t *testing.T) {
		d := startDesk(t, servertest.Options{Files: files("a.json", `{"k":0}`)}, "a.json")
		d.edit("a.json", `{"k":1,}`)
		d.Store.Reload()
		eventually(t, "it is reported", func() bool { return problems(t, d)["a.json"] != "" })
		require.Contains(t, problems(t, d)["a.json"], "line 1")
		d.serves("a.json", `{"k":0}`)
		d.nothingMore()
		d.Stop()
		d.Restart()
		d.follower = peer(t, d.Server)
		d.serves("a.json", `{"k":0}`)
		require.NotEmpty(t, problems(t, d)["a.json"])
		require.Zero(t, book(t, d.follower, `{"file_pattern":"a.json"}`).Code)
		require.Zero(t, book(t, d.follower, `{"file_pattern":"sentinel.json"}`).Code)
		d.edit("a.json", `{"k":2}`)
		d.told("a.json")
		d.serves("a.json", `{"k":2}`)
		require.Empty(t, problems(t, d)["a.json"])
		d.nothingMore()
	})
	t.Run("one_that_was_never_good_is_not_there", func(t *testing.T) {
		d := startDesk(t, servertest.Options{Files: files("bad.json", `{`)}, "bad.json")
		require.Zero(t, d.versions["bad.json"])
		require.Nil(t, d.follower.Get("bad.json").Contents)
		require.NotEmpty(t, problems(t, d)["bad.json"])
		d.edit("bad.json", `{}`)
		d.told("bad.json")
		d.nothingMore()
	})
	t.Run("a_broken_meta_json_leaves_inheritance_as_it_was", func(t *testing.T) {
		d := startDesk(t, servertest.Options{Files: files("_meta.json", `{"conf_inherit":{"a.json":"base.json"}}`, "a.json", `{}`, "base.json", `{"b":1}`)}, "a.json")
		d.edit("_meta.json", "{ # comments are no JSON\n}")
		d.Store.Reload()
		eventually(t, "it is reported", func() bool { return problems(t, d)["_meta.json"] != "" })
		d.nothingMore()
		require.JSONEq(t, `{"b":1}`, string(get(t, d.follower, "a.json", true).Contents))
	})
	t.Run("a_broken_file_is_healed_by_a_write", func(t *testing.T) {
		d := startDesk(t, servertest.Options{Files: files("a.json", `{"k":0}`)}, "a.json")
		d.edit("a.json", `{`)
		d.Store.Reload()
		eventually(t, "it is reported", func() bool { return problems(t, d)["a.json"] != "" })
		peer(t, d.Server).Set("a.json", `{"k":3}`)
		d.told("a.json")
		eventually(t, "it is healed", func() bool { return problems(t, d)["a.json"] == "" })
		d.nothingMore()
	})
}

func TestManyFilesAtOnce(t *testing.T) {
	t.Parallel()
	numbered := func(text string) (map[string]string, []string) {
		all, names := map[string]string{}, []string(nil)
		for i := range 10 {
			name := fmt.Sprintf("f%d.json", i)
			all[name], names = text, append(names, name)
		}
		return all, names
	}
	// oneSnapshot expects everything to be new with the first push.
	oneSnapshot := func(t *testing.T, d *desk, names []string, contents string) {
		t.Helper()
		first := d.follower.Push()
		reader := peer(t, d.Server)
		for _, name := range names {
			require.JSONEq(t, contents, string(reader.Get(name).Contents), name)
		}
		d.versions[first.File] = first.Mtime
		var rest []string
		for _, name := range names {
			if name != first.File {
				rest = append(rest, name)
			}
		}
		d.told(rest...)
		d.nothingMore()
	}
	t.Run("ten_files_are_one_snapshot", func(t *testing.T) {
		all, names := numbered(`{"k":0}`)
		// However slow this machine is: all are edited before it is quiet.
		patient := confstore.Config{QuietPeriod: 2 * time.Second, MaxSettle: servertest.Patience}
		d := startDesk(t, servertest.Options{Files: all, Store: patient}, names...)
		for _, name := range names {
			d.edit(name, `{"k":1}`)
		}
		oneSnapshot(t, d, names, `{"k":1}`)
	})
	t.Run("git_checkout_under_its_lock_is_one_snapshot", func(t *testing.T) {
		all, names := numbered(`{"k":0}`)
		all[".git/HEAD"] = "ref"
		patient := confstore.Config{GitLockWait: time.Hour} // however slow this machine is
		d := startDesk(t, servertest.Options{Files: all, Store: patient}, names...)
		lock := d.path(".git/index.lock")
		require.NoError(t, os.WriteFile(lock, nil, 0o644))
		other := peer(t, d.Server)
		for i, name := range names {
			d.Remove(name) // git unlinks and creates
			d.edit(name, `{"k":1}`)
			for j := range 3 { // much longer than files settle without the lock
				other.Set("other.json", fmt.Sprintf(`[%d,%d]`, i, j))
			}
			require.JSONEq(t, `{"k":0}`, string(other.Get(name).Contents), "nothing of it is served yet")
		}
		require.NoError(t, os.Remove(lock))
		oneSnapshot(t, d, names, `{"k":1}`)
	})
	t.Run("a_directory_moved_in_and_out", func(t *testing.T) {
		d := startDesk(t, servertest.Options{}, "sub/a.json", "sub/deep/b.json")
		away := filepath.Join(filepath.Dir(d.ConfDir), "sub")
		require.NoError(t, os.MkdirAll(filepath.Join(away, "deep"), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(away, "a.json"), []byte(`{"k":1}`), 0o644))
		require.NoError(t, os.WriteFile(filepath.Join(away, "deep", "b.json"), []byte(`{"k":1}`), 0o644))
		require.NoError(t, os.Rename(away, d.path("sub")))
		oneSnapshot(t, d, []string{"sub/a.json", "sub/deep/b.json"}, `{"k":1}`)
		d.edit("sub/deep/b.json", `{"k":2}`) // what lies in it is watched
		d.told("sub/deep/b.json")
		require.NoError(t, os.Rename(d.path("sub"), away))
		d.told("sub/a.json", "sub/deep/b.json")
		d.nothingMore()
	})
	t.Run("the_conf_directory_replaced", func(t *testing.T) {
		all, names := numbered(`{"k":0}`)
		patient := confstore.Config{ReplaceGrace: servertest.Patience} // however slow this machine is
		d := startDesk(t, servertest.Options{Files: all, Store: patient}, append(names, "extra.json")...)
		next := d.ConfDir + ".next"
		require.NoError(t, os.Mkdir(next, 0o755))
		for _, name := range names {
			require.NoError(t, os.WriteFile(filepath.Join(next, name), []byte(`{"k":1}`), 0o644))
		}
		require.NoError(t, os.WriteFile(filepath.Join(next, "sentinel.json"), []byte(`0`), 0o644))
		require.NoError(t, os.Rename(d.ConfDir, d.ConfDir+".old"))
		require.NoError(t, os.Rename(next, d.ConfDir))
		oneSnapshot(t, d, names, `{"k":1}`)
		d.edit("extra.json", `{}`) // the new one is watched
		d.told("extra.json")
	})
	t.Run("a_kubernetes_configmap_swapped", func(t *testing.T) {
		volume := func(dir, version, text string) {
			require.NoError(t, os.Mkdir(filepath.Join(dir, version), 0o755))
			for _, name := range []string{"a.json", "b.json"} {
				require.NoError(t, os.WriteFile(filepath.Join(dir, version, name), []byte(text), 0o644))
			}
			require.NoError(t, os.Symlink(version, filepath.Join(dir, "..data_tmp")))
			require.NoError(t, os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")))
		}
		d := startDesk(t, servertest.Options{Before: func(dir string) {
			volume(dir, "..2024_1", `{"k":0}`)
			for _, name := range []string{"a.json", "b.json"} {
				require.NoError(t, os.Symlink(filepath.Join("..data", name), filepath.Join(dir, name)))
			}
		}}, "a.json", "b.json")
		d.serves("a.json", `{"k":0}`)
		volume(d.ConfDir, "..2024_2", `{"k":1}`)
		require.NoError(t, os.RemoveAll(d.path("..2024_1")))
		oneSnapshot(t, d, []string{"a.json", "b.json"}, `{"k":1}`)
		require.NotContains(t, d.follower.Call(protocol.GetCfgName, ``), "..")
	})
}
