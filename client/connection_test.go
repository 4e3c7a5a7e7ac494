package client

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/internal/clock/clocktest"
	"confcenter/protocol"
)

// Answers in any order reach the requests they belong to.
func TestPipelinedRequests(t *testing.T) {
	const n = 50
	s := newFakeServer(t, nil)
	var held []protocol.Header
	var names []string
	s.script = func(c *fakeConn, h protocol.Header, body []byte) bool {
		if h.Command != protocol.GetConfig {
			return false
		}
		var r protocol.Request
		_ = r.Parse(body)
		held, names = append(held, h), append(names, string(r.Text("file_pattern")))
		if len(held) < n {
			return true
		}
		for i := n - 1; i >= 0; i-- {
			c.reply(held[i], fmt.Appendf(nil, `{"code":0,"mtime":1,"file_pattern":%q,"contents":%q}`, names[i], names[i]))
		}
		return true
	}
	c := dial(t, s)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			name := fmt.Sprintf("f%d.json", i)
			d, err := c.Get(t.Context(), name)
			if err != nil || d.String("", "") != name {
				t.Errorf("%s: %v, %v", name, d, err)
			}
		})
	}
	wg.Wait()
}

func TestMaxInFlightWaits(t *testing.T) {
	s := newFakeServer(t, map[string]string{"a.json": `1`})
	release := make(chan struct{})
	s.script = func(_ *fakeConn, h protocol.Header, _ []byte) bool {
		if h.Command == protocol.GetConfig {
			<-release
		}
		return false
	}
	cfg := quick(s)
	cfg.MaxInFlight = 1
	c := dialWith(t, cfg)
	first := make(chan error)
	go func() {
		_, err := c.Get(context.Background(), "a.json")
		first <- err
	}()
	eventually(t, func() bool { return len(s.requests(protocol.GetConfig)) == 1 }, "the first is under way")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := c.Get(ctx, "a.json")
	require.ErrorIs(t, err, context.Canceled)
	require.True(t, SafeToRetry(err))
	close(release)
	require.NoError(t, <-first)
	_, err = c.Get(t.Context(), "a.json")
	require.NoError(t, err)
}

// A reply that comes when its caller no longer waits is not taken for another's.
func TestLateReply(t *testing.T) {
	s := newFakeServer(t, map[string]string{"a.json": `"a"`, "b.json": `"b"`})
	late := make(chan protocol.Header, 1)
	ctx, expire := context.WithCancelCause(t.Context())
	s.script = func(c *fakeConn, h protocol.Header, body []byte) bool {
		if h.Command == protocol.GetConfig && bytes.Contains(body, []byte("a.json")) {
			late <- h
			expire(context.DeadlineExceeded) // not before the request is there
			return true
		}
		if h.Command == protocol.GetConfig {
			c.reply(<-late, []byte(`{"code":0,"mtime":1,"contents":"late"}`))
		}
		return false
	}
	c := dial(t, s)
	_, err := c.Get(ctx, "a.json")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorIs(t, err, codes.Timeout)
	require.False(t, SafeToRetry(err))
	d, err := c.Get(t.Context(), "b.json")
	require.NoError(t, err)
	require.Equal(t, `"b"`, string(d.Raw()))
}

func TestNoReplyInTime(t *testing.T) {
	s := newFakeServer(t, nil)
	s.script = func(_ *fakeConn, h protocol.Header, _ []byte) bool { return h.Command == protocol.SetConfig }
	fake := clocktest.NewFake(time.Unix(1000, 0))
	cfg := quick(s)
	cfg.Clock, cfg.RequestTimeout = fake, 5*time.Second
	c := dialWith(t, cfg)
	result := make(chan error)
	go func() {
		_, err := c.Set(context.Background(), SetRequest{Name: "a.json", Contents: []byte(`1`)})
		result <- err
	}()
	eventually(t, func() bool { return len(s.requests(protocol.SetConfig)) == 1 }, "it is sent")
	fake.Advance(5 * time.Second)
	err := <-result
	require.ErrorIs(t, err, codes.Timeout)
	require.NotErrorIs(t, err, ErrUnreachable)
	require.False(t, SafeToRetry(err))
}

