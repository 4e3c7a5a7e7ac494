package confstore

import (
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"confcenter/internal/watch"

	"github.com/stretchr/testify/require"
)

// TestLimitsOfTheKernelAreNamedAndTriedAgain: what cannot be watched is told with the setting that is in
// the way, counted, and watched as soon as it can be.
func TestLimitsOfTheKernelAreNamedAndTriedAgain(t *testing.T) {
	for limit, c := range map[string]struct {
		instance, watch error
		unwatched       int64
	}{
		"max_user_instances": {instance: os.NewSyscallError("inotify_init", syscall.EMFILE), unwatched: 3},
		"max_user_watches":   {watch: syscall.ENOSPC, unwatched: 2},
	} {
		t.Run(limit, func(t *testing.T) {
			k := newKit(t, map[string]string{"a.json": `1`, "sub/b.json": `1`, "sub/deep/c.json": `1`})
			require.NoError(t, k.Close())
			var raised atomic.Bool
			var begun sync.Map // watches, by their paths
			k.cfg.ScanPeriod = 10 * time.Millisecond
			k.cfg.events = func(dir string) (*watch.Watcher, error) {
				if c.instance != nil && !raised.Load() {
					return nil, c.instance
				}
				w, err := watch.New(dir)
				if err == nil {
					begin := w.Begin
					w.Begin = func(path string) error {
						if c.watch != nil && !raised.Load() && strings.Contains(path, "/sub") {
							return c.watch
						}
						err := begin(path)
						if err == nil {
							begun.Store(path, true)
						}
						return err
					}
				}
				return w, err
			}
			k.open()
			require.EqualValues(t, c.unwatched, k.Stats().Unwatched)
			require.NotEmpty(t, k.Problems())
			for _, p := range k.Problems() {
				require.Regexp(t, `the kernel's limit (fs\.inotify\.`+limit+`|user\.max_inotify_\w+) \(\d+\) is reached; raise it, for example with sysctl -w (fs\.inotify|user)\.\w+=\d+`, p.Text)
			}
			require.NoError(t, os.MkdirAll(k.path("sub/gone"), 0o755))
			k.await("one more", func() bool { return k.Stats().Unwatched == c.unwatched+1 })
			require.NoError(t, os.Remove(k.path("sub/gone")))
			k.await("one less", func() bool { return k.Stats().Unwatched == c.unwatched })
			raised.Store(true)
			k.await("the end of the reports", func() bool { return len(k.Problems()) == 0 && k.Stats().Unwatched == 0 })
			for _, dir := range []string{"sub", "sub/deep"} {
				_, watched := begun.Load(k.path(dir))
				require.True(t, watched, dir)
			}
			k.put("sub/b.json", `2`)
			require.Equal(t, []string{"sub/b.json"}, names(k.next()))
		})
	}
}
