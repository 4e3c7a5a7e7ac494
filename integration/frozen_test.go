package integration

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/client"
	"confcenter/codes"
	"confcenter/internal/servertest"
)

// A process under SIGSTOP keeps its connections and accepts new ones. A client with
// another address does without it, and keeps what it knew until then.
func TestFrozenServerWithAHealthySecond(t *testing.T) {
	t.Parallel()
	start := func(contents string) *Process {
		conf := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(conf, "a.json"), []byte(contents), 0o644))
		return StartProcess(t, conf)
	}
	first, second := start(`1`), start(`2`)
	c, err := client.Dial(t.Context(), client.Config{
		Addrs: []string{first.Addr, second.Addr}, Name: "app1", CacheDir: t.TempDir(), RequestTimeout: time.Second,
	})
	require.NoError(t, err)
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), servertest.Patience)
	defer cancel()
	d, err := c.Get(ctx, "a.json")
	for errors.Is(err, codes.Timeout) && ctx.Err() == nil { // a busy machine takes a second easily
		d, err = c.Get(ctx, "a.json")
	}
	require.NoError(t, err)
	require.Equal(t, `1`, string(d.Raw()))

	first.Signal(syscall.SIGSTOP)
	marked := false // the kernel may let the first one answer some more
	for string(d.Raw()) != `2` {
		d, err = c.Get(ctx, "a.json")
		require.NoError(t, err, "no Get fails")
		require.NoError(t, ctx.Err())
		if string(d.Raw()) == `1` {
			require.True(t, d.Stale() || !marked, "what the frozen one said is marked")
			marked = d.Stale()
		}
	}
	require.True(t, marked)
	require.False(t, d.Stale())
	first.Signal(syscall.SIGCONT)
}
