package client

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"confcenter/codes"
	"confcenter/protocol"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what must happen.
const patience = time.Minute

// quick is a Config for tests that lose connections.
func quick(s *fakeServer) Config {
	return Config{Addrs: []string{s.addr}, Name: "app1", Tag: "dev", MinBackoff: time.Millisecond, MaxBackoff: 20 * time.Millisecond}
}

// dial connects to s; the client is closed with the test.
func dial(t testing.TB, s *fakeServer) *Client { return dialWith(t, quick(s)) }

func dialWith(t testing.TB, cfg Config) *Client {
	t.Helper()
	c, err := Dial(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// eventually waits for a fact that nothing announces.
func eventually(t testing.TB, fact func() bool, what string) {
	t.Helper()
	require.Eventually(t, fact, patience, time.Millisecond, what)
}

// states collects what a callback is given.
type states struct {
	t testing.TB
	c chan *Document
}

func newStates(t testing.TB) *states { return &states{t, make(chan *Document, 1000)} }

func (s *states) add(d *Document) { s.c <- d }

func (s *states) next() *Document {
	s.t.Helper()
	select {
	case d := <-s.c:
		return d
	case <-time.After(patience):
		require.FailNow(s.t, "no state came")
		return nil
	}
}

// want waits for a state with these contents, empty for absent.
func (s *states) want(contents string) *Document {
	s.t.Helper()
	d := s.next()
	require.Equal(s.t, contents, string(d.Raw()))
	require.Equal(s.t, contents != "", d.Exists())
	return d
}

// none says that no state waits. Callers first make sure that all that could
// come has come.
func (s *states) none() {
	s.t.Helper()
	select {
	case d := <-s.c:
		require.FailNow(s.t, "unexpected state", "%s", d.Raw())
	default:
	}
}

// watch is Watch into states.
func watch(t testing.TB, c *Client, q Query) (*states, *Watch) {
	t.Helper()
	s := newStates(t)
	w, err := c.Watch(t.Context(), q, s.add)
	require.NoError(t, err)
	return s, w
}

// collector is an OnError.
type collector struct {
	mu   sync.Mutex
	errs []error
}

func (c *collector) add(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.errs = append(c.errs, err)
}

func (c *collector) has(target error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return errors.Is(errors.Join(c.errs...), target)
}

func (c *collector) text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := errors.Join(c.errs...); err != nil {
		return err.Error()
	}
	return ""
}

func TestDialIdentifies(t *testing.T) {
	s := newFakeServer(t, nil)
	s.change(func(s *fakeServer) { s.mainConf = "app1.json" })
	cfg := quick(s)
	cfg.Props = map[string]string{"idc": "5"}
	c := dialWith(t, cfg)
	require.EqualValues(t, 2001, c.ID())
	require.Equal(t, "e1", c.Epoch())
	require.Equal(t, "app1.json", c.MainConfig())
	require.True(t, c.Connected())
	require.Equal(t, []string{`{"svrid":0,"svrname":"app1","tag":"dev","clitype":300,"idc":"5"}`}, s.requests(protocol.Whoami))
}

func TestClosedClient(t *testing.T) {
	s := newFakeServer(t, map[string]string{"a.json": `{}`})
	c := dial(t, s)
	_, w := watch(t, c, Query{Name: "a.json"})
	require.NoError(t, c.Close())
	require.NoError(t, c.Close())
	w.Stop()
	require.False(t, c.Connected())

	_, err := c.Get(t.Context(), "a.json")
	require.ErrorIs(t, err, ErrClosed)
	require.ErrorIs(t, err, codes.Closed)
	require.True(t, SafeToRetry(err))
	_, err = c.Watch(t.Context(), Query{Name: "a.json"}, func(*Document) {})
	require.ErrorIs(t, err, ErrClosed)
	_, err = c.WatchMain(t.Context(), func(*Document) {})
	require.ErrorIs(t, err, ErrClosed)
	_, err = Bind[map[string]any](t.Context(), c, Query{Name: "a.json"})
	require.ErrorIs(t, err, ErrClosed)
}

// Close ends what waits, whatever it waits for.
func TestCloseEndsRequests(t *testing.T) {
	s := newFakeServer(t, nil)
	s.script = func(_ *fakeConn, h protocol.Header, _ []byte) bool { return h.Command == protocol.GetConfig }
	c := dial(t, s)
	results := make(chan error)
	go func() {
		_, err := c.Get(context.Background(), "a.json")
		results <- err
	}()
	go func() {
		_, err := c.Watch(context.Background(), Query{Name: "b.json"}, func(*Document) {})
		results <- err
	}()
	eventually(t, func() bool { return len(s.requests(protocol.GetConfig)) == 2 }, "both requests arrive")
	require.NoError(t, c.Close())
	require.ErrorIs(t, <-results, ErrClosed)
	require.ErrorIs(t, <-results, ErrClosed)
}

func TestCloseFromCallback(t *testing.T) {
	s := newFakeServer(t, map[string]string{"a.json": `{}`})
	c := dial(t, s)
	done := make(chan error, 1)
	_, err := c.Watch(t.Context(), Query{Name: "a.json"}, func(*Document) { done <- c.Close() })
	require.NoError(t, err)
	require.NoError(t, <-done)
	require.NoError(t, c.Close())
}

func TestConfigDefaults(t *testing.T) {
	cfg := Config{}.withDefaults()
	require.Equal(t, []string{"127.0.0.1:4800"}, cfg.Addrs)
	require.Equal(t, 30*time.Second, cfg.KeepAlive)
	require.Equal(t, 64<<20, cfg.MaxBody)
	require.Equal(t, 1024, cfg.MaxInFlight)
	cfg = Config{MinBackoff: time.Minute, MaxInFlight: 1 << 20}.withDefaults()
	require.Equal(t, time.Minute, cfg.MaxBackoff)
	require.Equal(t, 1<<15, cfg.MaxInFlight)
}
