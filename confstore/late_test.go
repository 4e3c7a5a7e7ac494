package confstore

import (
	"time"

	"confcenter/internal/clock"
)

// sickPatience is how long the store of a patient waits for a step in its data directory.
const sickPatience = 5 * time.Millisecond

// diskClock is a clock by which that time is over when the disk hangs, and only then. By the
// machine's a well disk, too, is late if the machine is busy.
type diskClock struct {
	clock.Clock
	disk *sickDisk
}

func (c diskClock) NewTimer(d time.Duration) clock.Timer {
	if d != sickPatience {
		return c.Clock.NewTimer(d)
	}
	t := patienceTimer(make(chan time.Time, 1))
	c.disk.mu.Lock()
	defer c.disk.mu.Unlock()
	c.disk.patience = t
	return t
}

// patienceTimer fires when the disk says so.
type patienceTimer chan time.Time

func (t patienceTimer) C() <-chan time.Time { return t }
func (patienceTimer) Stop()                 {}
func (patienceTimer) Reset(time.Duration)   { panic("it is used once") }

// loses has the step under way count as late.
func (d *sickDisk) loses() {
	d.mu.Lock()
	defer d.mu.Unlock()
	select {
	case d.patience <- time.Now():
	default:
	}
}
