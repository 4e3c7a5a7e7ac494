package main

import (
	"bytes"
	"fmt"

	"confcenter/protocol"
)

// kvGets compares reading the state store with the bare server's answers of the
// same size.
func (b *bench) kvGets() {
	s := b.serve(1)
	conns := b.dial(s.addr, benchConns)
	size := b.loadForGets(conns)
	b.ofCeiling(s.pid, conns, size, fmt.Sprintf("KVGET of %d B, %d keys", size, b.of(keys)), b.keyReads, 0.85, 0.6)
}

// keyReads and keyWrites are for the keys that are loaded.
func (b *bench) keyReads(seed int) *tape  { return kvGetTape(newRandom(seed), b.of(keys)) }
func (b *bench) keyWrites(seed int) *tape { return kvPutTape(newRandom(seed), b.of(keys)) }

// loadForGets fills the store with values that make replies of about replySize
// and checks some of them. It returns the size of the longest reply's body.
func (b *bench) loadForGets(conns []*conn) (size int) {
	const value = kvValueSize - 88
	b.loadKeys(conns, b.of(keys), value)
	for i := range min(b.of(keys), benchFiles) {
		body := conns[0].ask(protocol.KVGet, kvGetBody(i))
		if want := kvText(i, value); !bytes.Contains(body, want) {
			check(fmt.Errorf("%s is %.300q, want %.200q", kvKey(i), body, want))
		}
		size = max(size, len(body))
	}
	return size
}

// loadKeys writes the keys from 0 to n, values of size bytes.
func (b *bench) loadKeys(conns []*conn, n, size int) {
	newLoad(conns, newTape(protocol.KVPut, n, func(i int) []byte { return kvPutBody(i, kvText(i, size)) })).play(64, n)
}

// kvPuts compares durable writes with those of Redis.
func (b *bench) kvPuts() {
	s := b.serve(1)
	conns := b.dial(s.addr, kvConns)
	redis := b.redis()
	for _, depth := range []int{1, 16} {
		ours := b.durable(s.pid, conns, depth, b.keyWrites(depth))
		b.versus(fmt.Sprintf("durable KVPUT of %d B, %d connections, depth %d, of Redis", kvValueSize, kvConns, depth), ours, redis(depth), 0.9)
		b.atMost(fmt.Sprintf("p99 of these puts at depth %d", depth), ours.p99()/1000, 15, "ms", "at %.0f/s", median(ours.rates()))
	}
	incr := newTape(protocol.KVIncr, 1, func(int) []byte { return []byte(`{"ns":"` + kvNamespace + `","key":"counter"}`) })
	b.versus(fmt.Sprintf("KVINCR of one key, %d connections, of KVPUT", kvConns), b.durable(s.pid, conns, 1, incr), b.durable(s.pid, conns, 1, b.keyWrites(0)), 1)
}

// kvWatches measures the time from a put's acknowledgement until the last of many
// watchers is told.
func (b *bench) kvWatches() {
	s := b.serve(1, limit("--max-connections", b.of(watchers))...)
	writes := newTape(protocol.KVPut, writesLength, func(i int) []byte { return kvPutBody(0, kvText(i, kvValueSize)) })
	rounds := newFanout(b.loop, s.addr, b.of(watchers), writes, protocol.KVWatch, kvGetBody(0)).rounds(fanoutWarmup, 10*b.pairs, pushPause)
	times := each(rounds, round.late)
	b.atMost(fmt.Sprintf("%d watchers of one key told after the reply, p50", b.of(watchers)), median(times), 10, "ms",
		"p99 %.2f ms; %.2f ms after the request", quantile(times, 0.99), median(each(rounds, round.allTold)))
}

// loadFields gives the owners from 0 to n a field each, and checks some of them.
func (b *bench) loadFields(conns []*conn, n int) {
	newLoad(conns, newTape(protocol.StUpdate, n, func(i int) []byte { return fieldUpdateBody(i, i) })).play(16, n)
	for i := range min(n, benchFiles) {
		got := string(conns[0].ask(protocol.StGet, fieldGetBody(i)))
		if want := fmt.Sprintf(`{"code":0,"fields":{"state":"%s"}}`, kvText(i, kvValueSize)); got != want {
			check(fmt.Errorf("the field of owner %d is answered with %.300s, want %.300s", i, got, want))
		}
	}
}

func fieldGetBody(owner int) []byte {
	return fmt.Appendf(nil, `{"logicType":"player","ownerId":"%s","names":["state"]}`, kvKey(owner))
}

func fieldUpdateBody(owner, text int) []byte {
	return fmt.Appendf(nil, `{"logicType":"player","ownerId":"%s","fields":{"state":"%s"}}`, kvKey(owner), kvText(text, kvValueSize))
}
