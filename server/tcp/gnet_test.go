package tcp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"confcenter/confstore"
	"confcenter/internal/admission"
	"confcenter/internal/servertest"
	"confcenter/kvstore/memory"
	"confcenter/protocol"
	"confcenter/server/tcp"
)

// What the event-loop library does and its documentation does not say. Each of
// these was seen, and each test fails if the server stops being ready for it.

func TestOrderHoldsBeyondAThousandTasks(t *testing.T) {
	srv := servertest.Start(t, servertest.Options{})
	from, to := srv.Peer("from"), srv.Peer("to")
	const frames = 5000 // the library's queues are in order up to 1,024
	go func() {
		var burst []byte
		for i := range frames {
			body := fmt.Sprintf(`{"to":%d,"n":%d}`, to.ID, i)
			burst = protocol.AppendFrame(burst, protocol.Exchang, uint16(i), []byte(body))
		}
		_, _ = from.Write(burst)
	}()
	for i := range frames {
		f := to.Next()
		require.Equal(t, protocol.Exchang, f.Command)
		require.Equal(t, uint16(i), f.Seq)
	}
}

const fewFilesEnv = "CONFCENTER_TEST_FEW_FILES"

// TestOutOfFilesIsSurvived runs itself in a process that may open few files.
func TestOutOfFilesIsSurvived(t *testing.T) {
	if os.Getenv(fewFilesEnv) != "" {
		serveWithFewFiles(t)
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestOutOfFilesIsSurvived$", "-test.v")
	cmd.Env = append(os.Environ(), fewFilesEnv+"=1")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Contains(t, string(out), "PASS: TestOutOfFilesIsSurvived")
}

func serveWithFewFiles(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(dir+"/conf", 0o755))
	store, err := confstore.Open(confstore.Config{Dir: dir + "/conf", DataDir: dir + "/data", State: memory.ForTest(t), SetTimeout: time.Minute})
	require.NoError(t, err)
	defer store.Close()
	limiter := admission.New(admission.Limits{Unidentified: 1024})
	var log bytes.Buffer
	srv := tcp.New(servertest.OnTransport(tcp.Config{Listen: "127.0.0.1:0", Connections: limiter, Log: zerolog.New(zerolog.SyncWriter(&log))}), tcp.Stores{Config: store})
	require.NoError(t, srv.Start())
	addr := srv.Addr().String()
	there := servertest.Dial(t, addr)
	there.Identify(`{"svrid":0}`) // all is open that is needed to begin
	// The peers have their descriptors already when there are no more.
	peers := make([]int, 32)
	for i := range peers {
		peers[i], err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
		require.NoError(t, err)
	}
	few := uint64(peers[len(peers)-1] + 4)
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: few, Max: few}))
	port := srv.Addr().(*net.TCPAddr).Port
	for _, fd := range peers {
		require.NoError(t, unix.Connect(fd, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}))
	}
	require.Eventually(t, func() bool { return limiter.Count.Exhausted.Load() > 2 }, servertest.Patience, time.Millisecond)
	require.Contains(t, there.Call(protocol.GetCfgName, ""), "{", "who was there is served")
	for _, fd := range peers {
		require.NoError(t, unix.Close(fd))
	}
	servertest.Dial(t, addr).Identify(`{"svrid":0}`)
	require.NoError(t, srv.Shutdown(t.Context()))
	require.Equal(t, 1, strings.Count(log.String(), "connections cannot be accepted"), log.String())
}

func TestOneClientBeyondTheLimitIsToldSo(t *testing.T) {
	limiter := admission.New(admission.Limits{Unidentified: 2})
	srv := servertest.Start(t, servertest.Options{Server: tcp.Config{MaxConnections: 2, Connections: limiter}})
	a, b := srv.Peer("a"), srv.Peer("b")
	c := srv.Dial()
	refused := c.Call(protocol.Whoami, `{"svrid":0,"svrname":"c"}`)
	require.Contains(t, refused, `"code":503`)
	require.Contains(t, refused, `"svrid"`, "without it Python clients die")
	require.EqualValues(t, 1, limiter.Count.Settled.Load())
	silent := srv.Dial()
	a.Quiet()
	srv.Dial() // takes the place of the oldest that is silent, which c is not
	require.Eventually(t, func() bool { return limiter.Count.Evicted.Load() == 1 }, servertest.Patience, time.Millisecond)
	b.Close()
	require.Eventually(t, func() bool { return srv.Stats().Get("server_clients") == 1 }, servertest.Patience, time.Millisecond)
	silent.Closed()
	c.Identify(`{"svrid":0,"svrname":"c"}`) // it was not closed: Python's SDK would be back at once
}

