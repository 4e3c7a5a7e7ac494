package kvtest

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"confcenter/codes"
	"confcenter/kv"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"
)

var linearChecks = []check{
	{name: "LinearizableKeys", run: func(s *subject) { linearizable(s, keyModel, keyStep, play{histories: 3, steps: 60}) }},
	{name: "LinearizableKeysUnderKills", run: func(s *subject) { linearizable(s, keyModel, keyStep, play{histories: 3, steps: 60, kills: 4}) }},
	{name: "LinearizableTransactions", run: func(s *subject) { linearizable(s, groupModel, groupStep, play{histories: 5, steps: 30}) }},
	{name: "LinearizableTransactionsUnderKills", run: func(s *subject) { linearizable(s, groupModel, groupStep, play{histories: 8, steps: 20, kills: 3}) }},
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
	s       *subject
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

func linearizable(s *subject, model porcupine.Model, do step, p play) {
	for seed := range p.histories {
		w := &world{s: s, killed: make(chan struct{})}
		s.then(dropOp("linear"))
		var all sync.WaitGroup
		for c := range clients {
			all.Go(func() { w.client(rand.New(rand.NewPCG(uint64(seed), uint64(c))), do, p) })
		}
		all.Wait()
		require.Empty(s, w.failures)
		verdict := porcupine.CheckOperationsTimeout(model, w.judged(), s.patience)
		require.NotEqual(s, porcupine.Unknown, verdict, "there was no time to judge %d operations", len(w.history))
		require.Equal(s, porcupine.Ok, verdict, "no order of the %d operations explains what clients saw", len(w.history))
	}
}

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
	w.s.kill()
	w.kills = append(w.kills, w.ticks.Add(1))
	close(w.killed)
	w.killed = make(chan struct{})
}