// Frames may come in any pieces.
func TestReplyInPieces(t *testing.T) {
	s := newFakeServer(t, nil)
	s.script = func(c *fakeConn, h protocol.Header, _ []byte) bool {
		if h.Command != protocol.GetConfig {
			return false
		}
		frame := protocol.AppendFrame(nil, h.Command.Reply(), h.Seq, []byte(`{"code":0,"mtime":7,"contents":{"k":1}}`))
		for i := range frame {
			c.Write(frame[i : i+1])
		}
		return true
	}
	d, err := dial(t, s).Get(t.Context(), "a.json")
	require.NoError(t, err)
	require.Equal(t, `{"k":1}`, string(d.Raw()))
}

func TestLargeReply(t *testing.T) {
	big := `"` + strings.Repeat("x", 5<<20) + `"`
	s := newFakeServer(t, map[string]string{"a.json": big})
	d, err := dial(t, s).Get(t.Context(), "a.json")
	require.NoError(t, err)
	require.Equal(t, big, string(d.Raw()))
}

// What cannot be read ends the connection, and the next one works.
func TestHostileServer(t *testing.T) {
	header := func(cmd protocol.Command, n int) []byte { return protocol.AppendHeader(nil, cmd, 2, n) }
	for name, tc := range map[string]struct {
		send []byte
		want string
	}{
		"half a header":         {[]byte{1, 10, 0}, "EOF"},
		"half a body":           {append(header(protocol.GetConfig.Reply(), 10), "half"...), "EOF"},
		"garbage":               {[]byte("HTTP/1.1 400 Bad Request\r\n\r\n"), "the other side speaks HTTP"},
		"oversize reply":        {header(protocol.GetConfig.Reply(), 1<<20+1), "more than Config.MaxBody"},
		"oversize stray reply":  {header(protocol.GetCli.Reply(), 1<<31), "more than Config.MaxBody"},
		"oversize push":         {header(protocol.EvNotify, protocol.MaxBody+1), "from the server"},
		"event of no watch":     {protocol.AppendFrame(nil, protocol.KVEvent, 1, []byte(`{"rev":1,"watch":1}`)), "number of a watch"},
		"push that is not JSON": {protocol.AppendFrame(nil, protocol.EvNotify, 1, []byte(`{"notify":`)), "not JSON"},
		"push without version":  {protocol.AppendFrame(nil, protocol.EvNotify, 1, []byte(`{"notify":"cfg_change","filename":"a"}`)), "mtime"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFakeServer(t, map[string]string{"a.json": `1`})
			hostile := true
			s.script = func(c *fakeConn, h protocol.Header, _ []byte) bool {
				if h.Command != protocol.GetConfig || !hostile {
					return false
				}
				hostile = false // on one connection after the other
				c.Write(tc.send)
				if tc.want == "EOF" {
					c.Close()
				}
				return true
			}
			var errs collector
			cfg := quick(s)
			cfg.MaxBody, cfg.OnError = 1<<20, errs.add
			c := dialWith(t, cfg)
			d, err := c.Get(t.Context(), "a.json")
			require.NoError(t, err)
			require.Equal(t, `1`, string(d.Raw()))
			require.Equal(t, 2, s.accepted)
			eventually(t, func() bool { return strings.Contains(errs.text(), tc.want) }, "OnError is told")
			require.True(t, errs.has(ErrUnreachable))
		})
	}
}

