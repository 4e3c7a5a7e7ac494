package decrypt

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"confcenter/internal/authority"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sent is what one side has put on the wire in one write.
type sent struct {
	from Side
	b    []byte
}

// tape is a connection's bytes in the order in which they were sent, and its key log.
type tape struct {
	mu   sync.Mutex
	sent []sent
	log  bytes.Buffer
}

// end is one side's connection; it writes down what it sends.
type end struct {
	net.Conn
	of   Side
	tape *tape
}

func (e *end) Write(b []byte) (int, error) {
	e.tape.mu.Lock()
	e.tape.sent = append(e.tape.sent, sent{e.of, bytes.Clone(b)})
	e.tape.mu.Unlock()
	return e.Conn.Write(b)
}

// issued are the certificates of all conversations.
var issued = sync.OnceValues(func() (*authority.Authority, tls.Certificate) {
	a, err := authority.New()
	if err != nil {
		panic(err)
	}
	pair, err := a.Issue("server", time.Now().Add(time.Hour))
	if err != nil {
		panic(err)
	}
	cert, err := pair.Certificate()
	if err != nil {
		panic(err)
	}
	return a, cert
})

func configs() (client, server *tls.Config) {
	a, cert := issued()
	return &tls.Config{RootCAs: a.Pool(), ServerName: "localhost"}, &tls.Config{Certificates: []tls.Certificate{cert}}
}

// converse has both sides of a real connection say these lines in turn, the client first.
// The one of them that is logging writes the key log.
func converse(t *testing.T, client, server *tls.Config, logging Side, lines ...string) *tape {
	t.Helper()
	tape := &tape{}
	if logging == Client {
		client = client.Clone()
		client.KeyLogWriter = &tape.log
	} else {
		server = server.Clone()
		server.KeyLogWriter = &tape.log
	}
	a, b := tcpPair(t)
	one, two := tls.Client(&end{a, Client, tape}, client), tls.Server(&end{b, Server, tape}, server)
	served := make(chan error, 1)
	go func() {
		served <- say(two, lines, 1)
	}()
	require.NoError(t, say(one, lines, 0))
	require.NoError(t, <-served)
	require.NoError(t, one.Close())
	require.NoError(t, two.Close())
	return tape
}

// tcpPair is a connection of this machine with itself. Pipes would not do: alerts are sent
// where nobody may read them.
func tcpPair(t *testing.T) (client, server net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	client, err = net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	server, err = l.Accept()
	require.NoError(t, err)
	t.Cleanup(func() {
		client.Close()
		server.Close()
	})
	return client, server
}

// say says every second line, beginning with one's own, and reads the others.
func say(c net.Conn, lines []string, own int) error {
	for i, line := range lines {
		if i%2 == own {
			if _, err := io.WriteString(c, line); err != nil {
				return err
			}
			continue
		}
		got := make([]byte, len(line))
		if _, err := io.ReadFull(c, got); err != nil {
			return err
		}
		if string(got) != line {
			return fmt.Errorf("read %q, want %q", got, line)
		}
	}
	return nil
}

// heard is a Receiver that writes everything down.
type heard struct {
	said  [2]strings.Builder
	notes []string
	lost  [2]int64
	why   []string
	lines map[int64]string // by when they were said
}

func (h *heard) Data(from Side, at int64, b []byte) {
	h.said[from].Write(b)
	if h.lines == nil {
		h.lines = map[int64]string{}
	}
	h.lines[at] += string(b)
}

func (h *heard) Lost(from Side, _ int64, n int64, reason string) {
	h.lost[from] += n
	h.why = append(h.why, reason)
	fmt.Fprintf(&h.said[from], "[%d]", n)
}

func (h *heard) Note(_ Side, _ int64, text string, _ bool) { h.notes = append(h.notes, text) }

// keys is the tape's log as ccdump reads it.
func (t *tape) keys() *Log { return newLog(bytes.NewReader(t.log.Bytes())) }

// play has a conversation take a tape, cut into pieces of at most so many bytes.
func (t *tape) play(log *Log, piece int) *heard {
	h := &heard{}
	c := New(log, h)
	for i, s := range t.sent {
		for b := s.b; len(b) > 0; {
			n := min(piece, len(b))
			c.Take(s.from, int64(i), b[:n])
			b = b[n:]
		}
	}
	c.End(int64(len(t.sent)))
	return h
}

// of is everything that a side says in lines.
func of(lines []string, own int) string {
	var all strings.Builder
	for i, line := range lines {
		if i%2 == own {
			all.WriteString(line)
		}
	}
	return all.String()
}
