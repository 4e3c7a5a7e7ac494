package integration

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/integration/process"
	"confcenter/internal/servertest"
	"confcenter/protocol"
)

// The design document's examples, with the real binary and the sample configuration:
// contents as printed there, member order aside.
func TestExamplesOfTheDocument(t *testing.T) {
	t.Parallel()
	server := StartProcess(t, sampleConf(t))
	p := server.Peer()
	for _, example := range []struct{ name, request, contents string }{
		{"A_own_contents", `{"file_pattern":"%s","incbase":0}`, `{"key3":{"subkey3":"value3"},"key2":"key2 in app1-dev","key1":"key1 in app1-dev"}`},
		{"B_with_inheritance", `{"file_pattern":"%s","incbase":1}`, `{"key2":"key2 in app1-dev","hojl":"hejinlong","key3":{"subkey3":"value3"},"key1":"key1 in app1-dev"}`},
		{"C_with_a_key", `{"file_pattern":"%s","incbase":0,"key_pattern":"/key3"}`, `{"subkey3":"value3"}`},
		{"D_with_a_key_of_several_levels", `{"file_pattern":"%s","incbase":0,"key_pattern":"/key3/subkey3"}`, `"value3"`},
		{"E_key_that_does_not_exist", `{"file_pattern":"%s","incbase":0,"key_pattern":"/key9"}`, `null`},
	} {
		for _, name := range []string{"app1-dev", "app1-dev.json"} {
			t.Run(example.name+"_as_"+name, func(t *testing.T) {
				body := p.Call(protocol.GetConfig, fmt.Sprintf(example.request, name))
				got := object(t, body)
				require.Equal(t, []string{"code", "contents", "file_pattern", "mtime"}, sortedKeys(got))
				c, err := protocol.ParseConfig([]byte(body))
				require.NoError(t, err)
				require.Equal(t, name, c.Name, "the name as it was asked for")
				require.Positive(t, c.Mtime)
				contents := string(c.Contents)
				if c.Contents == nil {
					contents = "null"
				}
				require.JSONEq(t, example.contents, contents)
			})
		}
	}
	t.Run("4_1_main_config_by_tag_and_name", func(t *testing.T) {
		app := servertest.Dial(t, server.Addr)
		require.Equal(t, "app1-dev.json", app.Identify(`{"svrid":0,"svrname":"app1","tag":"tag1"}`).MainConf)
		app = servertest.Dial(t, server.Addr)
		require.Equal(t, "app2-default.json", app.Identify(`{"svrid":0,"svrname":"app2"}`).MainConf)
	})
	t.Run("4_2_all_names_with_flag_and_mtime", func(t *testing.T) {
		got := object(t, p.Call(protocol.GetCfgName, ``))
		entries, err := os.ReadDir(server.Conf)
		require.NoError(t, err)
		require.Len(t, got, len(entries))
		for _, e := range entries {
			info, err := e.Info()
			require.NoError(t, err)
			require.Equal(t, fmt.Sprintf("[1 %d]", info.ModTime().Unix()), fmt.Sprint(got[e.Name()]))
		}
	})
	t.Run("4_3_gt_mtime_that_is_current", func(t *testing.T) {
		mtime := p.Get("app1-dev").Mtime
		require.Equal(t, `1`, p.Call(protocol.GetConfig, fmt.Sprintf(`{"file_pattern":"app1-dev","key_pattern":"/","gt_mtime":%d,"incbase":0}`, mtime)))
	})
	t.Run("4_4_to_4_6_modify_subscribe_notify", func(t *testing.T) {
		follower := server.Peer()
		require.Zero(t, book(t, follower, `{"file_pattern":"app1-dev.json"}`).Code)
		mtime := p.Set("app1-dev.json", `{"key1":"new"}`)
		require.Equal(t, protocol.Change{File: "app1-dev.json", Mtime: mtime}, follower.Push())
		text, err := os.ReadFile(filepath.Join(server.Conf, "app1-dev.json"))
		require.NoError(t, err)
		require.Equal(t, "{\n    \"key1\": \"new\"\n}\n", string(text))
		stale := set(t, p, "app1-dev.json", `{"key1":"stale"}`, `,"mtime":1539333414`)
		require.NotZero(t, stale.Code, "the old cannot replace the new")
		require.Equal(t, mtime, stale.Mtime)
		follower.Quiet()
	})
}

