package history_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/access"
	"confcenter/client"
	"confcenter/client/calls"
	"confcenter/clienttest"
	"confcenter/confstore"
	"confcenter/confstore/history"
	"confcenter/internal/jsontext"
	"confcenter/internal/memory"
	"confcenter/internal/roster"
	"confcenter/kv"
)

// kit is a server with documents whose history is asked for, itself or over the wire.
type kit struct {
	asked
	t      testing.TB
	server *clienttest.Server
	ctx    context.Context
}

// each runs test with the history itself and over the wire.
func each(t *testing.T, files map[string]string, test func(t *testing.T, k *kit)) {
	t.Run("near", func(t *testing.T) {
		t.Parallel()
		test(t, near(t, files))
	})
	t.Run("wire", func(t *testing.T) {
		t.Parallel()
		k := near(t, files)
		c, err := client.Dial(k.ctx, client.Config{Addrs: []string{k.server.Address()}, Name: "history", RequestTimeout: 5 * time.Minute})
		require.NoError(t, err)
		defer func() { require.NoError(t, c.Close()) }()
		k.asked = wire{calls.History(c)}
		test(t, k)
	})
}

// near is a server with files whose history is asked in the same process.
func near(t testing.TB, files map[string]string) *kit {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	k := &kit{t: t, server: clienttest.Start(t, clienttest.Options{Files: files}), ctx: ctx}
	k.asked = history.Open(k.server.State.(kv.Archive), history.Config{Documents: k.server.Store, Clients: func(int32, int) ([]roster.Client, int32) { return nil, 0 }})
	return k
}

// set writes a document; nil contents delete it.
func (k *kit) set(req confstore.SetRequest) {
	k.t.Helper()
	done := make(chan error, 1)
	require.NoError(k.t, k.server.Store.Set(req, func(_ confstore.SetResult, err error) { done <- err }))
	require.NoError(k.t, <-done)
}

// write has a document hold exactly text; "-" deletes it.
func (k *kit) write(name, text string) {
	k.t.Helper()
	req := confstore.SetRequest{Name: name, Exact: true}
	if text != "-" {
		req.Contents = []byte(text)
		if jsontext.Twice(req.Contents) != nil { // which only what was in service may be
			req.Actor = &access.Actor{Origin: access.Rollback}
		}
	}
	k.set(req)
}

// log is what the log of a name answers.
func (k *kit) log(name string) *history.LogAnswer {
	k.t.Helper()
	answer, err := k.Log(k.ctx, nil, &history.LogAsk{Name: name})
	require.NoError(k.t, err)
	return answer
}

// limited is the history with so much memory.
func (k *kit) limited(bytes int64) (*history.History, *memory.Pool) {
	pool := memory.NewPool(bytes)
	return history.Open(k.server.State.(kv.Archive), history.Config{Memory: pool}), pool
}
