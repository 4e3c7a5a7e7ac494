// Package statetest runs the tests of a model on both kinds of store, the embedded one and a
// client's connection to a real server, and by the commands of a server that has the model.
package statetest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/client"
	"confcenter/clienttest"
	"confcenter/state"
	"confcenter/state/host"
	"confcenter/state/remote"
)

// Patience is how long tests wait for what must happen.
const Patience = time.Minute

// A Bed is a store to run a model on, of a server that ends with the test.
type Bed struct {
	state.Store
	// Server is what is behind it, to stop, freeze and restart. After its Restart a near
	// Store is void; call Again.
	Server *clienttest.Server
	// NS is a namespace that the store may write to.
	NS string

	// Wire says that the models of the server are to be asked. The Store is its own, to look
	// into.
	Wire bool

	near bool
}

// Each runs test on an embedded store and over the wire, as subtests. With the race detector and
// without the tag soak it runs on the embedded one alone, and EachWay with a Wire alone, so that
// there is an answer in a minute.
func Each(t *testing.T, test func(t *testing.T, b *Bed)) {
	t.Helper()
	for _, near := range stores {
		name := "far"
		if near {
			name = "near"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := &Bed{Server: clienttest.Start(t, clienttest.Options{}), NS: "model", near: near}
			b.Store = b.Again(t)
			test(t, b)
		})
	}
}

// EachWay runs test as Each does, and a third time with a Wire to the models of a
// server, which has them with that configuration.
func EachWay(t *testing.T, models host.Config, test func(t *testing.T, b *Bed)) {
	t.Helper()
	if !onlyWire {
		Each(t, test)
	}
	t.Run("wire", func(t *testing.T) {
		t.Parallel()
		b := &Bed{Server: clienttest.Start(t, clienttest.Options{Models: models}), NS: models.Bench.NS, near: true, Wire: true}
		b.Store = b.Again(t)
		test(t, b)
	})
}

// Again opens another store of the same kind, as another program would.
func (b *Bed) Again(t testing.TB) state.Store {
	t.Helper()
	if b.near {
		store := state.Embed(b.Server.State, nil)
		t.Cleanup(store.Close)
		return store
	}
	return remote.Store(b.Dial(t))
}

// Dial connects a client, another one each time.
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
