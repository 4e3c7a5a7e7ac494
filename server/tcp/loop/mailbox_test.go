package loop

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// The event loop's own queues lose the order beyond a thousand tasks; ours must
// not, whatever the number and however many goroutines put.
func TestMailboxKeepsTheOrderOfEachSender(t *testing.T) {
	const senders, each = 8, 5000
	var box mailbox
	var wg sync.WaitGroup
	type letter struct{ sender, n int }
	var got []letter
	for sender := range senders {
		wg.Go(func() {
			for n := range each {
				box.put(MailFunc(func(*Loop) { got = append(got, letter{sender, n}) }))
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	deliver := func() (n int) {
		for batch := box.take(nil); len(batch) > 0; batch = box.take(nil) {
			for _, m := range batch {
				m.Deliver(nil, 1)
				n++
			}
		}
		return n
	}
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		deliver()
	}
	deliver()
	require.Len(t, got, senders*each)
	var next [senders]int
	for _, l := range got {
		require.Equal(t, next[l.sender], l.n)
		next[l.sender]++
	}
}

func TestMailboxAsksForOneWakeUntilItIsFoundEmpty(t *testing.T) {
	var box mailbox
	m := MailFunc(func(*Loop) {})
	require.True(t, box.put(m))
	require.False(t, box.put(m))
	require.Len(t, box.take(nil), 2)
	require.False(t, box.put(m), "whoever takes has not found it empty yet")
	require.Len(t, box.take(nil), 1)
	require.Empty(t, box.take(nil))
	require.False(t, box.waiting())
	require.True(t, box.put(m))
}

// halves is mail that takes several turns.
type halves struct {
	left int
	log  *[]string
	name string
}

func (h *halves) Deliver(_ *Loop, budget int) (int, bool) {
	used := min(budget, h.left)
	h.left -= used
	*h.log = append(*h.log, h.name)
	return used, h.left == 0
}

func TestTurnStopsAtItsBudgetAndKeepsTheOrder(t *testing.T) {
	l := &Loop{}
	l.waker.init(nil)
	var log []string
	l.mail.box.put(&halves{left: 25, log: &log, name: "fan-out"})
	l.mail.box.put(MailFunc(func(*Loop) { log = append(log, "completion") }))
	l.turn(10, 0)
	require.Equal(t, []string{"fan-out"}, log)
	require.Len(t, l.waker.next, 1, "a turn that stops early must ask for another")
	l.turn(10, 0)
	l.turn(10, 0)
	require.Equal(t, []string{"fan-out", "fan-out", "fan-out", "completion"}, log)
	require.False(t, l.mail.box.waiting())
}

func TestHeldMailKeepsItsPlace(t *testing.T) {
	var pending []func()
	l := &Loop{exec: func(fn func()) error { pending = append(pending, fn); return nil }}
	l.waker.init(nil)
	var log []string
	tries := 0
	l.mail.box.put(needsWorker{&tries, &log})
	l.mail.box.put(MailFunc(func(*Loop) { log = append(log, "later") }))
	l.turn(10, 0)
	l.turn(10, 0)
	require.Equal(t, 1, tries, "held mail is not tried again before release")
	require.Empty(t, log)
	l.Release()
	require.Len(t, pending, 1)
	pending[0]()
	require.Equal(t, []string{"prepared", "later"}, log)
}

type needsWorker struct {
	tries *int
	log   *[]string
}

func (n needsWorker) Deliver(l *Loop, _ int) (int, bool) {
	if *n.tries++; *n.tries == 1 {
		l.Hold()
		return 1, false
	}
	*n.log = append(*n.log, "prepared")
	return 1, true
}
