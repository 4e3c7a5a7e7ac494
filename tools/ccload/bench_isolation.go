package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"confcenter/protocol"
)

const (
	// limitedName is the tenant that is at its limit, which is that of the example in
	// docs/access.md, and neighborName the other one.
	limitedName     = "tenant"
	neighborName    = "neighbor"
	limitedRequests = 2000 // a second
	// neighborRate is how often the neighbor asks for each thing it asks for, in requests
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

// isolated measures what a tenant notices of another that floods the server. It asks at a
// steady rate, one request at a time of each kind. The last kind asks a server of ready-made
// bytes on the same core, which has nothing to do with the other tenant: what becomes slower
// there is due to the machine, and to the core that the servers share.
func (b *bench) isolated() {
	s := b.prepare(benchFiles, "--access-control", "--listen-as", "listen=nobody")
	check(os.Mkdir(filepath.Join(s.conf, "_access"), 0o755))
	check(os.WriteFile(filepath.Join(s.conf, "_access", "bench.json"), isolationRole(), 0o644))
	b.start(s)
	bare := b.bareOf(kvValueSize)
	token := filepath.Join(b.work, limitedName+".token")
	check(os.WriteFile(token, b.makeToken(s, limitedName), 0o600))
	b.loop.token, b.spin = strings.TrimSpace(string(b.makeToken(s, neighborName))), neighborSpin
	defer func() { b.loop.token, b.spin = "", longSpin }()
	b.loadKeys(b.dial(s.addr, benchConns), max(tenantKeys, b.of(keys)), kvValueSize)
	kinds := []*load{newLoad(b.dial(s.addr, 1), benchReads(0)), newLoad(b.dial(s.addr, 1), b.keyReads(1)), newLoad(b.dial(s.addr, 1), b.keyWrites(2)), newLoad(b.dial(bare.addr, 1), b.keyReads(3))}
	var alone, among [][]*tally
	var sum tenantReport
	for range b.pairs {
		alone = append(alone, b.askAll(kinds))
		r := b.beside(s.addr, token, func() { among = append(among, b.askAll(kinds)) })
		sum.Answered, sum.Refused, sum.Seconds = sum.Answered+r.Answered, sum.Refused+r.Refused, sum.Seconds+r.Seconds
	}
	served, refused := float64(sum.Answered-sum.Refused)/sum.Seconds, float64(sum.Refused)/sum.Seconds
	if b.part == 1 && (served < nearLimit*limitedRequests || refused == 0) {
		check(fmt.Errorf("the other tenant has had %.0f of its %d requests a second, and %.0f were refused: it was not at its limit", served, limitedRequests, refused))
	}
	for k, cmd := range []protocol.Command{protocol.GetConfig, protocol.KVGet, protocol.KVPut} {
		p99 := func(k int) (before, after []float64) {
			of := func(t []*tally) float64 { return t[k].micros(99) }
			return each(alone, of), each(among, of)
		}
		before, after := p99(k)
		bare, bareAfter := p99(len(kinds) - 1)
		b.atMost(fmt.Sprintf("p99 of %v while another tenant floods", cmd), median(ratios(after, before)), 1.5, "x",
			"%.0f µs to %.0f; p99 of ready-made bytes %.0f to %.0f; the other is answered %.0f and refused %.0f times a second",
			median(before), median(after), median(bare), median(bareAfter), served, refused)
	}
}

// isolationRole limits the one token, and allows both everything that is measured.
func isolationRole() []byte {
	return fmt.Appendf(nil, `{"rules":[{"name":"files","who":["token:%[1]s","token:%[2]s"],"allow":["read"],"what":["config:f*"]},
{"name":"keys","who":["token:%[1]s","token:%[2]s"],"allow":["read","write"],"what":["kv:%[3]s"]}],
"quotas":[{"name":"tenant","who":["token:%[2]s"],"requests":%[4]d}]}`, neighborName, limitedName, kvNamespace, limitedRequests)
}

// makeToken has the server make a token, as people do.
func (b *bench) makeToken(s *served, name string) []byte {
	return must(exec.CommandContext(b.ctx, b.binary, "auth", "token", name, "--addr", s.addr, "--token-file", filepath.Join(s.data, "administrator.token")).Output())
}

// askAll measures each kind for a while, all in turn.
func (b *bench) askAll(kinds []*load) (t []*tally) {
	for _, kind := range kinds {
		kind.begin(neighborRate)
		b.wait(time.Second / neighborRate / time.Duration(len(kinds)))
	}
	b.wait(isolationSlices * b.slice)
	for _, kind := range kinds {
		t = append(t, kind.end())
	}
	return t
}

// beside starts a tenant and runs work when it has been there for a while. It shares the
// load's core, but gets only what is left of that; without cores of its own that could be
// nothing, so there it is a process like others.
func (b *bench) beside(addr, token string, work func()) (r tenantReport) {
	argv := []string{must(os.Executable()), "tenant", "--addr", addr, "--token-file", token}
	core := b.core
	if core >= 0 {
		core = loadCore
		argv = append([]string{"chrt", "--idle", "0"}, argv...)
	}
	p := startProcess(b.ctx, core, argv)
	defer p.end()
	b.wait(isolationSettle * b.slice)
	work()
	p.end()
	check(json.Unmarshal(p.printed(), &r))
	return r
}
