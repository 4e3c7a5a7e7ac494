package tcp_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/internal/clock/clocktest"
	"confcenter/internal/servertest"
	"confcenter/protocol"
	"confcenter/server/tcp"
	"confcenter/server/tcp/loop"
)

// pipelined is a peer that sends all its requests before it reads a reply.
type pipelined struct {
	*servertest.Peer
	frames []protocol.Command
	sent   chan error // the result of writing them all
	wrote  atomic.Int64
}

// Write counts what the kernel has taken.
func (p *pipelined) Write(b []byte) (int, error) {
	n, err := p.Conn.Write(b)
	p.wrote.Add(int64(n))
	return n, err
}

// pipeline sends so many bytes of requests of several kinds.
func pipeline(srv *servertest.Server, bytes int) *pipelined {
	p := &pipelined{Peer: srv.Peer("hasty"), sent: make(chan error, 1)}
	var all []byte
	long := strings.Repeat("v", 20_000)
	for len(all) < bytes {
		n := len(p.frames)
		cmd, body := protocol.GetConfig, `{"file_pattern":"a.json"}`
		switch n % 3 {
		case 1:
			cmd, body = protocol.KVPut, fmt.Sprintf(`{"ns":"n","key":"k%d","value":%q}`, n%50, long)
		case 2:
			cmd, body = protocol.KVGet, fmt.Sprintf(`{"ns":"n","key":"k%d"}`, (n-1)%50)
		}
		p.frames = append(p.frames, cmd)
		all = protocol.AppendFrame(all, cmd, uint16(n), []byte(body))
	}
	go func() {
		for len(all) > 0 {
			n, err := p.Write(all[:min(len(all), 1<<20)])
			if err != nil {
				p.sent <- err
				return
			}
			all = all[n:]
		}
		p.sent <- nil
	}()
	return p
}

func TestAPeerThatPipelinesAndNeverReadsIsClosed(t *testing.T) {
	const limit = 1 << 20
	fake := clocktest.NewFake(time.Unix(1_000_000, 0))
	srv := servertest.Start(t, servertest.Options{
		Files: map[string]string{"a.json": `{"k":"` + strings.Repeat("x", 500) + `"}`},
		// Its clock runs ahead of what the disk can do, so that the peer might be found silent first.
		Server: tcp.Config{Clock: fake, KeepAlive: 1000 * time.Hour, Limits: loop.Limits{Input: limit, Stall: time.Minute}},
	})
	fake.BlockUntil(1)
	p := pipeline(srv, 32<<20)
	require.Eventually(t, func() bool { return srv.Stats().Get("server_limits_met_total", "input") > 0 }, servertest.Patience, time.Millisecond)
	require.Eventually(t, func() bool {
		require.Less(t, srv.Stats().Get("server_memory_bytes"), int64(2*limit))
		fake.Advance(5 * time.Second)
		return srv.Stats().Get("server_connections") == 0
	}, servertest.Patience, time.Millisecond)
	require.EqualValues(t, 1, srv.Stats().Get("server_limits_met_total", "stall"))
	require.Error(t, <-p.sent)
	require.Less(t, srv.Stats().Get("server_memory_bytes"), int64(100_000))
}

// A peer that is not read is noticed to have gone, and one that is read again is heard to
// its end.
func TestAPeerThatIsNotReadMayReset(t *testing.T) {
	srv := servertest.Start(t, servertest.Options{Server: tcp.Config{Limits: loop.Limits{Input: 100_000}}})
	for range 5 {
		before := srv.Stats().Get("server_limits_met_total", "input")
		p := pipeline(srv, 16<<20)
		require.Eventually(t, func() bool { return srv.Stats().Get("server_limits_met_total", "input") > before }, servertest.Patience, time.Millisecond)
		require.NoError(t, p.Close())
		require.Error(t, <-p.sent)
		require.Eventually(t, func() bool { return srv.Stats().Get("server_connections") == 0 }, servertest.Patience, time.Millisecond)
	}
}

// A frame beyond the limits is refused as ever, also in the middle of a pipeline.
func TestAnOversizeFrameInAPipelineIsRefused(t *testing.T) {
	srv := servertest.Start(t, servertest.Options{Server: tcp.Config{Limits: loop.Limits{Input: 100_000}}})
	p := pipeline(srv, 1<<20)
	require.NoError(t, <-p.sent)
	header := protocol.AppendHeader(nil, protocol.KVPut, 1, 0)
	binary.BigEndian.PutUint32(header[2:], protocol.MaxBody+1)
	p.Raw(header)
	for range p.frames {
		p.Next()
	}
	require.Contains(t, p.Next().Body, `"code":413`)
	p.Closed()
	require.EqualValues(t, 1, srv.Stats().Get("server_limits_met_total", "frame"))
	_, err := p.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
}

// What the loops count is what the process holds, also where the event-loop library holds
// it; and it is let go of when the peers are gone.
func TestWhatIsHeldForPeersIsCounted(t *testing.T) {
	const peers, input = 100, 200_000
	srv := servertest.Start(t, servertest.Options{
		Files:  map[string]string{"a.json": `{"k":"` + strings.Repeat("x", 30_000) + `"}`},
		Server: tcp.Config{Limits: loop.Limits{Input: input}},
	})
	all := bytes.Repeat(protocol.AppendFrame(nil, protocol.GetConfig, 1, []byte(`{"file_pattern":"a.json"}`)), 200_000)
	list := make([]*servertest.Peer, peers)
	for i := range list {
		list[i] = srv.Peer(fmt.Sprintf("p%d", i))
	}
	before := liveHeap()
	var sending sync.WaitGroup
	for _, p := range list {
		sending.Go(func() { _, _ = p.Write(all) }) // ends with the connection
	}
	require.Eventually(t, func() bool { return srv.Stats().Get("server_limits_met_total", "input") >= peers }, servertest.Patience, time.Millisecond)
	held, live := srv.Stats().Get("server_memory_bytes"), liveHeap()-before
	require.Greater(t, held, int64(peers*input))
	require.InEpsilon(t, live, held, 0.2, "held %d, live %d", held, live)
	for _, p := range list {
		require.NoError(t, p.Close())
	}
	sending.Wait()
	require.Eventually(t, func() bool { return srv.Stats().Get("server_connections") == 0 }, servertest.Patience, time.Millisecond)
	require.Less(t, srv.Stats().Get("server_memory_bytes"), int64(100_000))
	require.Less(t, liveHeap()-before, live/10)
}

// liveHeap is what is reachable, in bytes.
func liveHeap() int64 {
	runtime.GC()
	runtime.GC() // also what the first one left in pools
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
