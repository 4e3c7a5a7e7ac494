package server_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"confcenter/codes"
	"confcenter/confstore"
	"confcenter/kv"
	"confcenter/kvstore/memory"
	"confcenter/server"
	"confcenter/server/http"
	"confcenter/server/tcp"
)

// The event loop library starts goroutines of its own when it is linked.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m, goleak.IgnoreCurrent()) }

// config is of a server on stores that are empty.
func config(t *testing.T) server.Config {
	dir := t.TempDir()
	conf := filepath.Join(dir, "conf")
	require.NoError(t, os.Mkdir(conf, 0o755))
	return server.Config{State: memory.New(memory.Config{}).Store, Documents: confstore.Config{Dir: conf, DataDir: filepath.Join(dir, "data"), SetTimeout: time.Minute}}
}

func TestWhatCannotBeOpenedIsClosed(t *testing.T) {
	for name, spoil := range map[string]func(*server.Config){
		"documents": func(cfg *server.Config) { cfg.Documents.Dir += "/none" },
		"players":   func(cfg *server.Config) { cfg.Landing.DSN = "nothing:known" },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := config(t)
			spoil(&cfg)
			_, err := server.Open(cfg)
			require.Error(t, err)
			err = cfg.State.Commit(kv.PutTxn("n", "k", kv.StringValue("v")), func(*kv.Result, error) {})
			require.Equal(t, codes.Closed, codes.Of(err))
		})
	}
}

func TestCloseClosesWhatWasOpenedLastFirst(t *testing.T) {
	s, err := server.Open(config(t))
	require.NoError(t, err)
	var order []string
	for _, name := range []string{"a", "b"} {
		s.Own(func() error {
			require.NotEqual(t, codes.Closed, codes.Of(s.Documents.Set(confstore.SetRequest{Name: "a"}, func(confstore.SetResult, error) {})), "what is below is open")
			order = append(order, name)
			return syscall.EIO
		})
	}
	require.ErrorIs(t, s.Close(), syscall.EIO)
	require.Equal(t, []string{"b", "a"}, order)
	require.NoError(t, s.Close())
}

// A server on default settings does without HTTP where another has its port, and says so.
func TestSpareHTTPIsLeftOutWhereItsPortIsTaken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	for _, spare := range []bool{true, false} {
		var text strings.Builder
		cfg := config(t)
		cfg.Log = zerolog.New(zerolog.SyncWriter(&text))
		s, err := server.Open(cfg)
		require.NoError(t, err)
		err = s.Start(t.Context(), server.Fronts{TCP: tcp.Config{Listen: "127.0.0.1:0"}, HTTP: &http.Config{Listen: l.Addr().String()}, SpareHTTP: spare})
		require.Nil(t, s.HTTP)
		if spare {
			require.NoError(t, err)
			require.Nil(t, s.Done())
			require.NoError(t, s.Shutdown(t.Context()))
			require.Contains(t, text.String(), "HTTP is off: its default port is taken")
		} else {
			require.ErrorIs(t, err, syscall.EADDRINUSE)
		}
		require.NoError(t, s.Close())
	}
}
