package main

import (
	"bytes"
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"confcenter/protocol"
)

const (
	// flowWorkers is how many workers claim tasks, each over a connection of its own.
	flowWorkers = 16
	// flowLife is how long a worker lives without a heartbeat, in milliseconds: longer than
	// any measurement.
	flowLife = 3_600_000
	// flowBatch is how many tasks one request registers.
	flowBatch = 2500
)

// command is the command with this name, which the table of a model has.
func command(name string) protocol.Command {
	for i := range protocol.Commands {
		if protocol.Commands[i].Name == name {
			return protocol.Commands[i].ID
		}
	}
	check(fmt.Errorf("there is no command %s", name))
	return 0
}

// flows measures how tasks are listed and claimed, and how the list of workers is followed.
func (b *bench) flows() {
	s := b.serve(1, "--max-connections", fmt.Sprint(b.cfg.watchers+100))
	conns := b.dial(s.addr, flowWorkers)
	b.registerFlow(conns[0])
	b.flowLists(conns[0])
	b.flowClaims(s, conns)
	b.flowWatches(s)
}

// registerFlow registers an application with one flow of tasks.
func (b *bench) registerFlow(c *conn) {
	must(b.loop.ask(c, command("FLSTAGE"), []byte(`{"app":"A"}`)))
	parts := `{"key":"sess.S"},{"key":"flow.F","parent":"sess.S"},`
	for from := 0; from < b.cfg.tasks; from += flowBatch {
		body := []byte(`{"app":"A","parts":[` + parts)
		for i := from; i < min(from+flowBatch, b.cfg.tasks); i++ {
			body = fmt.Appendf(body, `{"key":"%s","parent":"flow.F"},`, flowTask(i))
		}
		must(b.loop.ask(c, command("FLADD"), append(body[:len(body)-1], `]}`...)))
		parts = ""
	}
	must(b.loop.ask(c, command("FLPUBLISH"), []byte(`{"app":"A"}`)))
}

func flowTask(i int) string { return fmt.Sprintf("node.N%05d", i) }

// flowLists times lists of all tasks with one status.
func (b *bench) flowLists(c *conn) {
	body := fmt.Appendf(nil, `{"list":"flow.F.node","status":"WAITING","limit":%d}`, b.cfg.tasks)
	var times []float64
	for i := range fanoutWarmup + 40*b.cfg.pairs {
		begun := b.loop.clock()
		got := must(b.loop.ask(c, command("FLLIST"), body))
		if i >= fanoutWarmup {
			times = append(times, millis(b.loop.clock()-begun))
		}
		if n := bytes.Count(got, []byte(`"status":"WAITING"`)); n != b.cfg.tasks {
			check(fmt.Errorf("listed %d of %d tasks", n, b.cfg.tasks))
		}
	}
	b.atMost(fmt.Sprintf("FLLIST of %d nodes with one status, p99", b.cfg.tasks), quantile(times, 0.99), 100, "ms", "p50 %.2f ms of %d", median(times), len(times))
}

// flowClaims compares claims with transactions of the same conditions and operations, one in
// flight on each connection.
func (b *bench) flowClaims(s *served, conns []*conn) {
	ours := &rival{pid: s.pid, waits: true, run: func() (sample, error) {
		var got sample
		err := attempt(func() {}, func() {
			b.joinWorkers(conns)
			got = b.claimAll(conns)
			b.returnAll(conns)
		})
		return got, err
	}}
	round := 0
	theirs := &rival{pid: s.pid, waits: true, run: func() (sample, error) {
		round++
		t, err := newLoad(b.loop, conns, claimLikeTape(round, b.cfg.tasks)).play(1, b.cfg.tasks)
		if err == nil {
			err = t.err
		}
		return sample{rate: t.perSecond(), p99: micros(t.latency.ValueAtQuantile(99))}, err
	}}
	ratio := must(compare(ours, theirs, b.cfg.pairs))
	what := fmt.Sprintf("FLCLAIM of %d nodes by %d workers", b.cfg.tasks, flowWorkers)
	b.atLeast(what+", each once", median(ours.rates()), 5000, "/s", "%v", ours)
	b.atLeast(what+", of KVTXN as large", ratio, 0.5, "", "%v of %v", ours, theirs)
}

// joinWorkers lets the workers join.
func (b *bench) joinWorkers(conns []*conn) {
	for i := range conns {
		must(b.loop.ask(conns[0], command("FLJOIN"), fmt.Appendf(nil, `{"key":"wokr.W%d","ttl":%d}`, i, flowLife)))
	}
}

// returnAll returns what the workers have claimed, and ends them.
func (b *bench) returnAll(conns []*conn) {
	for i := range conns {
		must(b.loop.ask(conns[0], command("FLRETURN"), fmt.Appendf(nil, `{"worker":"wokr.W%d","force":true}`, i)))
	}
}

// claimAll lets the workers claim until nothing waits, and checks that each task was claimed
// once.
func (b *bench) claimAll(conns []*conn) sample {
	w := &claimers{frames: map[*conn][]byte{}, keys: map[string]int{}, latency: newHistogram()}
	cmd := command("FLCLAIM")
	for i, c := range conns {
		c.to, c.expect = w, cmd.Reply()
		w.frames[c] = protocol.AppendFrame(nil, cmd, 0, fmt.Appendf(nil, `{"worker":"wokr.W%d","from":"flow.F"}`, i))
	}
	begun := b.loop.clock()
	for _, c := range conns {
		c.request(w.frames[c], begun)
	}
	check(b.loop.until(drainLimit, func() bool { return len(w.frames) == 0 }))
	check(w.err)
	for i := range b.cfg.tasks {
		if n := w.keys[flowTask(i)]; n != 1 {
			check(fmt.Errorf("%s was claimed %d times", flowTask(i), n))
		}
	}
	return sample{rate: float64(b.cfg.tasks) / time.Duration(w.last-begun).Seconds(), p99: micros(w.latency.ValueAtQuantile(99))}
}

