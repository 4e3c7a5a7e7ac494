// Package linear_test judges whether engines of the state store are linearizable: clients use one at
// the same time, while it is killed now and then, and porcupine looks for an order of what they did
// that explains every answer.
package linear_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"confcenter/codes"
	"confcenter/kv"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what must happen.
const patience = time.Minute

// check is one way to use an engine, and the model that its answers have to agree with.
type check struct {
	name  string
	model porcupine.Model
	do    step
	play
}

var checks = []check{
	{"LinearizableKeys", keyModel, keyStep, play{histories: 3, steps: 60}},
	{"LinearizableKeysUnderKills", keyModel, keyStep, play{histories: 3, steps: 60, kills: 4}},
	{"LinearizableTransactions", groupModel, groupStep, play{histories: 5, steps: 30}},
	{"LinearizableTransactionsUnderKills", groupModel, groupStep, play{histories: 8, steps: 20, kills: 3}},
}

// opener opens an engine on data of its own. The checks need Engine and Kill of it.
type opener func(t testing.TB) instance

func TestPebbleIsLinearizable(t *testing.T) { run(t, openPebble) }

func TestMemoryIsLinearizable(t *testing.T) { run(t, openMemory) }

func run(t *testing.T, open opener) {
	for i := range checks {
		t.Run(checks[i].name, func(t *testing.T) { require.NoError(t, checks[i].on(t, open)) })
	}
}

const clients = 8

// play is the size of a test. The time to judge a history grows fast with its length if all
// operations depend on each other.
type play struct {
	histories int
	steps     int // of each client in each history
	kills     int // in each history
}

// input is a client's request, output the answer. unknown stands for an answer that never came:
// the operation may or may not have happened, then or later, but not after the engine was
// killed.
type input struct {
	kind string
	key  string
	text string
	old  string
}

// reads reports whether the operation only reads, so that it can be ignored if it got no answer.
func (in input) reads() bool { return in.kind == "get" || in.kind == "read" }

type output struct {
	unknown bool
	engine  int    // of unknown: how many engines were killed before the one that was asked
	text    string // what was read
	held    bool   // the condition held
}

// world is the engine as seen by concurrent clients. Their operations form one history; times
// are ticks of one counter.
type world struct {
	on      *instance
	ticks   atomic.Int64
	steps   atomic.Int64
	clients atomic.Int64 // numbers given to clients so far

	mu sync.RWMutex // held for writing while the engine is being replaced

	// guarded by mu
	killed chan struct{} // closed when the present engine has been killed
	kills  []int64       // when those before it had been

	historyMu sync.Mutex
	history   []porcupine.Operation // guarded by historyMu
	failures  []error               // guarded by historyMu
}

// step performs one random operation and returns request and answer; false if it certainly did
// not happen.
type step func(w *world, random *rand.Rand, text string) (input, output, bool)

// on runs the check on an engine, and returns why its answers cannot be explained.
func (c *check) on(t testing.TB, open opener) error {
	on := open(t)
	defer func() { require.NoError(t, on.Engine.Close()) }()
	for seed := range c.histories {
		w := &world{on: &on, killed: make(chan struct{})}
		select {
		case o := <-w.start(&kv.Txn{Then: []kv.Op{drop()}}):
			require.NoError(t, o.err)
		case <-time.After(patience):
			require.FailNow(t, "no answer")
		}
		var all sync.WaitGroup
		for i := range clients {
			all.Go(func() { w.client(rand.New(rand.NewPCG(uint64(seed), uint64(i))), c.do, c.play) })
		}
		all.Wait()
		if err := errors.Join(w.failures...); err != nil {
			return err
		}
		switch porcupine.CheckOperationsTimeout(c.model, w.judged(), patience) {
		case porcupine.Unknown:
			return fmt.Errorf("there was no time to judge %d operations", len(w.history))
		case porcupine.Illegal:
			return fmt.Errorf("%w: of %d operations", errUnexplained, len(w.history))
		}
	}
	return nil
}

// errUnexplained is what is wrong with an engine whose answers contradict each other.
var errUnexplained = errors.New("no order explains what clients saw")

// client performs its steps one after the other. A client that gets no answer continues under
// another identity, like a program that was restarted.
func (w *world) client(random *rand.Rand, do step, p play) {
	id := int(w.clients.Add(1))
	for i := range p.steps {
		n := w.steps.Add(1)
		if p.kills > 0 && n%int64(clients*p.steps/(p.kills+1)) == 0 {
			w.kill()
		}
		call := w.ticks.Add(1)
		in, out, happened := do(w, random, fmt.Sprintf("%d.%d", id, i))
		if !happened {
			continue
		}
		if !out.unknown || !in.reads() {
			w.historyMu.Lock()
			w.history = append(w.history, porcupine.Operation{ClientId: id, Input: in, Call: call, Output: out, Return: w.ticks.Add(1)})
			w.historyMu.Unlock()
		}
		if out.unknown {
			id = int(w.clients.Add(1))
		}
	}
}

// judged returns the history, in which operations without an answer last as long as they possibly
// could.
func (w *world) judged() []porcupine.Operation {
	end := w.ticks.Add(1)
	for i := range w.history {
		out := w.history[i].Output.(output)
		if !out.unknown {
			continue
		}
		w.history[i].Return = end
		if out.engine < len(w.kills) {
			w.history[i].Return = w.kills[out.engine]
		}
	}
	return w.history
}

func (w *world) kill() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.on.Engine = w.on.Kill()
	w.kills = append(w.kills, w.ticks.Add(1))
	close(w.killed)
	w.killed = make(chan struct{})
}

// outcome is the answer of Commit or its done.
type outcome struct {
	result *kv.Result
	err    error
}

// start hands a transaction over; its outcome comes through the channel.
func (w *world) start(txn *kv.Txn) <-chan outcome {
	answer := make(chan outcome, 1)
	if err := w.on.Engine.Commit(txn, func(r *kv.Result, err error) { answer <- outcome{r, err} }); err != nil {
		answer <- outcome{nil, err}
	}
	return answer
}

// commit is a transaction whose answer may never come: because the engine is
// killed, or because the client does not wait for it.
func (w *world) commit(txn *kv.Txn, random *rand.Rand) (r *kv.Result, out output, happened bool) {
	w.mu.RLock()
	killed := w.killed
	nobody := output{unknown: true, engine: len(w.kills)}
	answer := w.start(txn)
	w.mu.RUnlock()
	if random.IntN(40) == 0 {
		return nil, nobody, true
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	var o outcome
	select {
	case o = <-answer:
	case <-timer.C:
		w.fail(fmt.Errorf("no answer in %s", patience))
		return nil, nobody, true
	case <-killed:
		select {
		case o = <-answer:
		default:
			return nil, nobody, true
		}
	}
	switch codes.Of(o.err) {
	case codes.OK:
		return o.result, output{held: o.result.Held}, true
	case codes.Closed, codes.Busy:
		return nil, output{}, false
	}
	select {
	case <-killed: // whatever a dying engine says, it has not applied it
	default:
		w.mu.RLock() // it may be dying just now
		defer w.mu.RUnlock()
		if killed == w.killed {
			w.fail(o.err)
		}
	}
	return nil, output{}, false
}

func (w *world) fail(err error) {
	w.historyMu.Lock()
	defer w.historyMu.Unlock()
	w.failures = append(w.failures, err)
}
