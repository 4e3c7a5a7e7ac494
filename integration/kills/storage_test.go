package kills

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/client"
	"confcenter/integration/process"
)

// H29, H30: what was acknowledged is there after a kill -9, and nothing that was not asked for.
func TestStorageKill(t *testing.T) {
	const writers = 4
	rounds := whole(20, 5)
	p := process.Start(t, emptyConf(t))
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 0))
	var acked, sent [writers]int64
	for round := range rounds {
		ctx, cancel := context.WithCancel(t.Context())
		var load sync.WaitGroup
		for i := range writers {
			c, err := client.Dial(ctx, client.Config{Addrs: []string{p.Addr}, Name: "writer", RequestTimeout: time.Minute})
			require.NoError(t, err)
			o := c.Storage().Owner("bag", strconv.Itoa(i))
			load.Go(func() {
				defer c.Close()
				for ctx.Err() == nil {
					sent[i]++
					text := []byte(strconv.FormatInt(sent[i], 10))
					if _, err := o.Update(ctx, map[string][]byte{"a": text, "b": text}, client.WithToken("")); err != nil {
						return
					}
					acked[i] = sent[i]
				}
			})
		}
		<-time.After(time.Duration(random.IntN(120_000)) * time.Microsecond) // the random moment
		p.Kill()
		cancel()
		load.Wait()
		p.Start()
		c, err := client.Dial(t.Context(), client.Config{Addrs: []string{p.Addr}, Name: "reader"})
		require.NoError(t, err)
		for i := range writers {
			all, err := c.Storage().Owner("bag", strconv.Itoa(i)).All(t.Context())
			require.NoError(t, err)
			require.Equal(t, string(all["a"]), string(all["b"]), "half of a write, round %d of seed %d", round, seed)
			n, _ := strconv.ParseInt(string(all["a"]), 10, 64)
			require.GreaterOrEqual(t, n, acked[i], "round %d of seed %d", round, seed)
			require.LessOrEqual(t, n, sent[i], "round %d of seed %d", round, seed)
		}
		require.NoError(t, c.Close())
	}
	require.Greater(t, acked[0]+acked[1]+acked[2]+acked[3], int64(rounds), "the load was no load")
}