// commit is a transaction whose answer may never come: because the engine is
// killed, or because the client does not wait for it.
func (w *world) commit(txn *kv.Txn, random *rand.Rand) (r *kv.Result, out output, happened bool) {
	w.mu.RLock()
	killed := w.killed
	nobody := output{unknown: true, engine: len(w.kills)}
	answer := w.s.start(txn)
	w.mu.RUnlock()
	if random.IntN(40) == 0 {
		return nil, nobody, true
	}
	timer := time.NewTimer(w.s.patience)
	defer timer.Stop()
	var o outcome
	select {
	case o = <-answer:
	case <-timer.C:
		w.fail(fmt.Errorf("no answer in %s", w.s.patience))
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

func read(e *kv.Entry) string {
	if e == nil {
		return "-"
	}
	return string(e.Value.Data)
}

// keyStep uses one key at a time, whose values are all different: put, delete,
// get, compare-and-swap with what was seen last.
func keyStep(w *world, random *rand.Rand, text string) (input, output, bool) {
	in := input{kind: "get", key: fmt.Sprint("key", random.IntN(3)), text: text}
	var txn *kv.Txn
	switch random.IntN(6) {
	case 0:
		in.kind, txn = "put", &kv.Txn{Then: []kv.Op{putOp("linear", in.key, text)}}
	case 1:
		in.kind, txn = "delete", &kv.Txn{Then: []kv.Op{deleteOp("linear", in.key)}}
	case 2:
		in.kind, in.old = "swap", w.get(in.key)
		if random.IntN(3) == 0 {
			in.old = "what nobody wrote"
		}
		condition := kv.Compare{NS: "linear", Key: in.key, Target: kv.CompareValue, Relation: kv.Equal, Value: kv.StringValue(in.old)}
		if in.old == "-" {
			condition = kv.Absent("linear", in.key)
		}
		txn = &kv.Txn{If: []kv.Compare{condition}, Then: []kv.Op{putOp("linear", in.key, text)}}
	case 3:
		txn = &kv.Txn{Then: []kv.Op{getOp("linear", in.key)}}
	default:
		return in, output{text: w.get(in.key)}, true
	}
	r, out, happened := w.commit(txn, random)
	if r != nil {
		switch in.kind {
		case "get":
			out.text = read(r.Ops[0].Entry)
		case "delete":
			out.held = r.Ops[0].Count == 1
		}
	}
	return in, out, happened
}

func (w *world) get(key string) string {
	w.mu.RLock()
	defer w.mu.RUnlock()
	e, _ := w.s.Engine.Get([]byte("linear"), []byte(key))
	return read(e)
}

// maybe turns a step of a model in which operations certainly happen into one of a model in which
// those without an answer may not have happened.
func maybe(step func(state, asked, told any) (bool, any)) func(state, asked, told any) []any {
	return func(state, asked, told any) []any {
		ok, next := step(state, asked, told)
		switch {
		case told.(output).unknown:
			return []any{state, next}
		case ok:
			return []any{next}
		}
		return nil
	}
}

// keyModel is one key: its state is its value, "-" if it is absent.
var keyModel = (&porcupine.NondeterministicModel{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		parts := map[string][]porcupine.Operation{}
		for _, op := range history {
			key := op.Input.(input).key
			parts[key] = append(parts[key], op)
		}
		var list [][]porcupine.Operation
		for _, part := range parts {
			list = append(list, part)
		}
		return list
	},
	Init: func() []any { return []any{"-"} },
	Step: maybe(func(state, asked, told any) (bool, any) {
		now, in, out := state.(string), asked.(input), told.(output)
		switch in.kind {
		case "put":
			return true, in.text
		case "delete":
			return out.held == (now != "-"), "-"
		case "swap":
			holds := now == in.old
			if holds {
				now = in.text
			}
			return out.held == holds, now
		}
		return out.text == now, now
	}),
}).ToModel()

var groupKeys = []string{"x", "y", "z"}

// groupStep changes several keys at a time, or reads them all: in a transaction,
// or through a view.
func groupStep(w *world, random *rand.Rand, text string) (input, output, bool) {
	first, second := groupKeys[random.IntN(3)], groupKeys[random.IntN(3)]
	in := input{kind: "read", key: first + second, text: text}
	txn := &kv.Txn{}
	switch random.IntN(5) {
	case 0:
		in.kind, txn.Then = "write", []kv.Op{putOp("linear", first, text), putOp("linear", second, text)}
	case 1:
		in.kind, txn.Then = "clear", []kv.Op{dropOp("linear")}
	case 2:
		in.kind, txn.If = "write absent", []kv.Compare{kv.Absent("linear", first), kv.Absent("linear", second)}
		txn.Then = []kv.Op{putOp("linear", first, text), putOp("linear", second, text)}
	case 3:
		for _, key := range groupKeys {
			txn.Then = append(txn.Then, getOp("linear", key))
		}
	default:
		return in, output{text: w.view()}, true
	}
	r, out, happened := w.commit(txn, random)
	if r != nil && in.kind == "read" {
		out.text = read(r.Ops[0].Entry) + " " + read(r.Ops[1].Entry) + " " + read(r.Ops[2].Entry)
	}
	return in, out, happened
}

func (w *world) view() string {
	w.mu.RLock()
	defer w.mu.RUnlock()
	v := w.s.Engine.View()
	defer v.Close()
	var texts [3]string
	for i, key := range groupKeys {
		e, err := v.Get("linear", key)
		if err != nil {
			return err.Error()
		}
		texts[i] = read(e)
	}
	return texts[0] + " " + texts[1] + " " + texts[2]
}

// groupModel is three keys together.
var groupModel = (&porcupine.NondeterministicModel{
	Init: func() []any { return []any{[3]string{"-", "-", "-"}} },
	Step: maybe(func(state, asked, told any) (bool, any) {
		now, in, out := state.([3]string), asked.(input), told.(output)
		first, second := in.key[0]-'x', in.key[1]-'x'
		switch in.kind {
		case "clear":
			return true, [3]string{"-", "-", "-"}
		case "write absent":
			holds := now[first] == "-" && now[second] == "-"
			if holds {
				now[first], now[second] = in.text, in.text
			}
			return out.held == holds, now
		case "write":
			now[first], now[second] = in.text, in.text
			return true, now
		}
		return out.text == now[0]+" "+now[1]+" "+now[2], now
	}),
}).ToModel()
