package main

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"time"

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
	// lostAfter is how long a worker lives that is to be lost.
	lostAfter = 200 * time.Millisecond
)

// command is the command with this name, which the table of a model has.
func command(name string) protocol.Command {
	i := slices.IndexFunc(protocol.Commands, func(one protocol.Row) bool { return one.Name == name })
	return protocol.Commands[i].ID
}

// flows measures how tasks are listed and claimed, and how the list of workers is followed.
func (b *bench) flows() {
	s := b.serve(1, limit("--max-connections", b.of(watchers))...)
	conns := b.dial(s.addr, flowWorkers)
	b.registerFlow(conns[0])
	b.flowLists(conns[0])
	b.flowClaims(conns)
	b.flowWatches(s)
}

// registerFlow registers an application with one flow of tasks.
func (b *bench) registerFlow(c *conn) {
	c.ask(command("FLSTAGE"), []byte(`{"app":"A"}`))
	parts := `{"key":"sess.S"},{"key":"flow.F","parent":"sess.S"},`
	for from := 0; from < b.of(flowTasks); from += flowBatch {
		body := []byte(`{"app":"A","parts":[` + parts)
		for i := from; i < min(from+flowBatch, b.of(flowTasks)); i++ {
			body = fmt.Appendf(body, `{"key":"%s","parent":"flow.F"},`, flowTask(i))
		}
		c.ask(command("FLADD"), append(body[:len(body)-1], `]}`...))
		parts = ""
	}
	c.ask(command("FLPUBLISH"), []byte(`{"app":"A"}`))
}

func flowTask(i int) string { return fmt.Sprintf("node.N%05d", i) }

// flowLists times lists of all tasks with one status.
func (b *bench) flowLists(c *conn) {
	body := fmt.Appendf(nil, `{"list":"flow.F.node","status":"WAITING","limit":%d}`, b.of(flowTasks))
	var times []float64
	for range 40 * b.pairs {
		begun := now()
		got := c.ask(command("FLLIST"), body)
		times = append(times, millis(now()-begun))
		if n := bytes.Count(got, []byte(`"status":"WAITING"`)); n != b.of(flowTasks) {
			check(fmt.Errorf("listed %d of %d tasks", n, b.of(flowTasks)))
		}
	}
	b.atMost(fmt.Sprintf("FLLIST of %d nodes with one status, p99", b.of(flowTasks)), quantile(times, 0.99), 100, "ms", "p50 %.2f ms of %d", median(times), len(times))
}

// flowClaims measures claims, one in flight on each connection.
func (b *bench) flowClaims(conns []*conn) {
	var rates, p99s []float64
	for range b.pairs {
		for i := range conns {
			conns[0].ask(command("FLJOIN"), fmt.Appendf(nil, `{"key":"wokr.W%d","ttl":%d}`, i, flowLife))
		}
		t := b.claimAll(conns)
		rates, p99s = append(rates, t.perSecond()), append(p99s, t.millis(99))
		for i := range conns {
			conns[0].ask(command("FLRETURN"), fmt.Appendf(nil, `{"worker":"wokr.W%d","force":true}`, i))
		}
	}
	b.atLeast(fmt.Sprintf("FLCLAIM of %d nodes by %d workers, each once", b.of(flowTasks), flowWorkers), median(rates), 5000, "/s", "p99 %.2f ms", median(p99s))
}

// claimAll lets the workers claim everything that waits, and checks that each task was claimed
// once.
func (b *bench) claimAll(conns []*conn) *tally {
	claims := newLoad(conns, newTape(command("FLCLAIM"), flowWorkers, func(i int) []byte { return fmt.Appendf(nil, `{"worker":"wokr.W%d","from":"flow.F"}`, i) }))
	claimed := map[string]bool{}
	claims.onReply = func(body []byte) {
		_, rest, _ := bytes.Cut(body, []byte(`"ukey":"`))
		key, _, _ := bytes.Cut(rest, []byte{'"'})
		claimed[string(key)] = true
	}
	t := claims.play(1, b.of(flowTasks))
	for i := range b.of(flowTasks) {
		if !claimed[flowTask(i)] {
			check(fmt.Errorf("%s was not claimed", flowTask(i)))
		}
	}
	return t
}

