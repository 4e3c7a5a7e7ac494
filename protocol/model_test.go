package protocol_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/access/audit"
	"confcenter/access/review"
	"confcenter/access/secret"
	"confcenter/access/token"
	"confcenter/confstore/history"
	"confcenter/models/bench"
	"confcenter/models/flow"
	"confcenter/op"
	"confcenter/protocol"
)

// The rows are written from the tables. An operation that is missing has no command yet.
func TestEveryOperationOfAModelHasItsCommand(t *testing.T) {
	rows := 0
	for model, operations := range map[string][]op.Operation{"flow": flow.Operations, "bench": bench.Operations, "history": history.Operations, "auth": token.Operations, "audit": audit.Operations, "review": review.Operations, "secret": secret.Operations} {
		for place, o := range operations {
			row := protocol.Lookup(protocol.OfModel(model, place))
			require.NotNil(t, row, "%s %s: run go generate ./internal/generate/...", model, o.Name)
			require.Equal(t, protocol.PrefixOf(model)+strings.ToUpper(strings.ReplaceAll(o.Name, "-", "")), row.Name)
			require.Equal(t, o.Right, row.Right, row.Name)
			var members []string
			for _, m := range op.MembersOf(o.Question()) {
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
