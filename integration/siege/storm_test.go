//go:build soak

package siege

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/integration/process"
)

const (
	// stormClients lose their server at once and all come back at once.
	stormClients = 9000
	// inStep is how soon all of them are identified and subscribed again.
	inStep = 5 * time.Second
)

// A configuration center is asked by all clients at once exactly when it comes back.
func TestStormOfReconnects(t *testing.T) {
	p := process.Start(t, confDir(t), "--log-level", "warn")
	f := &fleet{t: t, addr: p.Addr, conns: make([]*caller, stormClients)}
	defer f.leave()
	took, attempts := f.join()
	t.Logf("%d came in %v with %d connects", stormClients, took.Round(time.Millisecond), attempts)
	for _, gone := range []struct {
		how string
		by  func()
	}{
		{"killed", func() { p.Kill(); p.Start() }},
		{"restarted", p.Restart},
		{"cut off", func() {}},
	} {
		f.leave()
		gone.by()
		took, attempts := f.join()
		t.Logf("%s: %d were in step after %v with %d connects", gone.how, stormClients, took.Round(time.Millisecond), attempts)
		require.Less(t, took, inStep, gone.how) // promised for a machine that has nothing else to do
		writer := p.Peer()
		f.told(writer.Set("a.json", fmt.Sprintf(`{"after":%q}`, gone.how)))
		require.NoError(t, writer.Close())
	}
	p.Stop()
}