// claimers are workers that claim one task after another, each over its connection, as long
// as anything waits.
type claimers struct {
	ignore
	frames  map[*conn][]byte // of those that have not come to the end
	keys    map[string]int   // how often each was claimed
	last    int64            // when the last one was
	latency *hdrhistogram.Histogram
	err     error
}

func (w *claimers) reply(c *conn, body []byte) {
	_, rest, _ := bytes.Cut(body, []byte(`"ukey":"`))
	key, _, _ := bytes.Cut(rest, []byte{'"'})
	switch {
	case !replyOK(body):
		w.err = replyError(c.expect, body)
		clear(w.frames)
	case len(key) == 0:
		delete(w.frames, c)
	default:
		w.keys[string(key)]++
	}
}

func (w *claimers) settle(c *conn, now int64) {
	at, n := c.sent.take(c.answered)
	c.answered -= n
	if frame := w.frames[c]; frame != nil {
		w.last = now
		record(w.latency, now-at, n)
		c.request(frame, now)
	}
}

// claimLikeTape has a transaction for each of n tasks that is what a claim writes: with as many
// conditions, most of them of keys that all have in common, and as many operations.
func claimLikeTape(round, n int) *tape {
	return newTape(protocol.KVTxn, n, func(i int) []byte {
		task := fmt.Sprintf("%d.node.N%05d", round, i)
		body := fmt.Appendf(nil, `{"ns":"%s","if":[`, kvNamespace)
		for _, key := range []string{"flow.F.claim", "cfapp.A.claim", "cfapplist.cfapp.B", "live", task + ".atime"} {
			body = fmt.Appendf(body, `{"key":"%s","target":"version","number":0},`, key)
		}
		body = append(body[:len(body)-1], `],"then":[`...)
		for _, key := range []string{"flow.F.claims", "cfapp.A.claims", "wokr.W.tasks"} {
			body = fmt.Appendf(body, `{"op":"incr","key":"%s"},`, key)
		}
		for _, one := range [][2]string{
			{task + ".worker", `"W12"`}, {"wokr.W12." + task, `{"lkey":"flow.F.node","ukey":"node.N00000"}`}, {"flow.F.node." + task, `"PENDDING"`},
			{task + ".cstat", `"PENDDING"`}, {task + ".state", `"PENDDING"`}, {task + ".atime", `"1700000000000000000"`}, {task + ".whoac", `"ccload"`},
			{task + ".oplog.0000000002", `{"time":1700000000000000000,"who":"ccload","what":"WAITING -> PENDDING: claimed by wokr.W12"}`},
		} {
			body = fmt.Appendf(body, `{"op":"put","key":"%s","value":%s},`, one[0], one[1])
		}
		return append(body[:len(body)-1], `]}`...)
	})
}

// flowWatches measures the time from sending a request that changes the list of workers until
// the last of many watchers of it has been told, and how long after the end of its lease a
// silent one is known to be lost.
func (b *bench) flowWatches(s *served) {
	f := newFlowFanout(b.loop, s.addr, b.cfg.watchers)
	rounds := f.rounds(2*fanoutWarmup, 30*b.cfg.pairs, pushPause, b.bar)
	times := each(rounds, round.allTold)
	b.atMost(fmt.Sprintf("%d watchers of the list of workers told of one, p99", b.cfg.watchers), quantile(times, 0.99), 50, "ms",
		"from the request to the last; p50 %.2f ms, %.2f ms after the reply, of %d", median(times), median(each(rounds, round.late)), len(times))
	var late []float64
	for i := range 2 * b.cfg.pairs {
		f.number++
		f.told = 0
		must(b.loop.ask(f.writer, command("FLJOIN"), fmt.Appendf(nil, `{"key":"wokr.L%d","ttl":%d}`, i, lostAfter.Milliseconds())))
		ends := b.loop.clock() + int64(lostAfter)
		check(f.until(func() bool { return f.told == len(f.subscribers) }))
		f.number++
		f.told = 0
		check(f.until(func() bool { return f.told == len(f.subscribers) }))
		late = append(late, millis(f.last-ends))
	}
	b.atMost(fmt.Sprintf("%d watchers told of a lost worker after its time, p99", b.cfg.watchers), quantile(late, 0.99), 50, "ms", "p50 %.2f ms of %d", median(late), len(late))
}

// lostAfter is how long a worker lives that is to be lost.
const lostAfter = 200 * time.Millisecond

// newFlowFanout is newFanout with n watchers of the list of workers, which one joins and leaves
// in turn.
func newFlowFanout(l *loop, addr string, n int) *fanout {
	f := &fanout{loop: l, writes: &comings{}, delay: newHistogram()}
	f.open(addr, n)
	must(l.askAll(f.subscribers, protocol.KVWatch, []byte(`{"ns":"@flow/cl","prefix":"cfworkers."}`)))
	f.writer.to = (*fanoutWriter)(f)
	return f
}

// comings is a source of requests by which a worker joins and leaves in turn.
type comings struct{ n int }

func (s *comings) command() protocol.Command {
	if s.n%2 == 0 {
		return command("FLJOIN")
	}
	return command("FLLEAVE")
}

func (s *comings) expect() protocol.Command { return s.command().Reply() }

func (s *comings) next(dst []byte) []byte {
	defer func() { s.n++ }()
	return protocol.AppendFrame(dst, s.command(), 0, fmt.Appendf(nil, `{"key":"wokr.C%d"}`, s.n/2))
}
