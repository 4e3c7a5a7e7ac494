package host_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"confcenter/access/audit"
	"confcenter/access/review"
	"confcenter/access/secret"
	"confcenter/access/token"
	"confcenter/client/calls"
	"confcenter/codes"
	"confcenter/confstore/history"
	"confcenter/kv"
	"confcenter/kvstore/memory"
	"confcenter/models/bench"
	"confcenter/models/flow"
	"confcenter/server/host"
)

func TestAHostHasTheModelsAndEndsThem(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	store := memory.New(memory.Config{})
	defer func() { require.NoError(t, store.Close()) }()
	h := host.Open(store, host.Config{})
	for i, m := range h.Models() {
		require.Equal(t, [...]string{"flow", "bench", "history", "auth", "secret", "review", "audit"}[i], m.Name)
		require.NotEmpty(t, m.Operations)
		for k := range m.Operations {
			if o := &m.Operations[k]; o.Name == "tree" || o.Name == "nodes" || o.Name == "tokens" || o.Name == "status" && m.Name == "secret" || o.Name == "log" {
				answer, err := m.Answer(t.Context(), o, nil, o.Ask())
				require.NoError(t, err)
				require.Contains(t, string(answer), "[]")
			}
		}
	}
	h.Close()
}

// refusing is a store that takes no transactions.
type refusing struct{ kv.Archive }

func (refusing) Commit(*kv.Txn, func(*kv.Result, error)) error {
	return codes.Errorf(codes.Storage, "the disk is gone")
}

func TestADutyOfFlowThatCannotBeFinishedIsLogged(t *testing.T) {
	store := memory.New(memory.Config{})
	defer func() { require.NoError(t, store.Close()) }()
	duty := kv.Op{Kind: kv.OpPut, NS: kv.FlowPrefix + ".index", Key: "gone.cl.cfapp.A", Value: kv.StringValue("")}
	done := make(chan error)
	require.NoError(t, store.Commit(&kv.Txn{System: true, Then: []kv.Op{duty}}, func(_ *kv.Result, err error) { done <- err }))
	require.NoError(t, <-done)

	lines := make(logged, 100)
	h := host.Open(refusing{store}, host.Config{Log: zerolog.New(lines)})
	defer h.Close()
	for line := range lines {
		if strings.Contains(line, "gone.cl.cfapp.A") {
			require.Contains(t, line, "the disk is gone")
			return
		}
	}
}

// logged are the lines of a log.
type logged chan string

func (l logged) Write(line []byte) (int, error) {
	select {
	case l <- string(line):
	default: // the test has ended
	}
	return len(line), nil
}

// The methods of the Go client are made from the tables: each takes and returns what its
// operation does.
func TestTheClientHasAMethodForEachOperation(t *testing.T) {
	require.Equal(t, len(flow.Operations)+2, reflect.TypeFor[*calls.FlowCalls]().NumMethod(), "and Lock, which waits, and Watch")
	require.Equal(t, len(token.Operations), reflect.TypeFor[*calls.AuthCalls]().NumMethod())
	require.Equal(t, len(audit.Operations), reflect.TypeFor[*calls.AuditCalls]().NumMethod())
	require.Equal(t, len(review.Operations), reflect.TypeFor[*calls.ReviewCalls]().NumMethod())
	require.Equal(t, len(secret.Operations), reflect.TypeFor[*calls.SecretCalls]().NumMethod())
	require.Equal(t, len(history.Operations), reflect.TypeFor[*calls.HistoryCalls]().NumMethod())
	require.Equal(t, len(bench.Operations)+1, reflect.TypeFor[*calls.BenchCalls]().NumMethod(), "and Watch")
}
