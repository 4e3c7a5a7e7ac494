package integration

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/internal/servertest"
	"confcenter/protocol"
	"confcenter/server/tcp"
	"confcenter/server/tcp/loop"
)

func TestPush(t *testing.T) {
	srv := start(t, servertest.Options{Files: files("a.json", `{"n":0}`, "b.json", `{}`)})
	writer := peer(t, srv)
	n := 0
	change := func() int32 { n++; return writer.Set("a.json", fmt.Sprintf(`{"n":%d}`, n)) }

	t.Run("has_notify_filename_and_mtime_and_no_from", func(t *testing.T) {
		p := subscribed(t, srv, "a.json")
		mtime := change()
		f := p.Next()
		require.Equal(t, protocol.EvNotify, f.Command)
		require.Equal(t, fmt.Sprintf(`{"notify":"cfg_change","filename":"a.json","mtime":%d}`, mtime), f.Body)
	})
	t.Run("mtime_is_the_one_of_the_writers_reply_and_greater_each_time", func(t *testing.T) {
		p := subscribed(t, srv, "a.json")
		last := p.Get("a.json").Mtime
		for range 5 {
			mtime := change()
			require.Greater(t, mtime, last)
			told(t, p, "a.json", mtime)
			last = mtime
		}
	})
	t.Run("sequence_is_one_counter_of_the_server", func(t *testing.T) {
		srv := start(t, servertest.Options{Files: files("a.json", `{"n":0}`)})
		writer, p, q := peer(t, srv), subscribed(t, srv, "a.json"), subscribed(t, srv, "a.json")
		for round := range 20 {
			writer.Set("a.json", fmt.Sprintf(`{"n":%d}`, round+1))
			got := []uint16{p.Next().Seq, q.Next().Seq}
			first := uint16(2*round + 1)
			require.ElementsMatch(t, []uint16{first, first + 1}, got, "each frame takes the next number")
		}
	})
	t.Run("a_subscribed_writer_sees_the_push_then_the_reply", func(t *testing.T) {
		p := subscribed(t, srv, "a.json")
		for i := range 20 {
			seq := p.Send(protocol.SetConfig, fmt.Sprintf(`{"filename":"a.json","contents":{"own":%d}}`, i))
			mtime := p.Push().Mtime
			u, err := protocol.ParseConfigUpdated([]byte(answered(t, p, protocol.SetConfig, seq)))
			require.NoError(t, err)
			require.Equal(t, mtime, u.Mtime)
		}
	})
	t.Run("is_readable_when_it_arrives", func(t *testing.T) {
		p := subscribed(t, srv, "a.json")
		for i := range 20 {
			writer.Send(protocol.SetConfig, fmt.Sprintf(`{"filename":"a.json","contents":{"fresh":%d}}`, i))
			mtime := p.Push().Mtime
			require.Equal(t, reply(mtime, `"a.json"`, fmt.Sprintf(`{"fresh":%d}`, i)), p.Call(protocol.GetConfig, fmt.Sprintf(`{"file_pattern":"a.json","gt_mtime":%d}`, mtime-1)))
			require.Equal(t, protocol.SetConfig.Reply(), writer.Next().Command)
		}
	})
	t.Run("of_other_files_is_not_told", func(t *testing.T) {
		p := subscribed(t, srv, "b.json")
		change()
		p.Quiet()
	})
	t.Run("needs_no_answer_and_an_answer_is_swallowed", func(t *testing.T) {
		p := subscribed(t, srv, "a.json")
		told(t, p, "a.json", change())
		p.Send(protocol.EvNotify.Reply(), `{"code":0}`)
		p.Send(protocol.EvNotify.Reply(), `{ bad`)
		p.Quiet()
	})
	t.Run("a_name_with_quotes_is_told_as_valid_json", func(t *testing.T) {
		name := `q"uo te.json`
		writer.Set(name, `{}`)
		p := subscribed(t, srv, name)
		told(t, p, name, writer.Set(name, `{"k":1}`))
	})
	t.Run("of_meta_json_is_told_like_any_file", func(t *testing.T) {
		writer.Set("_meta.json", `{}`)
		p := subscribed(t, srv, "_meta.json")
		told(t, p, "_meta.json", writer.Set("_meta.json", `{"x":1}`))
	})
}

// A peer that does not read harms only itself: its pushes for one file become one,
// no one else waits, and in the end it gets the newest.
func TestPushToAPeerThatDoesNotRead(t *testing.T) {
	srv := start(t, servertest.Options{
		Files:  files("a.json", `{"n":0}`),
		Server: tcp.Config{Limits: loop.Limits{Stall: time.Hour}}, // however slow this machine is
	})
	writer, slow, healthy := peer(t, srv), subscribed(t, srv, "a.json"), subscribed(t, srv, "a.json")
	stuff := fmt.Sprintf(`{"x":"%0100000d"}`, 0)
	writer.Set("large.json", stuff)
	for range 200 { // 20 MB that it does not read
		slow.Send(protocol.GetConfig, `{"file_pattern":"large.json"}`)
	}
	var last int32
	for i := range 60 {
		last = writer.Set("a.json", fmt.Sprintf(`{"n":%d}`, i+1))
		require.Equal(t, last, healthy.Push().Mtime)
	}
	require.Eventually(t, func() bool { return srv.Stats().Get("server_pushes_coalesced_total") > 0 }, servertest.Patience, 1e6)
	replies, newest := 0, int32(0)
	for replies < 200 || newest < last {
		switch f := slow.Next(); f.Command {
		case protocol.GetConfig.Reply():
			replies++
		case protocol.EvNotify:
			c, _, err := protocol.ParseChange([]byte(f.Body))
			require.NoError(t, err)
			require.Greater(t, c.Mtime, newest, "never backwards, never twice")
			newest = c.Mtime
		}
	}
	require.Equal(t, 200, replies, "each request has its reply")
	slow.Quiet()
}

// Beyond its limits such a peer is closed, and not left waiting for what will not come.
func TestPushBeyondTheLimitClosesThePeer(t *testing.T) {
	const names = 150
	all := map[string]string{"large.json": fmt.Sprintf(`{"x":"%0200000d"}`, 0)}
	for i := range names {
		all[fmt.Sprintf("f%03d.json", i)] = `{}`
	}
	srv := start(t, servertest.Options{Files: all, Server: tcp.Config{Limits: loop.Limits{Frames: 100, Stall: time.Hour}}})
	writer, slow := peer(t, srv), peer(t, srv)
	for i := range names {
		book(t, slow, fmt.Sprintf(`{"file_pattern":"f%03d.json"}`, i))
	}
	for range 100 {
		slow.Send(protocol.GetConfig, `{"file_pattern":"large.json"}`)
	}
	for i := range names {
		writer.Set(fmt.Sprintf("f%03d.json", i), `{"k":1}`)
	}
	eventually(t, "it is closed", func() bool { return srv.Stats().Get("server_limits_met_total", "output") == 1 })
	writer.Quiet()
	require.EqualValues(t, 1, srv.Stats().Get("server_connections"))
}
