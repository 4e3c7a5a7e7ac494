package confstore

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/internal/health"
)

func TestTroubleThatStaysIsLoggedOnceAMinute(t *testing.T) {
	m := newMemKit(t, nil)
	var log syncBuffer
	troubles := &troubles{cfg: &Config{Clock: m.clock, Log: zerolog.New(&log), DataDir: sickData, DiskPatience: time.Second / 3}}
	troubles.ofLog(codes.Errorf(codes.Storage, "the disk is full: %w", syscall.ENOSPC))
	for range 130 {
		troubles.remind()
		m.clock.Advance(time.Second)
	}
	require.Equal(t, 2, strings.Count(log.String(), "\n"), "after one minute and after two; the recorder itself logs the first")
	require.Contains(t, log.String(), sickData)
	troubles.ofLog(nil)
	m.clock.Advance(time.Hour)
	troubles.remind()
	require.Equal(t, 2, strings.Count(log.String(), "\n"))
}

// What the state store says of its disk is what the configurations say of theirs, for as long.
func TestTroubleOfTheStateStoreIsThatOfTheConfigurations(t *testing.T) {
	p := newPatient(t, sickData)
	p.cfg.DiskPatience, p.cfg.RetryPeriod = time.Minute, 100*time.Millisecond
	p.open()
	p.log.ill.Store(&health.Trouble{Kind: health.Hanging, Dir: sickData, Err: codes.Errorf(codes.Storage, "it hangs")})
	p.disk.with(always(codes.Errorf(codes.Storage, "it hangs")))
	_, err := p.set(setA)
	require.Equal(t, codes.Storage, codes.Of(err))
	since := p.Trouble().Since
	for range 20 { // it is retried, asked for again, and nothing is waiting to be written
		p.Reload()
		_, err = p.set(setA)
		require.Equal(t, codes.Storage, codes.Of(err))
		require.Equal(t, health.Hanging, p.Trouble().Kind)
		require.Equal(t, since, p.Trouble().Since)
	}
	p.disk.with(nil)
	p.log.ill.Store(nil)
	p.recovers()
	_, err = p.set(setA)
	require.NoError(t, err)
}
