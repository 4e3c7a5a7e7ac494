package main

import (
	"bytes"
	"fmt"
	"strconv"
	"time"

	"confcenter/kv"
	"confcenter/protocol"
)

// kvGets compares reading the state store with the bare server's answers of the
// same size.
func (b *bench) kvGets() {
	s := b.serve(1)
	conns := b.dial(s.addr, benchConns)
	size := b.loadForGets(conns[0])
	b.ofCeiling(s, conns, size, []depthTarget{{1, 0.85}, {16, 0.6}}, func(depth int) (string, source) {
		return fmt.Sprintf("KVGET of %d B, %d keys, depth %d, of ceiling", size, b.cfg.keys, depth), kvGetTape(newRandom(depth), b.cfg.keys)
	})
}

// loadForGets fills the store with values that make replies of about kvReplySize
// and checks some of them. It returns the size of the longest reply's body.
func (b *bench) loadForGets(c *conn) (size int) {
	b.loadKeys(c, b.cfg.keys, kvValueSize)
	body := b.kvGet(c, b.cfg.keys-1)
	value := max(1, kvValueSize+kvReplySize-len(body))
	b.loadKeys(c, b.cfg.keys, value)
	for i := range min(b.cfg.keys, benchFiles) {
		body = b.kvGet(c, i)
		entry, _, err := protocol.ParseKVGot(body, kvNamespace, kvKey(i))
		check(err)
		if want := kv.StringValue(string(kvText(i, value))); !entry.Value.Equal(want) {
			check(fmt.Errorf("%s is %.200q, want %.200q", kvKey(i), entry.Value.Data, want.Data))
		}
		size = max(size, len(body))
	}
	return size
}

// kvPuts compares durable writes with those of Redis and etcd.
func (b *bench) kvPuts() {
	s := b.serve(1)
	conns := b.dial(s.addr, kvConns)
	redis := b.startRedis()
	puts := func(seed, depth int) *rival {
		return b.closed(s.pid, conns, depth, kvPutTape(newRandom(seed), b.cfg.keys))
	}
	name := func(depth int) string {
		return fmt.Sprintf("durable KVPUT of %d B, %d connections, depth %d, of ", kvValueSize, kvConns, depth)
	}
	for _, at := range []depthTarget{{1, 0.9}, {16, 0.9}} {
		ours, theirs := puts(at.depth, at.depth), b.redisRival(redis, at.depth)
		b.ofWaiting(ours, theirs, name(at.depth)+"Redis", at.target)
		p99 := median(each(ours.kept, func(s sample) float64 { return s.p99 })) / 1000
		b.atMost(fmt.Sprintf("p99 of these puts at depth %d", at.depth), p99, 15, "ms", "at %.0f/s", median(ours.rates()))
	}
	b.ofWaiting(b.closed(s.pid, conns, 1, kvIncrTape()), puts(0, 1), fmt.Sprintf("KVINCR of one key, %d connections, of KVPUT", kvConns), 1)
	b.ofWaiting(puts(1, 1), b.etcdRival(b.startEtcd()), name(1)+"etcd", 4)
}

// ofWaiting compares two rivals that wait for the disk.
func (b *bench) ofWaiting(ours, theirs *rival, name string, target float64) {
	ours.waits, theirs.waits = true, true
	b.atLeast(name, must(compare(ours, theirs, b.cfg.pairs)), target, "", "%v of %v", ours, theirs)
}

// kvWatches measures the time from a put's acknowledgement until the last of many
// watchers is told.
func (b *bench) kvWatches() {
	s := b.serve(1, "--max-connections", strconv.Itoa(b.cfg.watchers+100))
	f := newKVFanout(b.loop, s.addr, b.cfg.watchers)
	rounds := f.rounds(fanoutWarmup, 10*b.cfg.pairs, pushPause, b.bar)
	times := each(rounds, round.late)
	b.atMost(fmt.Sprintf("%d watchers of one key told after the reply, p50", b.cfg.watchers), median(times), 10, "ms",
		"p99 %.2f ms; %.2f ms after the request", quantile(times, 0.99), median(each(rounds, round.allTold)))
}

