package tcp_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/internal/admission"
	"confcenter/internal/clock/clocktest"
	"confcenter/internal/servertest"
	"confcenter/protocol"
	"confcenter/server/tcp"
)

// limitedServer has a clock that stands still, and connections that may send ten requests a second.
func limitedServer(t *testing.T) (*servertest.Server, *clocktest.Fake) {
	fake := clocktest.NewFake(time.Unix(1_000_000, 0))
	limiter := admission.New(admission.Limits{Rate: admission.Rate{Requests: 10}})
	srv := servertest.Start(t, servertest.Options{Files: map[string]string{"a.json": "{}"}, Server: tcp.Config{Clock: fake, Connections: limiter}})
	fake.BlockUntil(1)
	return srv, fake
}

// untilRests waits until so many connections rest.
func untilRests(t *testing.T, srv *servertest.Server, n int64) {
	t.Helper()
	require.Eventually(t, func() bool { return srv.Stats().Get("server_sessions_resting") == n }, servertest.Patience, time.Millisecond)
}

// A flood beyond a rate stays where it comes from: it is not read, others are answered, and then
// each request is, in order.
func TestAFloodBeyondTheRateIsNotRead(t *testing.T) {
	srv, fake := limitedServer(t)
	p, other := srv.Peer("flood"), srv.Peer("other")
	const requests = 128
	var flood []byte
	value := strings.Repeat("v", 256<<10)
	for i := range requests {
		flood = protocol.AppendFrame(flood, protocol.KVPut, uint16(i), fmt.Appendf(nil, `{"ns":"n","key":"k","value":%q}`, value))
	}
	sent := make(chan error, 1)
	go func() {
		_, err := p.Conn.Write(flood)
		sent <- err
	}()
	untilRests(t, srv, 1)
	require.Less(t, srv.Stats().Get("server_memory_bytes"), int64(len(value)*3), "what is read is what the next turn needs")
	select {
	case err := <-sent:
		require.Fail(t, "all of it has left", "%v", err)
	default:
	}
	require.Contains(t, other.Call(protocol.GetConfig, `{"file_pattern":"a.json"}`), `"code":0`)
	stop := make(chan struct{})
	advanced := make(chan struct{})
	go func() {
		defer close(advanced)
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
				fake.Advance(5 * time.Millisecond)
			}
		}
	}()
	refused := 0
	for i := range requests {
		f := p.Next()
		require.Equal(t, protocol.KVPut.Reply(), f.Command)
		require.EqualValues(t, i, f.Seq)
		if !strings.Contains(f.Body, `"code":0`) {
			require.Regexp(t, `"code":503,.*"retry_after":[1-9]`, f.Body)
			refused++
		}
	}
	require.NoError(t, <-sent)
	untilRests(t, srv, 0)
	p.Quiet()
	close(stop)
	<-advanced
	require.Greater(t, refused, 50)
}

// flooded is a peer that rests.
func flooded(t *testing.T, srv *servertest.Server) *servertest.Peer {
	p := srv.Peer("flood")
	const requests = 9 + 50 + 1 // beside WHOAMI
	for range requests {
		p.Send(protocol.GetConfig, `{"file_pattern":"a.json"}`)
	}
	for range requests {
		p.Next()
	}
	untilRests(t, srv, 1)
	return p
}

// What keeps a connection alive comes in time, however much its peer was refused.
func TestAKeepAliveIsAnsweredAfterARest(t *testing.T) {
	srv, fake := limitedServer(t)
	p := flooded(t, srv)
	p.Send(protocol.KeepAlive, "")
	fake.Advance(time.Second)
	require.Equal(t, protocol.KeepAlive.Reply(), p.Next().Command)
	untilRests(t, srv, 0)
	require.EqualValues(t, 1, srv.Stats().Get("server_sessions_rested_total"))
}

func TestAServerStopsWhilePeersRest(t *testing.T) {
	srv, _ := limitedServer(t)
	p := flooded(t, srv)
	p.Send(protocol.KVPut, `{"ns":"n","key":"k","value":"v"}`)
	srv.Stop()
	p.Closed()
}

func TestARestingPeerMayGo(t *testing.T) {
	srv, fake := limitedServer(t)
	flooded(t, srv).Reset()
	fake.Advance(time.Second)
	require.Eventually(t, func() bool { return srv.Stats().Get("server_connections") == 0 }, servertest.Patience, time.Millisecond)
	untilRests(t, srv, 0)
}
