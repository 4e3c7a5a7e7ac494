package integration

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/internal/clock/clocktest"
	"confcenter/internal/servertest"
	"confcenter/protocol"
	"confcenter/server/tcp"
)

// timed is a server whose time stands still until advance is called.
type timed struct {
	*servertest.Server
	t     *testing.T
	clock *clocktest.Fake
	asked int64 // how many keep-alives sweeps has waited for
}

func startTimed(t *testing.T, cfg tcp.Config) *timed {
	t.Helper()
	fake := clocktest.NewFake(time.Unix(now, 0))
	cfg.Clock, cfg.Loops = fake, 1
	srv := start(t, servertest.Options{Server: cfg})
	fake.BlockUntil(1) // the server's ticker
	return &timed{Server: srv, t: t, clock: fake}
}

// advance moves the time by at least the 30 s after which an unidentified connection is
// closed; that close proves that the loop has seen the new time.
func (s *timed) advance(d time.Duration) {
	s.t.Helper()
	require.GreaterOrEqual(s.t, d, 30*time.Second)
	canary := dial(s.t, s.Server)
	whoami(s.t, canary, `{`) // is answered, so it has been accepted
	s.clock.Advance(d)
	canary.Closed()
}

// sweeps waits until one more peer has been asked: the sweep comes a moment after
// the close that advance has seen.
func (s *timed) sweeps() {
	s.t.Helper()
	s.asked++
	eventually(s.t, "a peer is asked", func() bool { return s.Stats().Get("server_keepalives_total") == s.asked })
}

// asked expects the server's question.
func asked(t *testing.T, p *servertest.Peer) protocol.Header {
	t.Helper()
	f := p.Next()
	require.Equal(t, protocol.KeepAlive, f.Command, f)
	require.Empty(t, f.Body)
	return f.Header
}

func TestKeepAliveFromAClient(t *testing.T) {
	srv := start(t, servertest.Options{})
	p := peer(t, srv)
	for _, body := range []string{``, `{}`, `{ bad`, "\x00\xff"} {
		t.Run("is_answered_empty_whatever_was_sent_"+quote(body), func(t *testing.T) {
			require.Empty(t, p.Call(protocol.KeepAlive, body))
		})
	}
	t.Run("an_answer_is_not_answered", func(t *testing.T) {
		p.Send(protocol.KeepAlive.Reply(), ``)
		p.Send(protocol.KeepAlive.Reply(), `{`)
		p.Quiet()
	})
}

func TestKeepAliveFromTheServer(t *testing.T) {
	t.Parallel()
	t.Run("a_silent_peer_is_asked_by_the_second_sweep_and_closed_by_the_third_without_a_frame", func(t *testing.T) {
		srv := startTimed(t, tcp.Config{})
		silent := peer(t, srv.Server)
		srv.advance(600 * time.Second) // silent for no more than an interval
		srv.advance(600 * time.Second)
		asked(t, silent)
		srv.advance(600 * time.Second)
		silent.Closed()
		require.EqualValues(t, 1, srv.Stats().Get("server_keepalives_total"))
		require.EqualValues(t, 1, srv.Stats().Get("server_limits_met_total", "idle"))
	})
	t.Run("a_peer_that_answers_lives_for_ever", func(t *testing.T) {
		srv := startTimed(t, tcp.Config{})
		p := peer(t, srv.Server)
		for range 5 {
			srv.advance(601 * time.Second)
			h := asked(t, p)
			p.Raw(protocol.AppendFrame(nil, protocol.KeepAlive.Reply(), h.Seq, nil))
			p.Quiet()
		}
	})
	t.Run("any_complete_frame_is_a_sign_of_life_and_half_a_frame_is_none", func(t *testing.T) {
		srv := startTimed(t, tcp.Config{})
		talks, mumbles := peer(t, srv.Server), peer(t, srv.Server)
		srv.advance(300 * time.Second)
		talks.Send(protocol.SvrStat, `[]`)
		talks.Quiet()
		mumbles.Raw([]byte{1, 10, 0})
		srv.advance(301 * time.Second) // the sweep at 600: one is silent for 301 s, the other for 601 s
		asked(t, mumbles)
		talks.Quiet()
	})
	t.Run("within_ten_minutes_nobody_is_asked", func(t *testing.T) {
		srv := startTimed(t, tcp.Config{})
		p := peer(t, srv.Server)
		for range 10 {
			srv.advance(60 * time.Second)
		}
		p.Quiet()
		require.Zero(t, srv.Stats().Get("server_keepalives_total"))
	})
	t.Run("sequence_is_the_servers_own", func(t *testing.T) {
		srv := startTimed(t, tcp.Config{KeepAlive: time.Minute})
		p, q := peer(t, srv.Server), peer(t, srv.Server)
		srv.advance(61 * time.Second)
		require.NotEqual(t, asked(t, p).Seq, asked(t, q).Seq)
	})
}

func TestIdentifyDeadline(t *testing.T) {
	t.Parallel()
	t.Run("what_never_identifies_is_closed_after_30_s_without_a_frame", func(t *testing.T) {
		srv := startTimed(t, tcp.Config{})
		mute, mumbles, refused := dial(t, srv.Server), dial(t, srv.Server), dial(t, srv.Server)
		mumbles.Raw([]byte{1, 10, 0, 0})
		whoami(t, refused, `{`)
		eventually(t, "all are accepted", func() bool { return srv.Stats().Get("server_connections") == 3 })
		in := peer(t, srv.Server)
		srv.advance(31 * time.Second)
		mute.Closed()
		mumbles.Closed()
		refused.Closed()
		in.Quiet()
		require.EqualValues(t, 4, srv.Stats().Get("server_limits_met_total", "identify"))
	})
	t.Run("a_refused_peer_that_does_not_close_is_closed_after_a_moment", func(t *testing.T) {
		srv := startTimed(t, tcp.Config{})
		p := dial(t, srv.Server)
		require.EqualValues(t, 400, whoami(t, p, `{}`).Code)
		p.Closed() // the server's half; ours stays open
		require.EqualValues(t, 1, srv.Stats().Get("server_connections"))
		srv.clock.Advance(3 * time.Second)
		eventually(t, "it is gone", func() bool { return srv.Stats().Get("server_connections") == 0 })
	})
}

func TestPeerThatReadsNothingIsClosedAfterAMinute(t *testing.T) {
	srv := startTimed(t, tcp.Config{})
	p, healthy := peer(t, srv.Server), peer(t, srv.Server)
	p.Set("large.json", `"`+strings.Repeat("x", 1<<20)+`"`)
	for range 64 { // more than any socket buffer takes
		p.Send(protocol.GetConfig, `{"file_pattern":"large.json"}`)
	}
	eventually(t, "it is parked", func() bool { return srv.Stats().Get("server_sessions_parked_total") > 0 })
	srv.advance(50 * time.Second)
	require.Zero(t, srv.Stats().Get("server_limits_met_total", "stall"))
	srv.advance(50 * time.Second)
	eventually(t, "it is closed", func() bool { return srv.Stats().Get("server_limits_met_total", "stall") == 1 })
	healthy.Quiet()
}
