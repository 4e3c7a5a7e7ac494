//go:build soak

package siege

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/protocol"
)

// More than 8 MiB of requests on their way closed the connection of a client that reads.
func TestLongPipelinesAreBackPressure(t *testing.T) {
	b := besiege(t, 512)
	const clients, writes = 8, 1600 // 10 KB each: 16 MB
	value := strings.Repeat("p", 10_000)
	errs := make([]error, 2*clients)
	var all sync.WaitGroup
	for i := range clients {
		c, err := enter(b.Addr, "pipeline")
		require.NoError(t, err)
		defer c.Close()
		first := c.seq + 1
		all.Go(func() {
			for n := range writes {
				if errs[2*i] = c.send(protocol.KVPut, fmt.Sprintf(`{"ns":"pipe","key":"%d/%d","value":%q}`, i, n%100, value)); errs[2*i] != nil {
					return
				}
			}
		})
		all.Go(func() {
			for n := range writes {
				f, err := c.next()
				if err == nil && (f.Seq != first+uint16(n) || !strings.Contains(f.Body, `"code":0`)) {
					err = fmt.Errorf("reply %d: %s", n, f)
				}
				if errs[2*i+1] = err; err != nil {
					return
				}
			}
		})
	}
	all.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	b.over(func() {}, "peers")
}
