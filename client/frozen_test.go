package client

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/protocol"
)

// freeze makes s accept connections and answer nothing any more, as a process that was
// stopped does.
func freeze(s *fakeServer) {
	s.change(func(s *fakeServer) {
		s.script = func(*fakeConn, protocol.Header, []byte) bool { return true }
	})
}

// hasty is a Config with short limits.
func hasty(servers ...*fakeServer) Config {
	cfg := quick(servers[0])
	cfg.Addrs = nil
	for _, s := range servers {
		cfg.Addrs = append(cfg.Addrs, s.addr)
	}
	cfg.RequestTimeout, cfg.KeepAliveTimeout = 30*time.Millisecond, 50*time.Millisecond
	return cfg
}

// A request that times out has the connection probed; the healthy address is then
// used, and the frozen one, which still accepts connections, is not tried first.
func TestFrozenServerIsLeft(t *testing.T) {
	for name, limit := range map[string]time.Duration{"Config.RequestTimeout": 0, "context": time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			one, two := newFakeServer(t, map[string]string{"a.json": `1`}), newFakeServer(t, map[string]string{"a.json": `2`})
			cfg := hasty(one, two)
			cfg.DialTimeout = time.Hour // a client that tries the frozen one stays there
			c := dialWith(t, cfg)
			freeze(one)
			eventually(t, func() bool {
				ctx := t.Context()
				if limit != 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, limit)
					defer cancel()
				}
				d, err := c.Get(ctx, "a.json")
				return err == nil && string(d.Raw()) == `2`
			}, "the other one answers")
			require.Len(t, one.requests(protocol.Whoami), 1, "the frozen one is not tried again")
		})
	}
}

// A server that is slow with one answer, and there, is kept.
func TestSlowServerIsNotLeft(t *testing.T) {
	s := newFakeServer(t, map[string]string{"a.json": `1`})
	s.change(func(s *fakeServer) {
		s.script = func(_ *fakeConn, h protocol.Header, _ []byte) bool { return h.Command == protocol.GetConfig }
	})
	c := dialWith(t, hasty(s))
	for len(s.requests(protocol.KeepAlive)) < 3 {
		_, err := c.Get(t.Context(), "a.json")
		require.ErrorIs(t, err, codes.Timeout)
	}
	s.change(func(s *fakeServer) { s.script = nil })
	eventually(t, func() bool {
		_, err := c.Get(t.Context(), "a.json")
		return err == nil
	}, "it answers")
	require.Len(t, s.requests(protocol.Whoami), 1)
}

// While no server answers in time, what is known is served and marked as such.
func TestFrozenServerLeavesWhatIsKnown(t *testing.T) {
	for name, dir := range map[string]string{"memory": "", "disk": t.TempDir()} {
		t.Run(name, func(t *testing.T) {
			s := newFakeServer(t, map[string]string{"a.json": `{"x":{"y":1}}`, "b.json": `{}`})
			cfg := hasty(s)
			cfg.CacheDir = dir
			c := dialWith(t, cfg)
			if dir == "" {
				st, _ := watch(t, c, Query{Name: "a.json"})
				st.next()
			}
			for path, want := range map[string]string{"": `{"x":{"y":1}}`, "/x": `{"y":1}`} {
				eventually(t, func() bool { // a busy machine answers late now and then
					d, err := c.GetConfig(t.Context(), Query{Name: "a.json", Path: path})
					return err == nil && !d.Stale() && string(d.Raw()) == want
				}, "it is known, "+want)
			}
			freeze(s)
			for path, want := range map[string]string{"": `{"x":{"y":1}}`, "/x": `{"y":1}`} {
				d, err := c.GetConfig(t.Context(), Query{Name: "a.json", Path: path})
				require.NoError(t, err)
				require.True(t, d.Stale())
				require.Equal(t, want, string(d.Raw()))
				require.NotZero(t, d.StoredAt())
			}
			_, err := c.GetConfig(t.Context(), Query{Name: "a.json", Path: "/z"})
			require.Error(t, err)
			_, err = c.Get(t.Context(), "c.json")
			require.Error(t, err, "nothing is known")
		})
	}
}
