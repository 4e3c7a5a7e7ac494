// Package modeltest runs the tests of a model where the model is, and by the commands of a server
// that has it.
package modeltest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/client"
	"confcenter/clienttest"
	"confcenter/kv/embedded"
	"confcenter/kvstore/memory"
	"confcenter/server/host"
)

// Patience is how long tests wait for what must happen.
const Patience = time.Minute

// A Bed is a store to run a model on: one of its own, or that of a server which has the models.
type Bed struct {
	// Store is a model's store, and State what it is made of. Restart replaces both.
	embedded.Store
	State *memory.Store

	// Server is asked for its models. Nil: the test runs them, and nothing else does.
	Server *clienttest.Server
}

// Each runs test with a store of its own, as a subtest.
func Each(t *testing.T, test func(t *testing.T, b *Bed)) {
	t.Helper()
	t.Run("near", func(t *testing.T) {
		t.Parallel()
		b := &Bed{State: memory.New(memory.Config{})}
		t.Cleanup(func() { require.NoError(t, b.State.Close()) })
		b.Store = b.Again(t)
		test(t, b)
	})
}

// EachWay runs test as Each and as Wire do.
func EachWay(t *testing.T, models host.Config, test func(t *testing.T, b *Bed)) {
	t.Helper()
	Each(t, test)
	Wire(t, models, test)
}

// Wire runs test with a server, whose models have that configuration, as a subtest.
func Wire(t *testing.T, models host.Config, test func(t *testing.T, b *Bed)) {
	t.Helper()
	t.Run("wire", func(t *testing.T) {
		t.Parallel()
		b := &Bed{Server: clienttest.Start(t, clienttest.Options{Models: models})}
		b.State = b.Server.State.(*memory.Store)
		b.Store = b.Again(t)
		test(t, b)
	})
}

// Wire says that the models of a server are to be asked.
func (b *Bed) Wire() bool { return b.Server != nil }

// Again opens another Store of the same.
func (b *Bed) Again(t testing.TB) embedded.Store {
	t.Helper()
	store := embedded.New(b.State, nil)
	t.Cleanup(store.Close)
	return store
}

// Restart ends what runs on the store and begins with what was acknowledged.
func (b *Bed) Restart(t testing.TB) {
	t.Helper()
	if b.Wire() {
		b.Server.Restart()
		b.State = b.Server.State.(*memory.Store)
	} else {
		require.NoError(t, b.State.Close())
		b.State = b.State.Clone()
	}
	b.Store = b.Again(t)
}

// Dial connects a client to the server, another one each time.
func (b *Bed) Dial(t testing.TB) *client.Client {
	t.Helper()
	c, err := client.Dial(Context(t), client.Config{Addrs: []string{b.Server.Address()}, Name: "model", RequestTimeout: Patience})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// Context ends with the test, or with its Patience.
func Context(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	t.Cleanup(cancel)
	return ctx
}
