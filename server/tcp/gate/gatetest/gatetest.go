// Package gatetest is a gate without sockets, for tests of handlers.
package gatetest

import (
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"confcenter/access"
	"confcenter/access/secret"
	"confcenter/codes"
	"confcenter/internal/admission"
	"confcenter/internal/clock/clocktest"
	"confcenter/internal/memory"
	"confcenter/kv"
	"confcenter/protocol"
	"confcenter/server/edge"
	"confcenter/server/tcp/gate"
	"confcenter/server/tcp/loop"
	"confcenter/server/tcp/loop/looptest"
)

// T is a test, or one check of a property.
type T interface {
	require.TestingT
	Helper()
	Cleanup(func())
}

// Bench is a gate without sockets, whose one loop is run by the test.
type Bench struct {
	T     T
	Clock *clocktest.Fake
	Group *loop.Group
	Gate  *gate.Gate
	Local *gate.Local  // after Open
	Stop  func()       // ends loop and workers; may be called early
	Ring  *secret.Ring // of sealed values; set it before there are sessions

	mu    sync.Mutex
	noted []access.Event // guarded by mu
}

// Noted takes what the audit has been told.
func (b *Bench) Noted() []access.Event {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := b.noted
	b.noted = nil
	return list
}

func (b *Bench) note(e access.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.noted = append(b.noted, e)
}

// NewBench makes one that has no handlers of commands yet.
func NewBench(t T, limits loop.Limits) *Bench {
	b := &Bench{T: t, Clock: clocktest.NewFake(time.Unix(1_000_000, 0))}
	b.Group = loop.NewGroup(loop.Config{Limits: limits.WithDefaults(), SlowRequest: time.Minute, Clock: b.Clock})
	b.Gate = gate.New(b.Group, gate.Config{ServerID: 1, IdentifyTimeout: time.Minute, Edge: edge.New(nil, b.note, func() *secret.Ring { return b.Ring }, zerolog.Nop())})
	b.Stop = sync.OnceFunc(b.Group.Close)
	t.Cleanup(b.Stop)
	return b
}

// Open makes the one loop, once all handlers are there.
func (b *Bench) Open() { b.Local = OpenLocal(b.Gate) }

// OpenLocal makes the Local of a loop that does not run.
func OpenLocal(g *gate.Gate) *gate.Local {
	return g.NewLocal(func(func()) error { return nil })
}

// Connect makes a session whose socket takes room bytes before its peer has to read.
func Connect(t T, d *gate.Local, room int) (*gate.Session, *looptest.Wire) {
	w := &looptest.Wire{Room: room}
	return ConnectBy(t, d, w, w), w
}

// ConnectBy makes a session on any transport that is made of w.
func ConnectBy(t T, d *gate.Local, by loop.Transport, w *looptest.Wire) *gate.Session {
	peer := netip.MustParseAddrPort("127.0.0.1:9")
	place, err := admission.New(admission.Limits{Unidentified: 1}).Front(1, memory.TCPCost).Admit(peer.Addr())
	require.NoError(t, err)
	c := d.Open(by, place, peer, 0)
	require.NotNil(t, c)
	w.Lost = c.Lost
	return c.User.(*gate.Session)
}

// Peer is a session that has said who it is, and its socket.
func (b *Bench) Peer(room int) (*gate.Session, *looptest.Wire) {
	s, w := Connect(b.T, b.Local, room)
	require.NoError(b.T, s.Identify(0, nil))
	return s, w
}

// Unlimited is the room of a peer that always reads.
const Unlimited = 1 << 40

// Sweep has the loop look at all connections whose peers have not read everything, and
// do all else that it can.
func Sweep(d *gate.Local) {
	d.Loop.Poll()
	for d.Loop.Busy() {
		d.Loop.Wake()
	}
}

// Requests are frames, of a command and a body each, numbered from 1.
func Requests(pairs ...any) (b []byte) {
	for i := 0; i < len(pairs); i += 2 {
		b = protocol.AppendFrame(b, pairs[i].(protocol.Command), uint16(i/2+1), []byte(pairs[i+1].(string)))
	}
	return b
}

// Frames takes what was sent apart.
func Frames(t require.TestingT, w *looptest.Wire) (list []string) {
	b := w.Got.Bytes()
	for len(b) > 0 {
		h, err := protocol.ParseHeader(b)
		require.NoError(t, err)
		size := protocol.HeaderSize + int(h.BodyLen)
		list = append(list, fmt.Sprintf("%v/%d %s", h.Command, h.Seq, b[protocol.HeaderSize:size]))
		b = b[size:]
	}
	w.Got.Reset()
	return list
}

// Deaf is a wire that keeps nothing, for benchmarks.
type Deaf struct{ looptest.Wire }

// TrySend takes all of p.
func (d *Deaf) TrySend(p []byte) int { return len(p) }

// HeldState does what Commit is given only when the test says so.
type HeldState struct {
	kv.Store
	Room  int  // transactions that still fit
	Panic bool // on the next look-ups
	Held  []func()
}

// GetEach looks up several keys at a time, unless it is to panic.
func (f *HeldState) GetEach(reads []kv.Read) kv.Revision {
	if f.Panic {
		panic("planted")
	}
	return f.Store.GetEach(reads)
}

// CommitEach keeps what it is to do, or says that it is busy.
func (f *HeldState) CommitEach(caller kv.Caller, writes []*kv.Write) (taken int, err error) {
	for _, w := range writes {
		if f.Room == 0 {
			return taken, codes.Errorf(codes.Busy, "full")
		}
		f.Room--
		taken++
		f.Held = append(f.Held, func() {
			finished := make(chan struct{})
			err := f.Store.Commit(w.Txn, func(res *kv.Result, err error) {
				if w.Err = err; err == nil {
					w.Result = *res
				}
				caller.Committed([]*kv.Write{w})
				close(finished)
			})
			if err != nil {
				w.Err = err
				caller.Committed([]*kv.Write{w})
				return
			}
			<-finished
		})
	}
	return taken, nil
}

// Finish does the n oldest transactions.
func (f *HeldState) Finish(n int) {
	for range n {
		next := f.Held[0]
		f.Held = f.Held[1:]
		next()
	}
}

// Allocations is how often f allocates, as testing.AllocsPerRun counts it, which counts what all goroutines
// do: the fewest of several counts are f's own.
func Allocations(f func()) float64 {
	fewest := testing.AllocsPerRun(100, f)
	for range 4 {
		fewest = min(fewest, testing.AllocsPerRun(100, f))
	}
	return fewest
}
