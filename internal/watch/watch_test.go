package watch

import (
	"testing"

	"github.com/fsnotify/fsnotify"
	"github.com/stretchr/testify/require"
)

func TestALimitThatLosesEventsIsNamed(t *testing.T) {
	w := &Watcher{wake: make(chan struct{}, 1)}
	w.Lose(fsnotify.ErrEventOverflow)
	require.Contains(t, w.Collect().Lost, "the kernel's limit fs.inotify.max_queued_events (")
}