// A program must get in however many connections sit there in silence.
func TestSilentStrangersMakeRoom(t *testing.T) {
	const room, crowd = 8, 64
	limiter := admission.New(admission.Limits{Unidentified: room})
	srv := servertest.Start(t, servertest.Options{Server: tcp.Config{Connections: limiter}})
	there := srv.Peer("there")
	silent := make([]*servertest.Peer, crowd)
	for i := range silent {
		silent[i] = srv.Dial()
		// The kernel may give the server two connections in the other order.
		require.Eventually(t, func() bool { return limiter.Unidentified() == min(i+1, room) }, servertest.Patience, time.Millisecond)
		srv.Peer(fmt.Sprintf("newcomer%d", i)).Quiet()
	}
	const evicted = crowd - room + 1 // the last newcomer needed a place, too
	for _, s := range silent[:evicted] {
		s.Closed()
	}
	there.Quiet()
	require.EqualValues(t, evicted, limiter.Count.Evicted.Load())
}

func TestNobodyHasTheServersOwnID(t *testing.T) {
	srv := servertest.Start(t, servertest.Options{Server: tcp.Config{ServerID: 7}})
	require.Contains(t, srv.Dial().Call(protocol.Whoami, `{"svrid":7}`), "svrid=7 existed")
}

// A peer that resets its connection makes the write to it fail, and the library
// calls OnClose before that write returns: in the middle of the fan-out.
func TestPeersThatResetDuringAFanOutHurtNobody(t *testing.T) {
	srv := servertest.Start(t, servertest.Options{Files: map[string]string{"a.json": `{"n":0}`}, Server: tcp.Config{Loops: 1}})
	writer := srv.Peer("writer")
	const each = 40
	var stay, leave []*servertest.Peer
	for i := range 2 * each {
		p := srv.Peer(fmt.Sprintf("p%d", i))
		p.Call(protocol.BookCfgChange, `{"file_pattern":"a.json"}`)
		if i%2 == 0 {
			stay = append(stay, p)
		} else {
			leave = append(leave, p)
		}
	}
	for _, p := range leave {
		p.Reset()
	}
	mtime := writer.Set("a.json", `{"n":1}`)
	for _, p := range stay {
		require.Equal(t, protocol.Change{File: "a.json", Mtime: mtime}, p.Push())
	}
	require.Eventually(t, func() bool { return srv.Stats().Get("server_connections") == each+1 }, servertest.Patience, time.Millisecond)
}

// A closed connection's descriptor is soon a stranger's. What is still on its
// way to the old session must not reach him.
func TestFramesForAClosedSessionReachNobody(t *testing.T) {
	srv := servertest.Start(t, servertest.Options{Server: tcp.Config{Loops: 1}})
	from := srv.Peer("from")
	for range 50 {
		to := srv.Peer("to")
		var burst []byte
		for i := range 20 {
			burst = protocol.AppendFrame(burst, protocol.Exchang, uint16(i), fmt.Appendf(nil, `{"to":%d}`, to.ID))
		}
		to.Close()
		from.Raw(burst)
		stranger := srv.Peer("stranger")
		stranger.Quiet()
		stranger.Close()
		from.Drain() // each frame was relayed while `to` was there or is answered with 400
	}
}

func TestTheLastReplyIsReadBeforeTheClose(t *testing.T) {
	srv := servertest.Start(t, servertest.Options{})
	// What follows the refused frame stays unread at the server; a plain close
	// would turn into a reset and take the answer with it.
	for range 50 {
		p := srv.Dial()
		var burst []byte
		for i := range 200 {
			burst = protocol.AppendFrame(burst, protocol.GetConfig, uint16(i), []byte(`{"file_pattern":"a.json"}`))
		}
		p.Raw(burst)
		f := p.Next()
		require.Equal(t, protocol.GetConfig.Reply(), f.Command)
		res, err := protocol.ParseResult([]byte(f.Body))
		require.NoError(t, err)
		require.EqualValues(t, 401, res.Code)
		p.Closed()
	}
}

