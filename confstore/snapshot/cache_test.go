package snapshot

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/internal/memory"
)

func bigText(size int) string {
	var b strings.Builder
	b.WriteString(`{"m0":0`)
	for i := 1; b.Len() < size; i++ {
		fmt.Fprintf(&b, `,"m%d":{"v":[%d,"x"]}`, i, i)
	}
	b.WriteString("}")
	return b.String()
}

func TestCacheStaysWithinItsBound(t *testing.T) {
	edits := []Edit{texted("base.json", bigText(50_000), 1000)}
	var entries []string
	for i := range 40 {
		name := fmt.Sprintf("h%d.json", i)
		edits = append(edits, texted(name, `{}`, 1000))
		entries = append(entries, fmt.Sprintf("%q:%q", name, "base.json"))
	}
	edits = append(edits, texted("_meta.json", `{"conf_inherit":{`+strings.Join(entries, ",")+`}}`, 1000))
	p := planner(Empty())
	p.Limits = NewLimits(32<<10, 4<<10, memory.NewPool(500_000))
	c := p.Limits.cache
	for round := range 4 {
		out, err := p.Plan(edits, false)
		require.NoError(t, err)
		out.Retire()
		p.Prev, edits = out.Next, []Edit{texted("base.json", bigText(50_000+1000*round+1000), 1000)}
		if round == 3 {
			break
		}
		for i := range 40 {
			n := p.Prev.Find(fmt.Appendf(nil, "h%d", i))
			n.Prepare(true, false)
			_, ready := n.Contents(true)
			require.True(t, ready, "what was just made is there")
			require.False(t, c.pool.Over())
		}
	}
	require.Zero(t, c.pool.Held(), "what was replaced is not counted")
	require.Empty(t, c.forms)
}
