package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"confcenter/protocol"
)

// The tenant that is limited, and its limits: those of the example in docs/access.md.
const (
	limitedName     = "tenant"
	limitedRequests = 2000       // a second
	limitedBytes    = 10_000_000 // a second
)

const (
	// neighborRate is how often the other tenant asks for each thing it asks for, in requests
	// a second: so rarely that a core is left for the first one.
	neighborRate = 300
	// neighborSpin is how long it waits awake for an answer.
	neighborSpin = 200 * time.Microsecond
	// isolationSlices is how much longer than a rate a p99 is measured.
	isolationSlices = 10
	// isolationSettle is how long, of a measurement, the first tenant has been there when it
	// begins: it has sent what it may send at once.
	isolationSettle = 4
	// nearLimit is how much of its limit the first tenant must have reached.
	nearLimit = 0.8
)

// isolated measures what a tenant notices of another that is at its limits.
func isolated(b *bench) {
	s := b.prepare(benchFiles, "--access-control", "--listen-as", "listen=nobody")
	check(os.Mkdir(filepath.Join(s.conf, "_access"), 0o755))
	check(os.WriteFile(filepath.Join(s.conf, "_access", "bench.json"), isolationRole(), 0o644))
	web := b.startHTTP(s)
	b.loop.token = b.makeToken(s, guardedName)
	defer func() { b.loop.token = "" }()
	b.loadKeys(b.dial(s.addr, 1)[0], max(tenantKeys, b.cfg.keys), kvValueSize)
	token := filepath.Join(b.work, limitedName+".token")
	check(os.WriteFile(token, []byte(b.makeToken(s, limitedName)), 0o600))
	n := newNeighbor(b, s.addr, b.bare(kvValueSize).addr)
	defer n.loop.close()
	rate := strconv.Itoa(limitedRequests)
	for _, other := range []struct {
		name   string
		limit  float64 // requests a second
		floods bool
		args   []string
	}{
		{"floods", limitedRequests, true, []string{"--addr", s.addr}},
		{"floods over HTTP", limitedRequests, true, []string{"--http", web}},
		{"is at its limit", limitedRequests, false, []string{"--addr", s.addr, "--rate", rate}},
		{"floods with big values", float64(limitedBytes) / tenantValue, true, []string{"--addr", s.addr, "--big"}},
	} {
		n.beside(other.name, other.limit, other.floods, append(other.args, "--token-file", token))
	}
}

// isolationRole limits the one token, and allows both everything that is measured.
func isolationRole() []byte {
	return fmt.Appendf(nil, `{"rules":[{"name":"files","who":["token:%[1]s","token:%[2]s"],"allow":["read"],"what":["config:f*"]},
{"name":"keys","who":["token:%[1]s","token:%[2]s"],"allow":["read","write"],"what":["kv:%[3]s"]}],
"quotas":[{"name":"tenant","who":["token:%[2]s"],"requests":%[4]d,"bytes":%[5]d}]}`, guardedName, limitedName, kvNamespace, limitedRequests, limitedBytes)
}

// neighbor is a tenant that asks at a steady rate, one request at a time of each kind. It has a
// loop of its own, which sleeps in between. Its last kind asks a server of ready-made bytes
// on the same core, which has nothing to do with the other tenant: what becomes slower there
// is due to the machine, and to the core that the servers share.
type neighbor struct {
	*bench
	loop  *loop
	kinds []asking
}

// asking is one kind of request.
type asking struct {
	name string
	load *load
}

func newNeighbor(b *bench, addr, bare string) *neighbor {
	l := must(newLoop(b.loop.ctx, neighborSpin))
	l.fine, l.token = true, b.loop.token
	n := &neighbor{bench: b, loop: l}
	for i, src := range []source{readTape(newRandom(0), fileNames(benchFiles), ""), kvGetTape(newRandom(1), b.cfg.keys), kvPutTape(newRandom(2), b.cfg.keys)} {
		name := []protocol.Command{protocol.GetConfig, protocol.KVGet, protocol.KVPut}[i].String()
		n.kinds = append(n.kinds, asking{name, newLoad(l, must(l.identify(addr, 1, false)), src)})
	}
	n.kinds = append(n.kinds, asking{"ready-made bytes", newLoad(l, must(l.identify(bare, 1, false)), kvGetTape(newRandom(3), b.cfg.keys))})
	return n
}