func TestRestartOnTheSamePortWorksAtOnce(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(dir+"/conf", 0o755))
	store, err := confstore.Open(confstore.Config{Dir: dir + "/conf", DataDir: dir + "/data", State: memory.ForTest(t), SetTimeout: time.Minute})
	require.NoError(t, err)
	defer store.Close()
	addr := "127.0.0.1:0"
	for range 3 {
		srv := tcp.New(servertest.OnTransport(tcp.Config{Listen: addr}), tcp.Stores{Config: store})
		require.NoError(t, srv.Start())
		addr = srv.Addr().String()
		p := servertest.Dial(t, addr)
		p.Identify(`{"svrid":0}`)
		// The server closes first, so the port stays in TIME_WAIT.
		require.NoError(t, srv.Shutdown(t.Context()))
	}
}

func TestATakenPortIsCalledThat(t *testing.T) {
	taken := servertest.Start(t, servertest.Options{})
	err := tcp.New(servertest.OnTransport(tcp.Config{Listen: taken.Addr().String()}), tcp.Stores{Config: taken.Store}).Start()
	require.ErrorContains(t, err, "address already in use")
}

func TestAWriteStandsThoughItsWriterHasGone(t *testing.T) {
	srv := servertest.Start(t, servertest.Options{Files: map[string]string{"a.json": `{"n":0}`}})
	watcher, writer := srv.Peer("watcher"), srv.Peer("writer")
	watcher.Call(protocol.BookCfgChange, `{"file_pattern":"a.json"}`)
	writer.Send(protocol.SetConfig, `{"filename":"a.json","contents":{"n":1}}`)
	writer.CloseWrite()
	watcher.Push()
	require.JSONEq(t, `{"n":1}`, string(watcher.Get("a.json").Contents))
}

func TestShutdownAnswersWhatItAccepted(t *testing.T) {
	srv := servertest.Start(t, servertest.Options{})
	p := srv.Peer("writer")
	const writes = 30
	for i := range writes {
		p.Send(protocol.SetConfig, fmt.Sprintf(`{"filename":"f%d.json","contents":%d}`, i, i))
	}
	first := p.Next() // the server has begun, and the frames have long arrived
	require.Equal(t, protocol.SetConfig.Reply(), first.Command)
	done := make(chan struct{})
	go func() { srv.Stop(); close(done) }()
	acknowledged := 1
	for {
		f, err := p.TryNext()
		if err != nil {
			break
		}
		require.Equal(t, protocol.SetConfig.Reply(), f.Command)
		acknowledged++
	}
	<-done
	srv.Restart()
	var names map[string][2]int
	require.NoError(t, json.Unmarshal([]byte(srv.Peer("reader").Call(protocol.GetCfgName, "")), &names))
	require.GreaterOrEqual(t, len(names), acknowledged)
	require.False(t, strings.Contains(fmt.Sprint(names), "tmp"))
}

// Then a stop was orderly all the same, and the caller can tell.
func TestAStopThatPeersHoldUpEndsWithItsContext(t *testing.T) {
	files := servertest.Start(t, servertest.Options{Files: map[string]string{"a.json": `"` + strings.Repeat("x", 1<<20) + `"`}})
	srv := tcp.New(servertest.OnTransport(tcp.Config{Listen: "127.0.0.1:0"}), tcp.Stores{Config: files.Store})
	require.NoError(t, srv.Start())
	deaf := servertest.Dial(t, srv.Addr().String())
	deaf.Identify(`{"svrid":0,"svrname":"deaf"}`)
	for range 64 {
		deaf.Send(protocol.GetConfig, `{"file_pattern":"a.json"}`)
	}
	require.NoError(t, deaf.Conn.SetReadDeadline(time.Now().Add(10*time.Second)))
	_, err := deaf.Conn.Read(make([]byte, 1)) // the first answer is on its way
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, srv.Shutdown(ctx), context.DeadlineExceeded)
}

// A peer may say at once that it sends no more; what it asked for last is answered, also
// where reads of several peers are gathered.
func TestAReadIsAnsweredThoughItsPeerSendsNoMore(t *testing.T) {
	srv := servertest.Start(t, servertest.Options{})
	for range 50 {
		p := srv.Peer("reader")
		p.Send(protocol.KVGet, `{"ns":"n","key":"a"}`)
		p.CloseWrite()
		require.Equal(t, protocol.KVGet.Reply(), p.Next().Command)
	}
}
