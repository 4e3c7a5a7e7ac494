package confstore

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/confstore/change"
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

// What the log says late of an edit of the file is not about the write that comes behind it.
func TestAWriteBehindAnEditThatADiskHoldsUpIsCarriedOut(t *testing.T) {
	p := newPatient(t, sickData)
	p.cfg.ScanPeriod = time.Hour // it is the write that finds the edit
	p.open()
	waits, thaw := p.disk.hangs()
	p.put("a.json", `{"v":"edited"}`)
	answer := make(chan setOutcome, 1)
	require.NoError(t, p.Set(setA, func(r SetResult, err error) { answer <- setOutcome{r, err} }))
	<-waits
	p.await("the edit", func() bool { return p.text("a.json") == `{"v":"edited"}` })
	thaw()
	r := <-answer
	require.NoError(t, r.err)
	require.Equal(t, newText, p.text("a.json"))
	require.Equal(t, p.mtime("a.json"), r.Mtime)
	k := p.left(true)
	require.Equal(t, newText, k.text("a.json"))
	versions, err := p.recorder.log.Versions(t.Context(), "a.json", 0, 9)
	require.NoError(t, err)
	require.Equal(t, `{"v":"edited"}`, string(versions[1].File), "it is not lost either")
}

// slowKeeper holds what is marked on a disk that may hang.
type slowKeeper struct {
	keeper
	disk *sickDisk
}

func (a *slowKeeper) Hold(h *change.Held) error {
	if err := a.disk.asked("hold"); err != nil {
		return err
	}
	return a.keeper.Hold(h)
}

func TestAWriteBehindOneThatIsHeldLateIsCarriedOut(t *testing.T) {
	p := newPatient(t, sickData)
	a := &slowKeeper{disk: p.disk}
	p.cfg.Approval = a
	p.open()
	waits, thaw := p.disk.hangs()
	held, written := make(chan error, 1), make(chan error, 1)
	p.inside(func() { // so that they share a commit
		require.NoError(t, p.Set(SetRequest{Name: "live/a.json", Contents: []byte(newText), Actor: zoe}, func(_ SetResult, err error) { held <- err }))
		require.NoError(t, p.Set(SetRequest{Name: "b.json", Contents: []byte(newText), Actor: zoe}, func(_ SetResult, err error) { written <- err }))
	})
	<-waits
	p.Reload() // comes when they wait for the disk
	thaw()
	require.Equal(t, codes.Timeout, codes.Of(<-held), "it is held, but nobody waited for the number")
	require.NoError(t, <-written)
	require.Len(t, a.held, 1)
	require.Equal(t, newText, p.text("b.json"))
	require.Equal(t, newText, p.left(true).text("b.json"))
}
