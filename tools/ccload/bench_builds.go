package main

import "fmt"

// builds compares the server with an earlier build of it, both without access control. It tells
// what the changes since then cost those who do not use what they brought.
func (b *bench) builds() {
	now := b.guarded(0)
	b.binary = b.cfg.before
	before := b.guarded(0)
	b.binary = b.cfg.server
	for _, depth := range []int{1, 16, 64} {
		b.notSlower(fmt.Sprintf("GETCONFIG, depth %d, of the build before", depth), now, before, depth, readTape(newRandom(depth), fileNames(benchFiles), ""))
		b.notSlower(fmt.Sprintf("KVGET, depth %d, of the build before", depth), now, before, depth, kvGetTape(newRandom(depth), b.cfg.keys))
	}
	for _, depth := range []int{1, 16} {
		puts := func(s asked) *rival { return b.closed(s.pid, s.conns, depth, kvPutTape(newRandom(depth), b.cfg.keys)) }
		b.ofWaiting(puts(now), puts(before), fmt.Sprintf("durable KVPUT, depth %d, of the build before", depth), 0.95)
	}
}
