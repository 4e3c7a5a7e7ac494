package main

import (
	"bytes"
	"fmt"
	"time"

	"confcenter/protocol"
)

// httpPuts compares durable writes by Plum's route with a bare handler, which has
// no disk to wait for.
func (b *bench) httpPuts() {
	ours, theirs := b.webRivals(httpPutTape)
	ours.waits = true
	ratio := compare(ours, theirs, b.pairs)
	rate := median(ours.rates())
	what := fmt.Sprintf("durable PUT of %d B, one key, %d HTTP connections", kvValueSize, httpConns)
	b.atLeast(what, rate, 10_000, "/s", "%v, %.0f%% of its core, %.1f µs each", ours, 100*ours.busy(), 1e6*ours.busy()/rate)
	b.atLeast(what+", of a bare handler", ratio, 0.5, "", "%v of %v", ours, theirs)
}

// httpGets compares reads by Plum's route with a bare handler.
func (b *bench) httpGets() {
	ours, theirs := b.webRivals(httpGetTape)
	b.versus(fmt.Sprintf("GET of %d B, one key, %d HTTP connections, of a bare handler", kvValueSize, httpConns), ours, theirs, 0.7)
}

// webRivals starts a real server and a bare one that give the same answer.
func (b *bench) webRivals(requests func(addr string) *tape) (ours, theirs *rival) {
	s := b.serveHTTP()
	if reply := fetch(s.web, httpPutTape(s.web).next()); !bytes.Contains(reply, httpValue(0)) {
		check(fmt.Errorf("a PUT is answered %.300q", reply))
	}
	reply := fetch(s.web, requests(s.web).next())
	_, body, _ := bytes.Cut(reply, []byte("\r\n\r\n"))
	bare := b.bare(connect, "--http", string(body))
	side := func(pid int, addr string) *rival {
		return b.closed(pid, b.openHTTP(addr, httpConns, len(reply)), 1, requests(addr))
	}
	return side(s.pid, s.web), side(bare.pid, bare.addr)
}

// httpStreams measures the time from sending a PUT until the last of many streams of its
// namespace has been told.
func (b *bench) httpStreams() {
	s := b.serveHTTP(limit("--http-max-connections", b.of(streams))...)
	rounds := newHTTPFanout(b.loop, s.web, b.of(streams)).rounds(fanoutWarmup, 10*b.pairs, pushPause)
	times := each(rounds, round.allTold)
	b.atMost(fmt.Sprintf("all %d SSE streams of a namespace told of a PUT, p50", b.of(streams)), median(times), 50, "ms",
		"from the request to the last; p99 %.2f ms, %.2f ms after the reply", quantile(times, 0.99), median(each(rounds, round.late)))
}

// What is written while no one reads the streams.
const (
	unreadValue = 200 << 10
	unreadKeys  = 5
	unreadRate  = 50 // values a second
	// unreadWait is how long it takes until what the streams can write is written.
	unreadWait = time.Second
)

// httpUnread measures how long writers wait while streams over HTTP are told of long
// values and no one reads them: while the streams begin, and later.
func (b *bench) httpUnread() {
	s := b.serveHTTP(limit("--http-max-connections", b.of(streams))...)
	writes := newLoad(b.dial(s.addr, 1), newTape(protocol.KVPut, unreadKeys, func(i int) []byte { return kvPutBody(i, kvText(i, unreadValue)) }))
	writes.play(unreadKeys, 1)
	during := func(streams int) *tally {
		writes.begin(unreadRate)
		for range streams {
			c := b.open(s.web)
			c.mute()
			c.write(httpGet(s.web, "/v1/store/stream?state=1&ns="+kvNamespace))
		}
		b.wait(unreadWait)
		return writes.end()
	}
	before, worst := during(0), during(b.of(streams))
	b.atMost(fmt.Sprintf("longest durable KVPUT of %d KiB while %d streams begin that no one reads", unreadValue>>10, b.of(streams)), worst.millis(100), 200, "ms",
		"p50 %.2f ms, p99 %.2f ms; without them %.2f, %.2f and %.2f ms; at %d/s", worst.millis(50), worst.millis(99), before.millis(100), before.millis(50), before.millis(99), unreadRate)
	b.atMost(fmt.Sprintf("peak memory with %d unread streams", b.of(streams)), s.peak(), 256, "MiB", "of %d values of %d KiB", unreadKeys, unreadValue>>10)
}
