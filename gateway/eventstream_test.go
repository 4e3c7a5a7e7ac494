package gateway

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// message is an event as a browser dispatches it. last is what it would send as
// Last-Event-ID if it connected again now.
type message struct {
	event, data, last string
}

// eventSource reads a stream as the HTML standard says a browser's EventSource
// does.
type eventSource struct {
	t        testing.TB
	reply    *http.Response
	lines    *bufio.Reader
	last     string // as after the events read
	closeNow func()
	comments int
}

// listen connects; last is the id to go on from, "" for none.
func (k *kit) listen(path, last string) *eventSource {
	k.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, k.url+path, nil)
	require.NoError(k.t, err)
	if last != "" {
		r.Header.Set("Last-Event-ID", last)
	}
	reply, err := k.client.Do(r)
	require.NoError(k.t, err)
	s := &eventSource{t: k.t, reply: reply, lines: bufio.NewReader(reply.Body), last: last}
	s.closeNow = func() {
		_ = reply.Body.Close()
		cancel()
	}
	k.t.Cleanup(s.closeNow)
	require.Equal(k.t, http.StatusOK, reply.StatusCode)
	require.Equal(k.t, "text/event-stream", reply.Header.Get("Content-Type"))
	require.Equal(k.t, "no-store", reply.Header.Get("Cache-Control"))
	return s
}

// next is the next event; false at the end of the stream.
func (s *eventSource) next() (message, bool) {
	s.t.Helper()
	event, id := "", s.last
	var data []string
	for {
		line, err := s.lines.ReadString('\n')
		if err != nil {
			require.ErrorIs(s.t, err, io.EOF)
			return message{}, false
		}
		line = strings.TrimSuffix(line, "\n")
		require.NotContains(s.t, line, "\r")
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "event":
			event = value
		case "data":
			data = append(data, value)
		case "id":
			id = value
		case "":
			if line != "" {
				s.comments++
				continue
			}
			s.last = id
			if data != nil {
				return message{event, strings.Join(data, "\n"), id}, true
			}
			event = ""
		default:
			require.Fail(s.t, "a line that no browser knows", line)
		}
	}
}

// take reads n events as "event data @last".
func (s *eventSource) take(n int) (out []string) {
	s.t.Helper()
	for range n {
		m, ok := s.next()
		require.True(s.t, ok, "the stream ended; before: %v", out)
		out = append(out, m.event+" "+m.data+" @"+m.last)
	}
	return out
}

// ends checks that nothing more comes.
func (s *eventSource) ends() {
	s.t.Helper()
	m, more := s.next()
	require.False(s.t, more, "%v", m)
}

// until reads up to and with the first event of that kind, and returns all.
func (s *eventSource) until(event string) (all []message) {
	s.t.Helper()
	for {
		m, ok := s.next()
		require.True(s.t, ok, "the stream ended before %s: %v", event, all)
		if all = append(all, m); m.event == event {
			return all
		}
	}
}

// Idle streams show that they live, by the gateway's clock.
func TestOwnStreamsBeat(t *testing.T) {
	k := start(t, nil)
	for _, path := range []string{"/v1/config/stream", "/v1/store/stream?state=1"} {
		s := k.listen(path, "")
		s.until("synced")
		require.Equal(t, 1, s.comments, "the beginning")
	}
	fast := start(t, func(cfg *Config, _ *Stores) { cfg.Heartbeat = time.Millisecond })
	for _, path := range []string{"/v1/config/stream", "/v1/store/stream?state=1"} {
		s := fast.listen(path, "")
		s.until("synced")
		for s.comments < 4 {
			line, err := s.lines.ReadString('\n')
			require.NoError(t, err)
			if strings.HasPrefix(line, ":") {
				s.comments++
			}
		}
	}
}

func TestOwnStreamsEndWithTheGateway(t *testing.T) {
	k := start(t, nil)
	var all []*eventSource
	for _, path := range []string{"/v1/config/stream", "/v1/store/stream?state=1"} {
		s := k.listen(path, "")
		s.until("synced")
		all = append(all, s)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	require.NoError(t, k.Shutdown(ctx))
	for _, s := range all {
		s.ends()
	}
}
