package servertest

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/protocol"
)

// Frame is a frame as received.
type Frame struct {
	protocol.Header
	Body string
}

// String is the frame as a Printer shows it, whole.
func (f Frame) String() string {
	return string(protocol.Printer{Style: protocol.BodyWhole}.AppendLine(nil, f.Header, []byte(f.Body)))
}

// Peer is a raw connection. Its methods fail the test rather than return errors.
type Peer struct {
	net.Conn
	// ID is the svrid that the server assigned; Identify sets it.
	ID int32

	t   testing.TB
	r   *bufio.Reader
	seq uint16
}

// Dial opens a connection and sends nothing.
func (s *Server) Dial() *Peer {
	s.t.Helper()
	return Dial(s.t, s.Addr().String())
}

// Dial opens a connection to a server on the transport that the tests run on.
func Dial(t testing.TB, addr string) *Peer {
	t.Helper()
	network := "tcp"
	if path, local := strings.CutPrefix(addr, "unix:"); local {
		network, addr = "unix", path
	}
	conn, err := net.DialTimeout(network, addr, Patience)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	if on.tls {
		return Over(t, tls.Client(conn, on.client()))
	}
	return Over(t, conn)
}

// Over is a peer on a connection.
func Over(t testing.TB, conn net.Conn) *Peer {
	return &Peer{Conn: conn, t: t, r: bufio.NewReader(conn)}
}

// CloseWrite says that the peer sends no more.
func (p *Peer) CloseWrite() {
	p.t.Helper()
	require.NoError(p.t, p.Conn.(interface{ CloseWrite() error }).CloseWrite())
}

// Reset closes the connection with a reset.
func (p *Peer) Reset() {
	p.t.Helper()
	conn := p.Conn
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	require.NoError(p.t, conn.(*net.TCPConn).SetLinger(0))
	conn.Close()
}

// Peer opens a connection and identifies it with that svrname.
func (s *Server) Peer(name string) *Peer {
	s.t.Helper()
	p := s.Dial()
	p.Identify(fmt.Sprintf(`{"svrid":0,"svrname":%q}`, name))
	return p
}

// Identify sends a WHOAMI that must succeed.
func (p *Peer) Identify(body string) protocol.Identified {
	p.t.Helper()
	id, err := protocol.ParseIdentified([]byte(p.Call(protocol.Whoami, body)))
	require.NoError(p.t, err)
	require.Zero(p.t, id.Code, id.Desc)
	p.ID = id.ID
	return id
}

// Send sends a request with the next sequence number and returns the number.
func (p *Peer) Send(cmd protocol.Command, body string) uint16 {
	p.t.Helper()
	p.seq++
	p.Raw(protocol.AppendFrame(nil, cmd, p.seq, []byte(body)))
	return p.seq
}

// Raw sends bytes in one write.
func (p *Peer) Raw(b []byte) {
	p.t.Helper()
	_, err := p.Write(b)
	require.NoError(p.t, err)
}

// Next waits for a frame.
func (p *Peer) Next() Frame {
	p.t.Helper()
	f, err := p.TryNext()
	require.NoError(p.t, err)
	return f
}

// Drain reads and discards everything that the server has sent so far.
func (p *Peer) Drain() {
	p.t.Helper()
	seq := p.Send(protocol.KeepAlive, "")
	for {
		if f := p.Next(); f.Command == protocol.KeepAlive.Reply() && f.Seq == seq {
			return
		}
	}
}

// TryNext is Next that returns an error, for example if the connection is closed.
func (p *Peer) TryNext() (Frame, error) {
	if err := p.SetReadDeadline(time.Now().Add(Patience)); err != nil {
		return Frame{}, err
	}
	return ReadFrame(p.r)
}

// ReadFrame reads a frame from a connection.
func ReadFrame(r io.Reader) (Frame, error) {
	var head [protocol.HeaderSize]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return Frame{}, err
	}
	h, err := protocol.ParseHeader(head[:])
	if err != nil {
		return Frame{}, err
	}
	body := make([]byte, h.BodyLen)
	_, err = io.ReadFull(r, body)
	return Frame{Header: h, Body: string(body)}, err
}

// Call sends a request and returns the body of its reply, which must be the next
// frame.
func (p *Peer) Call(cmd protocol.Command, body string) string {
	p.t.Helper()
	seq := p.Send(cmd, body)
	f := p.Next()
	require.Equal(p.t, cmd.Reply(), f.Command, f)
	require.Equal(p.t, seq, f.Seq, f)
	return f.Body
}

// Push waits for an EVNOTIFY about a config and returns it.
func (p *Peer) Push() protocol.Change {
	p.t.Helper()
	f := p.Next()
	require.Equal(p.t, protocol.EvNotify, f.Command, f)
	c, ok, err := protocol.ParseChange([]byte(f.Body))
	require.NoError(p.t, err, f)
	require.True(p.t, ok, f)
	return c
}

// Quiet expects that the server has sent nothing since the last frame and still answers.
// It takes two round trips: a loop handles a peer's requests before mail that came at the
// same moment, so a push may follow the first answer. A push that waits for a worker, or
// for a fan-out to more than a few dozen others, can come even later.
func (p *Peer) Quiet() {
	p.t.Helper()
	for range 2 {
		seq := p.Send(protocol.KeepAlive, "")
		f := p.Next()
		require.Equal(p.t, protocol.KeepAlive.Reply(), f.Command, "unexpected %s", f)
		require.Equal(p.t, seq, f.Seq)
	}
}

// Closed waits until the server closes the connection, without a frame before that.
func (p *Peer) Closed() {
	p.t.Helper()
	f, err := p.TryNext()
	require.Error(p.t, err, "unexpected %s", f)
	var timeout net.Error
	require.False(p.t, errors.As(err, &timeout) && timeout.Timeout(), "still open")
}

// Get is the contents of a document, by a GETCONFIG of file_pattern alone.
func (p *Peer) Get(name string) protocol.Config {
	p.t.Helper()
	c, err := protocol.ParseConfig([]byte(p.Call(protocol.GetConfig, fmt.Sprintf(`{"file_pattern":%q}`, name))))
	require.NoError(p.t, err)
	return c
}

// Set writes a document, which must be accepted, and returns its version. It is not for
// peers that subscribe to what they set.
func (p *Peer) Set(name, contents string) int32 {
	p.t.Helper()
	u, err := protocol.ParseConfigUpdated([]byte(p.Call(protocol.SetConfig,
		fmt.Sprintf(`{"filename":%q,"contents":%s}`, name, contents))))
	require.NoError(p.t, err)
	require.Zero(p.t, u.Code, u.Desc)
	return u.Mtime
}

// Log is a log that can be read while it is written.
type Log struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write implements io.Writer.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// String is what was written.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Reset forgets it.
func (l *Log) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Reset()
}
