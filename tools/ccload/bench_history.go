package main

import "fmt"

// benchVersions is how many versions the document has whose log is read.
const benchVersions = 1000

// histories measures how long it takes to read the log of a document, whose changes lie between
// those of another.
func (b *bench) histories() {
	s := b.serve(2)
	names, conns := fileNames(2), b.dial(s.addr, 1)
	for i := range benchVersions {
		for _, name := range names {
			check(b.loop.set(conns[0], name, smallDocument(name, i, replySize)))
		}
	}
	log := newTape(command("CFLOG"), 1, func(int) []byte { return fmt.Appendf(nil, `{"name":"%s","limit":%d}`, names[0], benchVersions) })
	counted(newLoad(b.loop, conns, log).play(1, 1))
	got := must(b.closed(s.pid, conns, 1, log).run())
	b.atMost(fmt.Sprintf("p50 of CFLOG of %d versions", benchVersions), got.p50/1000, 20, "ms", "p99 %.2f ms", got.p99/1000)
}
