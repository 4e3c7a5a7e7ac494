package server

import (
	"sync/atomic"
	"time"

	"confcenter/codes"
	"confcenter/internal/clock"
	"confcenter/internal/health"
)

// restartDue finds out when a restart would help a store that has failed: while one is due the disk is
// probed, and once that has succeeded a few times /livez says that the server should be restarted.
type restartDue struct {
	// set at open
	troubles []func() *health.Trouble
	probe    func() error // Config.Probe

	probing atomic.Bool
	well    atomic.Int64 // probes in a row that have succeeded
}

// How often the disk is probed, and how often in a row that has to succeed.
const (
	probeEvery   = 5 * time.Second
	probesNeeded = 3
)

// due is the trouble that only a restart ends; nil: there is none.
func (d *restartDue) due() *health.Trouble {
	for _, trouble := range d.troubles {
		if t := trouble(); t != nil && t.Restart {
			return t
		}
	}
	return nil
}

// err is why a server that is stopped now has failed; nil: it has not.
func (d *restartDue) err() error {
	if t := d.due(); t != nil {
		return t.Err
	}
	return nil
}

// look is called every probeEvery. It does not wait: a disk that hangs may never let the probe end, and
// then only the process ends it.
func (d *restartDue) look() {
	if d.probe == nil || d.due() == nil || !d.probing.CompareAndSwap(false, true) {
		return
	}
	go func() {
		defer d.probing.Store(false)
		if d.probe() != nil {
			d.well.Store(0)
		} else {
			d.well.Add(1)
		}
	}()
}

// helps is why a restart helps; nil: it does not, or it is not needed.
func (d *restartDue) helps() error {
	t := d.due()
	if t == nil || t.Kind == health.Missing || d.well.Load() < probesNeeded { // where files are missing it would not start
		return nil
	}
	return codes.Errorf(codes.Storage, "the data directory can be written again; restart to write again: %w", t.Err)
}

// remind logs trouble that stays, and has the disk probed while a restart is due.
func (s *Server) remind(closing <-chan struct{}) {
	c := clock.Real() // as the disk's troubles have it
	ticker, probes := c.NewTicker(time.Second), c.NewTicker(probeEvery)
	defer ticker.Stop()
	defer probes.Stop()
	var reminder health.Reminder
	for {
		select {
		case <-closing:
			return
		case <-probes.C():
			s.restart.look()
		case now := <-ticker.C():
			if trouble := s.cfg.State.Trouble(); reminder.Due(now, trouble) {
				s.cfg.Log.Warn().Str("kind", string(trouble.Kind)).Str("dir", trouble.Dir).Time("since", trouble.Since).
					Msg("the state store is served, but takes no writes: " + trouble.Err.Error())
			}
		}
	}
}
