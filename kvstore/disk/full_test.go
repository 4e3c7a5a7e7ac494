package disk

import (
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"confcenter/kvstore"
)

// lines are those of a log.
type lines chan string

func (l lines) Write(line []byte) (int, error) {
	l <- string(line)
	return len(line), nil
}

// TestAStartOnAFullDiskSaysWhatItWaitsFor: no one else can, since there is no port to ask.
func TestAStartOnAFullDiskSaysWhatItWaitsFor(t *testing.T) {
	said := make(lines, 1000)
	p := newPatient(t, nil)
	require.NoError(t, p.put("k", "1"))
	require.NoError(t, p.Close())
	p.cfg.Engine.Log = zerolog.New(said)
	p.sick(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFileWrite || op.Kind == errorfs.OpFileWriteAt {
			return syscall.ENOSPC
		}
		return nil
	})
	opened := make(chan *kvstore.Store, 1)
	go func() {
		s, err := Open(p.cfg)
		if err != nil {
			t.Error(err)
		}
		opened <- s
	}()
	p.until(func() bool { return len(said) > 0 })
	line := <-said
	require.Contains(t, line, `"level":"error"`)
	require.Contains(t, line, "the disk is full, and opening the state store waits for space")
	require.Contains(t, line, "no space left on device")
	require.Contains(t, line, `"dir":"data"`)
	require.Empty(t, opened)
	p.sick(nil)
	p.until(func() bool { return len(opened) > 0 })
	p.Store = <-opened
	require.Equal(t, "1", p.text("k"))
}
