//go:build soak

package siege

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/integration/process"
	"confcenter/internal/servertest"
	"confcenter/protocol"
)

// besieged is a server with a budget.
type besieged struct {
	*process.Process
	t      *testing.T
	budget int64
	w      *witness
	before process.Memory
}

// besiege starts a server with a budget of so many MiB, and a program that uses it.
func besiege(t *testing.T, budget int64, flags ...string) *besieged {
	t.Helper()
	b := &besieged{t: t, budget: budget * mib, Process: process.New(t, confDir(t), append(flags, append(strict, "--memory", fmt.Sprintf("%dMiB", budget))...)...)}
	b.Start()
	b.w = watch(t, b.Process)
	b.before = b.Memory()
	b.ForgetPeak()
	return b
}

// scrape reads all numbers of /metrics whose name begins with prefix, by what is left of
// it.
func scrape(t *testing.T, p *process.Process, prefix string) map[string]int64 {
	t.Helper()
	numbers := map[string]int64{}
	text, err := webGet(web, "http://"+p.HTTP+"/metrics")
	require.NoError(t, err)
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, prefix); ok {
			name, number, _ := strings.Cut(rest, " ")
			n, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
			require.NoError(t, err, line)
			numbers[name] = int64(n)
		}
	}
	return numbers
}

// pools are the bytes that each pool says it holds.
func (b *besieged) pools() map[string]int64 {
	b.t.Helper()
	held := map[string]int64{}
	for label, n := range scrape(b.t, b.Process, "confcenter_memory_pool_bytes") {
		held[strings.Split(label, `"`)[1]] = n
	}
	return held
}

// held is the sum of the pools.
func (b *besieged) held() (sum int64) {
	for _, n := range b.pools() {
		sum += n
	}
	return sum
}

// over checks what is promised while an attack lasts, and that memory is given back after
// it: the pool's, and the process's.
func (b *besieged) over(end func(), pools ...string) {
	b.t.Helper()
	newcomer(b.t, b.Process)
	b.t.Logf("pools under attack: %v", b.pools())
	end()
	for _, pool := range pools {
		eventually(b.t, "nothing is left in the pool "+pool, func() bool { return b.pools()[pool] < mib })
	}
	// Half the budget is for garbage, beside what is still held. Collections come with requests,
	// so the witness goes on.
	if !comesTrue(func() bool { return b.Memory().Now < b.before.Now+b.held()+b.budget/2 }) {
		require.FailNow(b.t, "memory is not given back", "%d MiB before, %d now; pools %v", b.before.Now/mib, b.Memory().Now/mib, b.pools())
	}
	b.w.relieve()
	m := within(b.t, b.Process, b.budget)
	b.t.Logf("resident %d MiB, %d MiB at most, of a budget of %d MiB", m.Now/mib, m.Peak/mib, b.budget/mib)
	b.Stop()
}

// 300 bodies took 2.8 GB, and the server kept it.
func TestUnfinishedBodies(t *testing.T) {
	b := besiege(t, 512)
	g := unfinishedBodies(b.Process, 300).over()
	b.over(g.disperse, "bodies")
}

// Each header takes a megabyte.
func TestUnfinishedHeaders(t *testing.T) {
	b := besiege(t, 128)
	g := unfinishedHeaders(b.Process, 600).over()
	b.over(g.disperse, "bodies")
}

// putSmall writes one value, which is never refused: there is room for it.
func (b *besieged) putSmall() {
	b.t.Helper()
	c, err := enter(b.Addr, "witness")
	require.NoError(b.t, err)
	defer c.Close()
	require.NoError(b.t, c.ask(protocol.KVPut, fmt.Sprintf(`{"ns":%q,"key":"k0","value":"small"}`, streamNS)))
}

// putLarge writes values of 200 KB. Where memory for peers runs out the server may close a
// connection that sends much, too; its program comes back and says it again.
func (b *besieged) putLarge(n int) {
	b.t.Helper()
	c, err := enter(b.Addr, "witness")
	require.NoError(b.t, err)
	defer func() { c.Close() }()
	value := strings.Repeat("v", 200_000)
	var slowest time.Duration
	begun, closed := time.Now(), 0
	for i := 0; i < n; {
		if err := c.ask(protocol.KVPut, fmt.Sprintf(`{"ns":%q,"key":"k%d","value":%q}`, streamNS, i%10, value)); err == nil {
			slowest = max(slowest, time.Since(begun))
			begun = time.Now()
			i++
			continue
		}
		closed++
		b.Lives()
		require.Less(b.t, time.Since(begun), servertest.Patience, "it cannot write: %s", b.Said())
		c.Close()
		c, err = enter(b.Addr, "witness")
		require.NoError(b.t, err)
	}
	b.t.Logf("%d puts of 200 KB took %v at most; their connection was closed %d times", n, slowest.Round(time.Millisecond), closed)
}
