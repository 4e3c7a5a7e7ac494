package serving

import (
	"bytes"
	"runtime/debug"
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"confcenter/internal/memory"
	"confcenter/internal/settings"
	"confcenter/server/http"
	"confcenter/server/tcp"
)

func TestBudgetIsTheFlagsOrTheMachines(t *testing.T) {
	const gib = 1 << 30
	machine := memory.Source{Default: 8 * gib, Most: 12 * gib, From: "the machine"}
	small := memory.Source{Default: 1 * gib, Most: 1536 << 20, From: "the machine"}
	share := func(total int64) int64 { return memory.Divide(total).Store.Limit() }
	for _, c := range []struct {
		name          string
		memory, store settings.Bytes
		there         memory.Source
		total, holds  int64
		says          string
	}{
		{"nothing asked", 0, 0, machine, 8 * gib, share(8 * gib), "from=\"the machine\""},
		{"a budget", 2 * gib, 0, machine, 2 * gib, share(2 * gib), "from=--memory"},
		{"a smaller store", 2 * gib, 1 << 20, machine, 2 * gib, 1 << 20, ""},
		{"a store that the default has room for", 0, gib, machine, 8 * gib, gib, ""},
		{"one that the machine has room for", 0, 4 * gib, machine, memory.For(4 * gib), 4 * gib, ""},
		{"one that it has not", 0, 4 * gib, small, 1536 << 20, memory.Divide(1536 << 20).StoreMost(), "kv-memory = 4GiB is more than this machine can spare: the state store may take 3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var log bytes.Buffer
			o := Options{memory: c.memory, state: stateOptions{memory: c.store}}
			b := o.budget(c.there, zerolog.New(zerolog.ConsoleWriter{Out: &log, NoColor: true}))
			require.Equal(t, c.total, b.Total)
			require.Equal(t, c.holds, b.Store.Limit())
			require.Contains(t, log.String(), c.says)
			require.LessOrEqual(t, b.Store.Limit(), b.StoreMost())
		})
	}
}

func TestCollectorKeepsToTheBudgetUnlessTheEnvironmentSaysOtherwise(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	b := memory.Divide(1 << 30)
	t.Setenv("GOMEMLIMIT", "")
	end := keepMemory(b)
	require.Equal(t, b.GoLimit(), debug.SetMemoryLimit(-1))
	end()
	require.Equal(t, before, debug.SetMemoryLimit(-1))
	t.Setenv("GOMEMLIMIT", "64GiB")
	end = keepMemory(b)
	require.Equal(t, before, debug.SetMemoryLimit(-1))
	end()
}

func TestConnectionsFitIntoTheirMemory(t *testing.T) {
	const files = 20000
	for _, c := range []struct {
		name                   string
		budget                 int64
		asked                  int
		tcp, web, unidentified int
		warns                  bool
	}{
		{"a small budget", 512 << 20, 0, 5242, 1310, 1250, false},
		{"the smallest", memory.Least, 0, 1310, 327, 327, false},
		{"as many as files allow", 64 << 30, 0, files - reservedFiles - 5000 - 1250, 5000, 1250, false},
		{"what was asked for stays", 512 << 20, 9000, 9000, 1310, 1250, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var log bytes.Buffer
			o := Options{tcp: tcp.Config{MaxConnections: c.asked}, http: httpOptions{Config: http.Config{Listen: "127.0.0.1:0"}}}
			require.NoError(t, o.limitConnections(files, memory.Divide(c.budget).Connections.Limit(), zerolog.New(&log)))
			require.Equal(t, []int{c.tcp, c.web, c.unidentified}, []int{o.tcp.MaxConnections, o.http.MaxConnections, o.admission.Unidentified})
			require.Equal(t, c.warns, bytes.Contains(log.Bytes(), []byte("raise --memory")), log.String())
		})
	}
}
