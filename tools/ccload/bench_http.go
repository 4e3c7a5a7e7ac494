package main

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"confcenter/protocol"
)

// httpPuts compares durable writes by Plum's route with a bare handler, which has
// no disk to wait for.
func (b *bench) httpPuts() {
	ours, theirs := b.webRivals(httpPutTape)
	ours.waits = true
	ratio := must(compare(ours, theirs, b.cfg.pairs))
	rate := median(ours.rates())
	what := fmt.Sprintf("durable PUT of %d B, one key, %d HTTP connections", kvValueSize, httpConns)
	b.atLeast(what, rate, 10_000, "/s", "%v, %.0f%% of its core, %.1f µs each", ours, 100*ours.busy(), 1e6*ours.busy()/rate)
	b.atLeast(what+", of a bare handler", ratio, 0.5, "", "%v of %v", ours, theirs)
}

// httpGets compares reads by Plum's route with a bare handler.
func (b *bench) httpGets() {
	ours, theirs := b.webRivals(httpGetTape)
	ratio := must(compare(ours, theirs, b.cfg.pairs))
	b.atLeast(fmt.Sprintf("GET of %d B, one key, %d HTTP connections, of a bare handler", kvValueSize, httpConns), ratio, 0.7, "", "%v of %v", ours, theirs)
}

// webRivals starts a real server and a bare one that give the same answer.
func (b *bench) webRivals(requests func(addr string) *tape) (ours, theirs *rival) {
	s, addr := b.serveHTTP()
	for _, request := range [][]byte{httpPutTape(addr).next(nil), httpGet(addr, httpPath)} {
		if _, body, err := fetch(addr, request); err != nil || !bytes.Contains(body, httpValue(0)) {
			check(fmt.Errorf("%.100q is answered %.300q: %w", request, body, err))
		}
	}
	header, body, err := fetch(addr, requests(addr).next(nil))
	check(err)
	bare := b.bareHTTP(body)
	bareHeader, bareBody, err := fetch(bare.addr, requests(bare.addr).next(nil))
	check(err)
	if !maps.EqualFunc(header, bareHeader, slices.Equal) || !bytes.Equal(body, bareBody) {
		check(fmt.Errorf("the bare handler answers %v, %q and the real one %v, %q", bareHeader, bareBody, header, body))
	}
	side := func(pid int, addr string) *rival {
		return b.closed(pid, must(b.loop.dialHTTP(addr, httpConns, len(body), false)), 1, requests(addr))
	}
	return side(s.pid, addr), side(bare.pid, bare.addr)
}

// httpStreams measures the time from sending a PUT until the last of many streams of its
// namespace has been told.
func (b *bench) httpStreams() {
	_, addr := b.serveHTTP("--http-max-connections", strconv.Itoa(b.cfg.streams+100))
	f := newHTTPFanout(b.loop, addr, b.cfg.streams)
	rounds := f.rounds(fanoutWarmup, 10*b.cfg.pairs, pushPause, b.bar)
	times := each(rounds, round.allTold)
	b.atMost(fmt.Sprintf("all %d SSE streams of a namespace told of a PUT, p50", b.cfg.streams), median(times), 50, "ms",
		"from the request to the last; p99 %.2f ms, %.2f ms after the reply, %.2f ms for the median stream",
		quantile(times, 0.99), median(each(rounds, round.late)), micros(f.delay.ValueAtQuantile(50))/1000)
}

// What is written while nobody reads the streams.
const (
	unreadValue = 200 << 10
	unreadKeys  = 5
	// unreadWait is how long it takes until what the streams can write is written.
	unreadWait = time.Second
)

// httpUnread measures how long writers wait while streams over HTTP are told of long
// values and nobody reads them: while the streams begin, and later.
func httpUnread(b *bench) {
	s, addr := b.serveHTTP("--http-max-connections", strconv.Itoa(b.cfg.streams+100))
	writer := b.dialUrgent(s.addr, 1)
	writes := newTape(protocol.KVPut, unreadKeys, func(i int) []byte { return appendKVPut(nil, i, kvText(i, unreadValue)) })
	must(newLoad(b.loop, writer, writes).play(unreadKeys, 1))
	during := func(do func()) *tally {
		load := newLoad(b.loop, writer, writes)
		load.begin(unreadRate)
		do()
		return counted(load.end())
	}
	wait := func() { check(b.loop.wait(unreadWait)) }
	alone := during(wait)
	among := during(func() {
		for _, c := range must(b.loop.dialHTTP(addr, b.cfg.streams, -1, false)) {
			c.mayEnd = true
			check(c.mute())
			c.write(httpGet(addr, "/v1/store/stream?state=1&ns="+kvNamespace))
		}
		wait()
	})
	before, worst := quantiles(alone.latency), quantiles(among.latency)
	b.atMost(fmt.Sprintf("longest durable KVPUT of %d KiB while %d streams begin that no one reads", unreadValue>>10, b.cfg.streams), worst.Max/1000, 200, "ms",
		"p50 %.2f ms, p99 %.2f ms; without them %.2f, %.2f and %.2f ms; at %d/s", worst.P50/1000, worst.P99/1000, before.Max/1000, before.P50/1000, before.P99/1000, unreadRate)
	b.atMost(fmt.Sprintf("peak memory with %d unread streams", b.cfg.streams), mebibytes(must(memoryOf(s.pid)).peak), 256, "MiB", "the kernel holds %.0f MiB", mebibytes(kernelTCP()))
}

// unreadRate is how many values are written in a second.
const unreadRate = 50