// Replies that no one asked for, unknown commands and the like are passed over.
func TestStrayFrames(t *testing.T) {
	s := newFakeServer(t, map[string]string{"a.json": `1`})
	s.script = func(c *fakeConn, h protocol.Header, _ []byte) bool {
		if h.Command == protocol.GetConfig {
			c.Write(protocol.AppendFrame(nil, protocol.GetConfig.Reply(), h.Seq+1, []byte(`{"code":0,"mtime":1,"contents":2}`)))
			c.Write(protocol.AppendFrame(nil, protocol.SetConfig.Reply(), h.Seq, []byte(`{"code":0,"mtime":1}`)))
			c.Write(protocol.AppendFrame(nil, 0x1D, 9, []byte(`{`)))
			c.Write(protocol.AppendFrame(nil, 0xFFFF, h.Seq, nil))
			c.Write(protocol.AppendFrame(nil, protocol.EvNotify, 3, []byte(`{"notify":"provider_down","svrid":1}`)))
		}
		return false
	}
	c := dial(t, s)
	d, err := c.Get(t.Context(), "a.json")
	require.NoError(t, err)
	require.Equal(t, `1`, string(d.Raw()))
	require.Equal(t, 1, s.accepted)
}

// What another client has sent through the server is declined, and not believed.
func TestRoutedRequest(t *testing.T) {
	s := newFakeServer(t, map[string]string{"a.json": `1`})
	c := dial(t, s)
	st, _ := watch(t, c, Query{Name: "a.json"})
	st.want(`1`)
	fetched := len(s.requests(protocol.GetConfig))
	s.each(func(fc *fakeConn) {
		fc.Write(protocol.AppendFrame(nil, protocol.EvNotify, 5, []byte(`{"notify":"cfg_change","filename":"a.json","mtime":2000000000,"from":2002}`)))
		fc.Write(protocol.AppendFrame(nil, protocol.KeepAlive, 6, nil))
	})
	eventually(t, func() bool { return len(s.requests(protocol.KeepAlive.Reply())) == 1 }, "the keep-alive is answered")
	require.Equal(t, []string{`{"code":501,"to":2002}`}, s.requests(protocol.EvNotify.Reply()))
	_, err := c.Get(t.Context(), "a.json")
	require.NoError(t, err)
	require.Len(t, s.requests(protocol.GetConfig), fetched+1)
}

// aged is a client whose keep-alive is asked of a clock that the test moves.
func aged(t *testing.T, s *fakeServer) (*Client, *clocktest.Fake) {
	fake := clocktest.NewFake(time.Unix(1000, 0))
	cfg := quick(s)
	cfg.Clock, cfg.KeepAlive, cfg.KeepAliveTimeout = fake, 30*time.Second, 10*time.Second
	c := dialWith(t, cfg)
	eventually(t, func() bool { return fake.Waiters() == 1 }, "only the keeper waits")
	return c, fake
}

// No one waits for the answer to a request whose context has ended, so it is not sent: a
// quick answer would otherwise be taken for success now and then.
func TestWhatIsAskedTooLateIsNotSent(t *testing.T) {
	s := newFakeServer(t, map[string]string{"a.json": `1`})
	c := dial(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 {
		_, err := c.List(ctx)
		require.ErrorIs(t, err, context.Canceled)
		require.True(t, SafeToRetry(err))
	}
	_, err := c.List(t.Context())
	require.NoError(t, err)
	require.Len(t, s.requests(protocol.GetCfgName), 1)
}

func TestKeepAliveFindsADeadPeer(t *testing.T) {
	s := newFakeServer(t, map[string]string{"a.json": `1`})
	s.script = func(_ *fakeConn, h protocol.Header, _ []byte) bool { return h.Command == protocol.KeepAlive }
	_, fake := aged(t, s)
	fake.Advance(30 * time.Second)
	eventually(t, func() bool { return len(s.requests(protocol.KeepAlive)) == 1 }, "it asks")
	eventually(t, func() bool { return fake.Waiters() == 1 }, "the keeper waits for the answer")
	fake.Advance(10 * time.Second)
	eventually(t, func() bool {
		fake.Advance(20 * time.Millisecond) // the back-off
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.accepted == 2
	}, "it connects again")
}