// listed is how many keys the long list has.
const listed = 10_000

// kvMillion fills a store, restarts its server, and measures time, memory and long
// lists.
func (b *bench) kvMillion() {
	s := b.serve(1)
	b.loadKeys(b.dial(s.addr, 1)[0], b.cfg.many, kvValueSize)
	var times []float64
	for range restarts {
		b.clear()
		begun := time.Now()
		b.start(s)
		b.kvGet(b.dial(s.addr, 1)[0], b.cfg.many-1)
		times = append(times, time.Since(begun).Seconds())
	}
	keys := fmt.Sprintf("%d keys of %d B", b.cfg.many, kvValueSize)
	b.atMost("start with "+keys, median(times), 3, "s", "from exec to the last key answered, on one core")
	b.lists(s)
	b.atMost("peak memory with "+keys, mebibytes(must(memoryOf(s.pid)).peak), 1024, "MiB", "start, lists and gets")
}

// lists times long lists while others ask for single keys.
func (b *bench) lists(s *served) {
	lister := b.dial(s.addr, 1)[0]
	n := min(listed, b.cfg.many)
	var times []float64
	var lists [][][]byte
	t := b.probe(s.addr, kvGetTape(newRandom(0), b.cfg.many), func() {
		for range 4 * b.cfg.pairs {
			begun := b.loop.clock()
			pages := b.list(lister, n)
			times = append(times, millis(b.loop.clock()-begun))
			lists = append(lists, pages)
		}
	})
	for _, pages := range lists {
		got := 0
		for _, body := range pages {
			got += len(must(protocol.ParseKVPage(body, kvNamespace)).Entries)
		}
		if got != n {
			check(fmt.Errorf("listed %d of %d keys", got, n))
		}
	}
	b.atMost(fmt.Sprintf("list of %d keys with values, of %d", n, b.cfg.many), median(times), 20, "ms", "p99 %.2f ms of %d", quantile(times, 0.99), len(times))
	b.reportProbe("KVGET during the lists", t)
}

// list lists limit keys with their values, in as many pages as it takes. It does not
// parse the pages, because that would take processor time from what is measured.
func (b *bench) list(c *conn, limit int) (pages [][]byte) {
	after := ""
	for more := true; more; {
		body := must(b.loop.ask(c, protocol.KVList, fmt.Appendf(nil, `{"ns":"%s","after":"%s","limit":%d}`, kvNamespace, after, limit)))
		pages = append(pages, bytes.Clone(body))
		limit -= bytes.Count(body, []byte(`{"key":"`))
		after, more = lastKey(body)
		more = more && limit > 0
	}
	return pages
}

// lastKey is the key after which the next page starts, found without parsing body.
func lastKey(body []byte) (key string, more bool) {
	const start = `{"key":"`
	at := bytes.LastIndex(body, []byte(start))
	if at < 0 || !bytes.HasSuffix(body, []byte(`"more":1}`)) {
		return "", false
	}
	name, _, _ := bytes.Cut(body[at+len(start):], []byte{'"'})
	return string(name), true
}

// loadKeys writes the keys from 0 to n, values of size bytes.
func (b *bench) loadKeys(c *conn, n, size int) {
	for from := 0; from < n; from += kvBatch {
		body := []byte(`{"ns":"` + kvNamespace + `","then":[`)
		for i := from; i < min(from+kvBatch, n); i++ {
			body = fmt.Appendf(body, `{"op":"put","key":"%s","value":"%s"},`, kvKey(i), kvText(i, size))
		}
		must(b.loop.ask(c, protocol.KVTxn, append(body[:len(body)-1], `]}`...)))
		b.bar.to(float64(from) / float64(n))
	}
}

// kvGet asks for one key and returns the whole body of the reply.
func (b *bench) kvGet(c *conn, key int) []byte {
	return must(b.loop.ask(c, protocol.KVGet, kvGetBody(key)))
}
