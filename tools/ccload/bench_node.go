package main

import (
	"bytes"
	"fmt"
	"strconv"

	"confcenter/protocol"
)

// benchNodes is how many nodes there are that send heartbeats.
const benchNodes = 1000

// nodes counts what a heartbeat of a node writes, and compares heartbeats with puts.
func (b *bench) nodes() {
	s := b.serve(1)
	conns := b.dial(s.addr, kvConns)
	register := newTape(command("BNREGISTERNODE"), benchNodes, func(i int) []byte {
		return fmt.Appendf(nil, `{"node":{"id":"%s","config":{"role":"database","labels":[{"k":"disk","v":"ssd"}]}},"ttl":%d}`, benchNode(i), flowLife)
	})
	counted(newLoad(b.loop, conns, register).play(1, benchNodes))
	beats := newTape(command("BNHEARTBEAT"), benchNodes, func(i int) []byte {
		return fmt.Appendf(nil, `{"id":"%s","status":{"state":"idle"}}`, benchNode(i))
	})
	commits, groups := b.written(conns[0])
	counted(newLoad(b.loop, conns[:1], beats).play(1, benchNodes)) // alone, so that no two share a group
	commits2, groups2 := b.written(conns[0])
	b.atMost("durable writes of one heartbeat of a node", float64(groups2-groups)/benchNodes, 1, "", "%d transactions of %d heartbeats", commits2-commits, benchNodes)
	b.ofWaiting(b.closed(s.pid, conns, 1, beats), b.closed(s.pid, conns, 1, kvPutTape(newRandom(1), benchNodes)),
		fmt.Sprintf("durable BNHEARTBEAT of %d nodes, %d connections, of KVPUT", benchNodes, kvConns), 0.3)
}

func benchNode(i int) string { return fmt.Sprintf("n%05d", i) }

// written is how many transactions and durable writes the state store counts.
func (b *bench) written(c *conn) (commits, groups int) {
	body := must(b.loop.ask(c, protocol.KVStat, []byte(`{}`)))
	of := func(name string) int {
		_, rest, _ := bytes.Cut(body, []byte(`"`+name+`":`))
		digits := rest[:len(rest)-len(bytes.TrimLeft(rest, "0123456789"))]
		return must(strconv.Atoi(string(digits)))
	}
	return of("commits"), of("groups")
}
