package main

import (
	"fmt"
	"math/rand/v2"

	"confcenter/protocol"
)

// fields compares reading and writing one field of a player with reading and writing a key
// of the same number of bytes.
func (b *bench) fields() {
	s := b.serve(1)
	conns := b.dial(s.addr, kvConns)
	b.loadKeys(conns[0], b.cfg.keys, kvValueSize)
	b.loadFields(conns, b.cfg.keys)
	for _, depth := range []int{1, 16} {
		ours := b.closed(s.pid, conns[:benchConns], depth, fieldGetTape(newRandom(depth), b.cfg.keys))
		theirs := b.closed(s.pid, conns[:benchConns], depth, kvGetTape(newRandom(depth), b.cfg.keys))
		b.atLeast(fmt.Sprintf("STGET of one field of %d B, %d owners, depth %d, of KVGET", kvValueSize, b.cfg.keys, depth),
			must(compare(ours, theirs, b.cfg.pairs)), 0.9, "", "%v of %v", ours, theirs)
	}
	for _, depth := range []int{1, 16} {
		b.ofWaiting(b.closed(s.pid, conns, depth, fieldUpdateTape(newRandom(depth), b.cfg.keys)), b.closed(s.pid, conns, depth, kvPutTape(newRandom(depth), b.cfg.keys)),
			fmt.Sprintf("durable STUPDATE of one field of %d B, %d connections, depth %d, of KVPUT", kvValueSize, kvConns, depth), 0.9)
	}
}

// loadFields gives the owners from 0 to n a field each, and checks some of them.
func (b *bench) loadFields(conns []*conn, n int) {
	all := newTape(protocol.StUpdate, n, func(i int) []byte { return appendFieldUpdate(nil, i, kvText(i, kvValueSize)) })
	check(must(newLoad(b.loop, conns, all).play(16, n)).err)
	for i := range min(n, benchFiles) {
		got := string(must(b.loop.ask(conns[0], protocol.StGet, fieldGetBody(i))))
		if want := fmt.Sprintf(`{"code":0,"fields":{"state":"%s"}}`, kvText(i, kvValueSize)); got != want {
			check(fmt.Errorf("the field of owner %d is answered with %.300s, want %.300s", i, got, want))
		}
	}
}

func fieldGetTape(rnd *rand.Rand, n int) *tape {
	return newTape(protocol.StGet, tapeLength, func(int) []byte { return fieldGetBody(rnd.IntN(n)) })
}

func fieldUpdateTape(rnd *rand.Rand, n int) *tape {
	return newTape(protocol.StUpdate, tapeLength, func(i int) []byte { return appendFieldUpdate(nil, rnd.IntN(n), kvText(i, kvValueSize)) })
}

func fieldGetBody(owner int) []byte {
	return fmt.Appendf(nil, `{"logicType":"player","ownerId":"%s","names":["state"]}`, kvKey(owner))
}

func appendFieldUpdate(dst []byte, owner int, text []byte) []byte {
	return fmt.Appendf(dst, `{"logicType":"player","ownerId":"%s","fields":{"state":"%s"}}`, kvKey(owner), text)
}
