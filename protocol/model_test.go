package protocol_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/protocol"
	"confcenter/state"
	"confcenter/state/audit"
	"confcenter/state/auth"
	"confcenter/state/bench"
	"confcenter/state/flow"
	"confcenter/state/history"
	"confcenter/state/review"
	"confcenter/state/secret"
)

// The rows are written from the tables. An operation that is missing has no command yet.
func TestEveryOperationOfAModelHasItsCommand(t *testing.T) {
	rows := 0
	for model, operations := range map[string][]state.Operation{"flow": flow.Operations, "bench": bench.Operations, "history": history.Operations, "auth": auth.Operations, "audit": audit.Operations, "review": review.Operations, "secret": secret.Operations} {
		for place, o := range operations {
			row := protocol.Lookup(protocol.OfModel(model, place))
			require.NotNil(t, row, "%s %s: run go generate ./internal/generate/...", model, o.Name)
			require.Equal(t, protocol.PrefixOf(model)+strings.ToUpper(strings.ReplaceAll(o.Name, "-", "")), row.Name)
			require.Equal(t, o.Right, row.Right, row.Name)
			var members []string
			for _, m := range state.MembersOf(o.Question()) {
				members = append(members, m.Name)
			}
			require.Equal(t, strings.Join(members, ", "), row.Request, "%s: run go generate ./internal/generate/...", row.Name)
			rows++
		}
	}
	for _, row := range protocol.Commands {
		if row.ID.Model() != "" {
			rows--
		}
	}
	require.Zero(t, rows, "commands without an operation")
}

func TestAnswersOfModels(t *testing.T) {
	require.Equal(t, `{"code":0}`, string(protocol.AppendAnswer(nil, []byte(`{}`))))
	body := protocol.AppendAnswer(nil, []byte(`{"n":1}`))
	require.Equal(t, `{"code":0,"n":1}`, string(body))
	require.NoError(t, protocol.CheckSuccess(body))
	require.ErrorAs(t, protocol.CheckSuccess([]byte(`{"code":404,"desc":"no"}`)), new(*protocol.RefusedError))
}
