package landing_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/player/field"
	"confcenter/player/landing"
	"confcenter/player/landing/landingtest"
)

// line is a way to a database that breaks after some bytes.
type line struct {
	listener net.Listener
	to       string
	wg       sync.WaitGroup

	mu     sync.Mutex
	random *rand.Rand // guarded by mu
	whole  bool       // guarded by mu: it does not break any more
	marker string     // guarded by mu: if not "", it breaks when this is to be carried, and only then
}

// through makes a line to a socket.
func through(t *testing.T, socket string) (l *line, here string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "line")
	require.NoError(t, err)
	here = filepath.Join(dir, filepath.Base(socket))
	listener, err := net.Listen("unix", here)
	require.NoError(t, err)
	l = &line{listener: listener, to: socket, random: rand.New(rand.NewPCG(7, 7))}
	l.wg.Go(l.serve)
	t.Cleanup(func() {
		require.NoError(t, listener.Close())
		l.wg.Wait()
		require.NoError(t, os.RemoveAll(dir))
	})
	return l, here
}

// lineTo makes a line to a database.
func lineTo(t *testing.T, d *landingtest.Database) (l *line, dsn string) {
	t.Helper()
	query := d.Address.URL.Query()
	name, file := "socket", ""
	if d.Address.Kind == "postgres" {
		name, file = "host", "/.s.PGSQL.5432"
	}
	l, here := through(t, query.Get(name)+file)
	query.Set(name, strings.TrimSuffix(here, file))
	url := *d.Address.URL
	url.RawQuery = query.Encode()
	return l, url.String()
}

func (l *line) serve() {
	for {
		from, err := l.listener.Accept()
		if err != nil {
			return
		}
		to, err := net.Dial("unix", l.to)
		if err != nil {
			_ = from.Close()
			continue
		}
		const least, most, no = 2 << 10, 200 << 10, 1 << 40
		l.mu.Lock()
		there, back := int64(least+l.random.IntN(most)), int64(no)
		if l.random.IntN(2) == 0 { // the answer is lost
			there, back = no, int64(least/2+l.random.IntN(least))
		}
		if l.whole || l.marker != "" {
			there, back = no, no
		}
		l.mu.Unlock()
		carry := func(to, from net.Conn, n int64) {
			_, _ = io.CopyN(to, from, n)
			_ = from.Close()
			_ = to.Close()
		}
		l.wg.Go(func() { carry(&cutter{Conn: to, l: l}, from, there) })
		l.wg.Go(func() { carry(from, to, back) })
	}
}

func TestNothingIsLostOnALineThatBreaks(t *testing.T) {
	landingtest.On(t, servers, func(t *testing.T, d *landingtest.Database) {
		l, dsn := lineTo(t, d)
		s := landingtest.NewSource()
		s.Change(func(set *field.Settings) { set.Batch = 300 })
		behind := landingtest.Open(t, dsn)
		lander := landingtest.Start(t, s, behind, "a")
		n := 0
		lander.Pass(t, "the line has broken often", func() bool {
			for range 100 {
				s.Put(someone, fmt.Sprint("f", n%2000), fmt.Sprint(n, strings.Repeat("x", 100)))
				n++
			}
			return lander.Readings().Get("landing_failures_total") >= 15
		})
		l.mu.Lock()
		l.whole = true
		l.mu.Unlock()
		lander.Lands(t, s)
		s.Agree(t, d)
		require.Zero(t, lander.Readings().Get("landing_refused_rows_total"), "no row is to blame")
	})
}

// cutter ends a connection before the marker is written to it.
type cutter struct {
	net.Conn
	l    *line
	tail []byte // of what was written last
}

func (c *cutter) Write(p []byte) (int, error) {
	c.l.mu.Lock()
	marker := c.l.marker
	c.l.mu.Unlock()
	c.tail = append(c.tail, p...)
	if marker != "" && bytes.Contains(c.tail, []byte(marker)) {
		return 0, io.ErrClosedPipe
	}
	c.tail = append([]byte{}, c.tail[max(0, len(c.tail)-len(marker)):]...)
	return c.Conn.Write(p)
}

// onMarkedLine runs a test on each server with a line between that breaks whenever a text is to be carried.
func onMarkedLine(t *testing.T, marker string, test func(t *testing.T, direct, d *landingtest.Database, l *line)) {
	landingtest.On(t, servers, func(t *testing.T, direct *landingtest.Database) {
		l, dsn := lineTo(t, direct)
		l.mu.Lock()
		l.marker = marker
		l.mu.Unlock()
		test(t, direct, landingtest.Open(t, dsn), l)
	})
}

// A limit of a proxy's, or a fault of the database's, may end the connection over one row.
func TestARowThatBreaksTheConnectionHoldsNothingElseUp(t *testing.T) {
	onMarkedLine(t, "poison", func(t *testing.T, direct, d *landingtest.Database, line *line) {
		s := landingtest.NewSource()
		s.Change(func(set *field.Settings) { set.Tables = 4 })
		var owners [4]field.Owner
		for i := range owners {
			owners[i] = someone
			owners[i].ID = strings.Repeat("x", 4+i)
			for n := range 50 {
				s.Put(owners[i], fmt.Sprint("f", n), "good")
			}
		}
		s.Put(owners[1], "bad", "poison")
		l := landingtest.Start(t, s, d, "a")
		l.Clock.BlockUntil(1) // the first round is over
		for i := range owners {
			if i != 1 {
				require.Zero(t, s.LeftIn(i), "it waits for no other table")
			}
		}
		require.Equal(t, 51, s.LeftIn(1))
		require.NotZero(t, l.Readings().Get("landing_unreachable"))
		l.Pass(t, "all but one are landed", func() bool { return s.Left() == 1 })
		reason := s.Reasons()[field.Ref{Owner: owners[1], Name: "bad"}.Key()]
		require.Contains(t, reason, "the connection to the database breaks")
		require.Len(t, s.Reasons(), 1, "nobody else is to blame")
		l.Pass(t, "it is well", func() bool { return l.Readings().Get("landing_unreachable") == 0 })
		require.Equal(t, 2, strings.Count(l.Log.String(), "\n"), "it is told once, and its end: %s", l.Log)

		line.mu.Lock()
		line.whole, line.marker = true, ""
		line.mu.Unlock()
		s.Retry()
		l.Lands(t, s)
		s.Agree(t, direct)
	})
}

// As a proxy does that has no server behind it any more that takes writes.
func TestNoRowIsToBlameIfNoneIsWritten(t *testing.T) {
	onMarkedLine(t, "INSERT INTO", func(t *testing.T, direct, d *landingtest.Database, line *line) {
		s := landingtest.NewSource()
		for n := range 50 {
			s.Put(someone, fmt.Sprint("f", n), "good")
		}
		l := landingtest.Start(t, s, d, "a")
		l.Pass(t, "it has tried often", func() bool { return l.Readings().Get("landing_failures_total") >= 2*landing.MaxBreaks })
		require.Empty(t, s.Reasons())
		line.mu.Lock()
		line.whole, line.marker = true, ""
		line.mu.Unlock()
		l.Lands(t, s)
		s.Agree(t, direct)
		require.Empty(t, s.Reasons())
	})
}
