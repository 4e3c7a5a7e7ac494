package client_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/client/calls"
	"confcenter/clienttest"
	"confcenter/codes"
	"confcenter/models/flow"
)

// A write whose answer is lost is sent again on the next connection, and done once.
func TestACallIsSentAgainAndDoneOnce(t *testing.T) {
	srv, c := real(t, clienttest.Options{})
	model := calls.Flow(c)
	ask := &flow.RegisterAsk{App: "A", Parts: []flow.Part{{Key: "sess.S"}, {Key: "flow.F", Parent: "sess.S"}, {Key: "node.N", Parent: "flow.F"}}}
	_, err := model.Register(t.Context(), ask)
	require.NoError(t, err)
	require.Empty(t, ask.Token, "the caller's question stays as it is")
	_, err = model.Register(t.Context(), ask)
	require.Error(t, err, "each call has a token of its own: the application is there already")

	const rounds = 20
	for range rounds {
		var cut sync.WaitGroup
		cut.Go(srv.Cut)
		_, err := model.Count(t.Context(), &flow.CountAsk{Key: "node.N", Count: 1})
		require.NoError(t, err)
		cut.Wait()
	}
	got, err := model.Count(t.Context(), &flow.CountAsk{Key: "node.N"})
	require.NoError(t, err)
	require.EqualValues(t, rounds, got.Count)
}

func TestACallIsRefusedWithTheServersCode(t *testing.T) {
	_, c := real(t, clienttest.Options{})
	_, err := calls.Flow(c).Show(t.Context(), &flow.ShowAsk{Key: "node.N"})
	require.Equal(t, codes.NotFound, codes.Of(err))
	require.ErrorContains(t, err, "there is no node.N")
	_, err = calls.Flow(c).Show(t.Context(), nil)
	require.Equal(t, codes.BadKey, codes.Of(err), "nil asks for nothing: %v", err)
	_, err = calls.Flow(c).Register(t.Context(), nil)
	require.Error(t, err)
}
