//go:build !race || soak

package audit_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/access/audit"
)

func TestOldLinesAreRemovedAndTheRestIsStillAChain(t *testing.T) {
	k := start(t, func(cfg *audit.Config) { cfg.Bytes, cfg.Age = 64<<10, 1000*time.Hour })
	before := k.head()
	for i := range 600 {
		k.put(fmt.Sprint("k", i))
		if i%10 == 0 {
			k.clock.Advance(11 * time.Second)
		}
	}
	gone := func() bool { l := k.lines(audit.LinesAsk{Limit: 1}); return len(l) > 0 && l[0].Seq > 200 }
	k.until(11*time.Second, "lines to be removed", gone)
	v := k.verify(audit.VerifyAsk{})
	require.Empty(t, v.Fault)
	require.Equal(t, k.lines(audit.LinesAsk{})[0].Seq, v.First)
	require.Empty(t, k.verify(audit.VerifyAsk{Head: before}).Fault, "a head of lines that are gone says nothing")
	require.NotEmpty(t, k.lines(audit.LinesAsk{Filter: audit.Filter{Kind: "pruned"}}))
	require.Positive(t, k.Figures().Pruned)
	k.reopen()
	require.Empty(t, k.verify(audit.VerifyAsk{}).Fault)

	newest := k.lines(audit.LinesAsk{Last: 1})[0].Seq
	k.until(20*time.Hour, "all of them to be too old", func() bool { return k.verify(audit.VerifyAsk{}).First > newest })
	require.Empty(t, k.verify(audit.VerifyAsk{}).Fault)
	k.reopen()
	k.put("more")
	v = k.verify(audit.VerifyAsk{})
	require.Empty(t, v.Fault)
	require.Greater(t, v.First, newest, "the numbers go on")
}