// flowWatches measures the time from sending a request that changes the list of workers until
// the last of many watchers of it has been told, and how long after the end of its lease a
// silent one is known to be lost.
func (b *bench) flowWatches(s *served) {
	comings := &tape{} // a worker joins and leaves in turn
	for i := range writesLength / 2 {
		for _, name := range []string{"FLJOIN", "FLLEAVE"} {
			comings.requests = append(comings.requests, protocol.AppendFrame(nil, command(name), 0, fmt.Appendf(nil, `{"key":"wokr.C%d"}`, i)))
		}
	}
	f := newFanout(b.loop, s.addr, b.of(watchers), comings, protocol.KVWatch, []byte(`{"ns":"@flow/cl","prefix":"cfworkers."}`))
	rounds := f.rounds(2*fanoutWarmup, 30*b.pairs, pushPause)
	times := each(rounds, round.allTold)
	b.atMost(fmt.Sprintf("%d watchers of the list of workers told of one, p99", b.of(watchers)), quantile(times, 0.99), 50, "ms",
		"from the request to the last; p50 %.2f ms, %.2f ms after the reply, of %d", median(times), median(each(rounds, round.late)), len(times))
	var late []float64
	for i := range 2 * b.pairs {
		f.begin()
		f.writer.ask(command("FLJOIN"), fmt.Appendf(nil, `{"key":"wokr.L%d","ttl":%d}`, i, lostAfter.Milliseconds()))
		ends := now() + int64(lostAfter)
		f.await()
		f.begin()
		f.await()
		late = append(late, millis(f.last-ends))
	}
	b.atMost(fmt.Sprintf("%d watchers told of a lost worker after its time, p99", b.of(watchers)), quantile(late, 0.99), 50, "ms", "p50 %.2f ms of %d", median(late), len(late))
}

// benchNodes is how many nodes there are that send heartbeats.
const benchNodes = 1000

// nodes counts what a heartbeat of a node writes, and compares heartbeats with puts.
func (b *bench) nodes() {
	s := b.serve(1)
	conns := b.dial(s.addr, kvConns)
	register := newTape(command("BNREGISTERNODE"), benchNodes, func(i int) []byte {
		return fmt.Appendf(nil, `{"node":{"id":"n%05d","config":{"role":"database","labels":[{"k":"disk","v":"ssd"}]}},"ttl":%d}`, i, flowLife)
	})
	newLoad(conns, register).play(1, benchNodes)
	beats := newTape(command("BNHEARTBEAT"), benchNodes, func(i int) []byte { return fmt.Appendf(nil, `{"id":"n%05d","status":{"state":"idle"}}`, i) })
	commits, groups := written(conns[0])
	newLoad(conns[:1], beats).play(1, benchNodes) // alone, so that no two share a group
	commits2, groups2 := written(conns[0])
	b.atMost("durable writes of one heartbeat of a node", float64(groups2-groups)/benchNodes, 1, "", "%d transactions of %d heartbeats", commits2-commits, benchNodes)
	b.versus(fmt.Sprintf("durable BNHEARTBEAT of %d nodes, %d connections, of KVPUT", benchNodes, kvConns),
		b.durable(s.pid, conns, 1, beats), b.durable(s.pid, conns, 1, kvPutTape(newRandom(1), benchNodes)), 0.3)
}

// written is how many transactions and durable writes the state store counts.
func written(c *conn) (commits, groups int) {
	body := c.ask(protocol.KVStat, []byte(`{}`))
	of := func(name string) int {
		_, rest, _ := bytes.Cut(body, []byte(`"`+name+`":`))
		return must(strconv.Atoi(string(rest[:len(rest)-len(bytes.TrimLeft(rest, "0123456789"))])))
	}
	return of("commits"), of("groups")
}