func TestProcess(t *testing.T) {
	t.Parallel()
	t.Run("a_restart_keeps_the_port_the_epoch_and_the_versions", func(t *testing.T) {
		t.Parallel()
		server := StartProcess(t, sampleConf(t))
		p := server.Peer()
		p.Set("a.json", `{"k":1}`)
		require.Zero(t, set(t, p, "web.json", `null`, ``).Code)
		list := p.Call(protocol.GetCfgName, ``)
		epoch := servertest.Dial(t, server.Addr).Identify(`{"svrid":0}`).Epoch
		require.NotEmpty(t, epoch)
		addr := server.Addr
		server.Restart()
		require.Equal(t, addr, server.Addr)
		id := servertest.Dial(t, server.Addr).Identify(`{"svrid":0}`)
		require.Equal(t, epoch, id.Epoch)
		require.Equal(t, list, server.Peer().Call(protocol.GetCfgName, ``))
	})
	t.Run("a_stop_answers_what_has_begun_and_peers_that_hold_on_do_not_delay_it_for_long", func(t *testing.T) {
		t.Parallel()
		server := StartProcess(t, sampleConf(t))
		p := server.Peer()
		idle, half, anonymous := server.Peer(), server.Peer(), servertest.Dial(t, server.Addr)
		half.Raw(headerOnly(protocol.SetConfig, 1, 1000))
		const writes = 50
		var b burst
		for i := range writes {
			b.add(protocol.SetConfig, fmt.Sprintf(`{"filename":"w%d.json","contents":%d}`, i, i))
		}
		p.Raw(b.frames)
		acknowledged := 0
		answered(t, p, protocol.SetConfig, 1)
		acknowledged++
		began := time.Now()
		server.Stop()
		require.Less(t, time.Since(began), 12*time.Second)
		for range writes - 1 { // replies to what it had taken, then the end, never half a frame
			f, err := p.TryNext()
			if err != nil {
				require.NotErrorIs(t, err, io.ErrUnexpectedEOF)
				break
			}
			require.EqualValues(t, acknowledged+1, f.Seq)
			require.EqualValues(t, 0, result(t, f.Body).Code)
			acknowledged++
		}
		idle.Closed()
		anonymous.Closed()
		server.Start()
		p = server.Peer()
		for i := range acknowledged {
			require.Equal(t, fmt.Sprint(i), string(p.Get(fmt.Sprintf("w%d.json", i)).Contents))
		}
	})
	t.Run("SIGINT_is_an_orderly_stop_too", func(t *testing.T) {
		t.Parallel()
		server := StartProcess(t, sampleConf(t))
		p := server.Peer()
		server.Signal(syscall.SIGINT)
		require.NoError(t, server.Wait())
		p.Closed()
	})
	t.Run("SIGHUP_reads_the_files_again", func(t *testing.T) {
		t.Parallel()
		server := StartProcess(t, sampleConf(t))
		follower := server.Peer()
		require.Zero(t, book(t, follower, `{"file_pattern":"web.json"}`).Code)
		require.NoError(t, os.WriteFile(filepath.Join(server.Conf, "web.json"), []byte(`{"title":"new"}`), 0o644))
		server.Signal(syscall.SIGHUP)
		require.Equal(t, "web.json", follower.Push().File)
		require.JSONEq(t, `{"title":"new"}`, string(follower.Get("web.json").Contents))
	})
	t.Run("a_second_one_on_the_same_data_refuses_to_start", func(t *testing.T) {
		t.Parallel()
		server := StartProcess(t, sampleConf(t))
		second := process.New(t, server.Conf)
		second.Data = server.Data
		out, err := second.Command().CombinedOutput()
		require.Error(t, err)
		require.Contains(t, string(out), server.Data)
		server.Peer().Quiet()
	})
	t.Run("server_id_and_frame_exact_are_obeyed", func(t *testing.T) {
		t.Parallel()
		server := StartProcess(t, sampleConf(t), "--server-id", "7", "--frame-exact", "--loops", "1")
		p := server.Peer()
		require.EqualValues(t, 8001, p.ID)
		follower := server.Peer()
		require.Zero(t, book(t, follower, `{"file_pattern":"app1-dev","incbase":1}`).Code)
		told(t, follower, "common.json", p.Set("common.json", `{"hojl":"new"}`))
	})
}
