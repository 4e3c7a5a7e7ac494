package http

import (
	"bufio"
	"context"
	"fmt"
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
	epoch    string // of ids, with the dash
	last     string // as after the events read
	closeNow func()
	comments int
}

// id is a place in a stream as the server writes it.
func (k *kit) id(n uint64) string { return fmt.Sprintf("%s-%d", k.stores.Config.Epoch(), n) }

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
	s := &eventSource{t: k.t, reply: reply, lines: bufio.NewReader(reply.Body), epoch: k.stores.Config.Epoch() + "-", last: last}
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
			require.True(s.t, strings.HasPrefix(value, s.epoch), "%s is not of the epoch", value)
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

// take reads n events as "event data @number", the number being that of the last id.
func (s *eventSource) take(n int) (out []string) {
	s.t.Helper()
	for range n {
		m, ok := s.next()
		require.True(s.t, ok, "the stream ended; before: %v", out)
		out = append(out, m.event+" "+m.data+" @"+s.number(m.last))
	}
	return out
}

// number is an id without the epoch; "" of none.
func (s *eventSource) number(id string) string { return strings.TrimPrefix(id, s.epoch) }

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
	for _, path := range []string{"/v1/config/stream", "/v1/config/revisions", "/v1/store/stream?state=1"} {
		s := k.listen(path, "")
		s.until("synced")
		require.Equal(t, 1, s.comments, "the beginning")
	}
	fast := start(t, func(cfg *Config, _ *Stores) { cfg.Heartbeat = time.Millisecond })
	for _, path := range []string{"/v1/config/stream", "/v1/config/revisions", "/v1/store/stream?state=1"} {
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

func TestOwnStreamsTellUntilTheGatewayEnds(t *testing.T) {
	k := start(t, nil)
	all := k.listenToAll()
	require.Equal(t, 200, k.do("PUT", "/v1/config/file?name=new.json", "1").status)
	for _, s := range all {
		m, ok := s.next()
		require.True(t, ok)
		require.Contains(t, m.data, "new.json", "the state store has it, too")
	}
	k.shutdown()
	for _, s := range all {
		for more := true; more; { // a change is several keys
			_, more = s.next()
		}
	}
}

// A stream that has told everything says nothing more when it ends.
func TestOwnStreamsEndWithTheGateway(t *testing.T) {
	k := start(t, nil)
	all := k.listenToAll()
	k.shutdown()
	for _, s := range all {
		s.ends()
	}
}

// listenToAll follows each stream that the document describes, up to where it is synced.
func (k *kit) listenToAll() (all []*eventSource) {
	k.t.Helper()
	for id, d := range operations(k.t, openapiDocument(k.t)) {
		if d.stream() && id != "plum.stream" && id != "audit.stream" { // one tells nothing by itself, and here is no audit
			s := k.listen(d.path, "")
			s.until("synced")
			all = append(all, s)
		}
	}
	require.GreaterOrEqual(k.t, len(all), 3)
	return all
}

func (k *kit) shutdown() {
	k.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	require.NoError(k.t, k.Shutdown(ctx))
}

// What a stream is gone on from says what data it belongs to: who comes back with an
// id of data that was lost meanwhile is told to forget it, also when as much or more has
// happened again.
func TestStreamsDoNotGoOnWithAnIDOfLostData(t *testing.T) {
	run := func() (k *kit, config, store uint64) {
		k = start(t, nil)
		for range 3 {
			require.Equal(t, 200, k.do("PUT", "/v1/config/file?name=a.json", "1").status)
			require.Equal(t, 200, k.do("PUT", "/v1/store/key?ns=n&key=a", `{"value":1}`).status)
		}
		c, s := k.listen("/v1/config/stream", ""), k.listen("/v1/store/stream?ns=n", "")
		c.until("synced")
		s.until("synced")
		config, store = k.stores.Config.Snapshot().Seq(), uint64(k.stores.State.Revision())
		require.Equal(t, k.id(config), c.last)
		require.Equal(t, k.id(store), s.last)
		return k, config, store
	}
	before, config, store := run()
	now, configNow, storeNow := run()
	require.LessOrEqual(t, config, configNow)
	require.Equal(t, store, storeNow, "the numbers are the same")
	for _, id := range []func(n uint64) string{
		before.id,
		func(n uint64) string { return fmt.Sprint(n) }, // without an epoch, as they were once
		func(n uint64) string { return fmt.Sprint(now.stores.Config.Epoch(), n) },
	} {
		all := now.listen("/v1/config/stream", id(config)).until("synced")
		require.Equal(t, "reset", all[0].event)
		require.Len(t, all, 3)
		all = now.listen("/v1/store/stream?ns=n&last="+id(store), "").until("synced")
		require.Equal(t, "resync", all[0].event)
		require.Len(t, all, 3)
	}
}