// beside measures pairs of it alone and with another process, and reports what has become
// slower.
func (n *neighbor) beside(name string, limit float64, floods bool, args []string) {
	type pair struct{ alone, among []*tally }
	var pairs []pair
	var sum tenantReport
	for i := range n.cfg.pairs {
		var p pair
		alone := func() { p.alone = n.slice() }
		among := func() {
			r := n.with(args, func() { p.among = n.slice() })
			sum.answered, sum.refused, sum.seconds = sum.answered+r.answered, sum.refused+r.refused, sum.seconds+r.seconds
		}
		if i%2 == 0 {
			alone()
			among()
		} else {
			among()
			alone()
		}
		pairs = append(pairs, p)
	}
	served := float64(sum.answered-sum.refused) / sum.seconds
	if n.cfg.slice >= time.Second/isolationSlices && (served < nearLimit*limit || floods == (sum.refused == 0)) {
		check(fmt.Errorf("the tenant that %s has had %.0f of its %.0f requests a second, and %d were refused: it was not at its limit", name, served, limit, sum.refused))
	}
	at := func(k int, q float64) (ratio, before, after float64) {
		var with, without []float64
		for _, p := range pairs {
			without = append(without, micros(p.alone[k].latency.ValueAtQuantile(q)))
			with = append(with, micros(p.among[k].latency.ValueAtQuantile(q)))
		}
		return median(ratios(with, without)), median(without), median(with)
	}
	last := len(n.kinds) - 1
	bare, bareBefore, bareAfter := at(last, 99)
	for k, kind := range n.kinds[:last] {
		ratio, before, after := at(k, 99)
		middle, before50, after50 := at(k, 50)
		n.atMost(fmt.Sprintf("p99 of %s while another tenant %s", kind.name, name), ratio, 1.5, "x",
			"%.0f µs to %.0f, p50 %.0f to %.0f: %.2f; p99 of %s %.0f to %.0f: %.2f; the other is answered %.0f and refused %.0f times a second",
			before, after, before50, after50, middle, n.kinds[last].name, bareBefore, bareAfter, bare, served, float64(sum.refused)/sum.seconds)
	}
}

// slice measures each kind for a while, all in turn.
func (n *neighbor) slice() (t []*tally) {
	for _, kind := range n.kinds {
		kind.load.begin(neighborRate)
		check(n.loop.wait(time.Second / neighborRate / time.Duration(len(n.kinds))))
	}
	check(n.loop.wait(isolationSlices * n.cfg.slice))
	for _, kind := range n.kinds {
		t = append(t, counted(kind.load.end()))
	}
	return t
}

// with starts a tenant and runs work when it has been there for a while. It shares the load's
// core, but gets only what is left of that; without cores of its own that could be nothing, so
// there it is a process like others.
func (n *neighbor) with(args []string, work func()) tenantReport {
	argv := append([]string{must(os.Executable()), "tenant"}, args...)
	core := n.core
	if core >= 0 {
		core = loadCore
		argv = append([]string{"chrt", "--idle", "0"}, argv...)
	}
	p := must(startProcess(core, n.work, "tenant", "", argv))
	defer p.stop()
	for !strings.Contains(p.printed(), tenantBegun) {
		select {
		case <-p.gone:
			check(fmt.Errorf("the other tenant has ended: %s", p.printed()))
		default:
		}
		check(n.loop.wait(time.Millisecond))
	}
	check(n.loop.wait(isolationSettle * n.cfg.slice))
	work()
	p.stop()
	r, err := parseTenant(p.printed())
	if err != nil {
		check(fmt.Errorf("the other tenant: %w: %s", err, p.printed()))
	}
	return r
}
