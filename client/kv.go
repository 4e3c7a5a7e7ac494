package client

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strconv"
	"sync/atomic"

	"confcenter/kv"
	"confcenter/protocol"
)

// KV is one namespace of the state store: typed, durable, revisioned values
// under keys, on the client's one connection.
//
//	s := c.KV("jobs")
//	s.PutString(ctx, "owner", "ann", client.WithTTL(time.Minute))
//	n, err := s.Incr(ctx, "done", 1)
//	l, err := s.Lock(ctx, "leader", 10*time.Second)                      // kept alive, fenced
//	s.PutJSON(ctx, "plan", plan, client.WithFence(l))                    // refused once l is lost
//	for n, err := range w.Events(ctx) { … }                              // w, err := s.Watch(ctx, client.WatchOptions{Prefix: "task/"})
//
// Every method may be called from any goroutine; concurrent requests share the
// connection and wait for each other only on the wire. An error from a server carries
// its code: errors.Is(err, codes.NotFound), codes.Of(err).
//
// Each write carries its own token. If the connection breaks before the answer, the
// write is sent again on the next connection, and the token ensures that it is
// applied once. The client gives up when ctx or Config.RequestTimeout ends. The error
// is then codes.Timeout or ErrUnreachable, and unless SafeToRetry says otherwise it
// is not known whether the write happened. See WithToken. Requests fail at once while
// there is no connection, unless Config.StateWaits is set.
//
// wide: each request about a namespace is a method.
type KV struct {
	c      *Client
	ns     string
	reveal bool
}

// KV returns the namespace of that name. Nothing is sent; a namespace exists while it
// has keys. If the name is not allowed, each method refuses it.
func (c *Client) KV(namespace string) *KV { return &KV{c: c, ns: namespace} }

// Revealing is the same namespace with sealed values, as far as the program may know them: everything that
// it reads, watches and caches, and what writes tell of before. They have the types that they were
// sealed with. Everywhere else marks stand in their place, of type json.
func (s *KV) Revealing() *KV { return &KV{s.c, s.ns, true} }

// Namespace is the namespace's name.
func (s *KV) Namespace() string { return s.ns }

// Namespaces lists the namespaces that have keys, in the order of their names. Very
// many namespaces are read in several pages, and other clients may write in between.
func (c *Client) Namespaces(ctx context.Context) ([]kv.Namespace, error) {
	var all []kv.Namespace
	for after := ""; ; {
		page, err := say[protocol.KVNamespaces](ctx, c, protocol.KVNames, &protocol.KVNamesQuery{After: after})
		if err != nil {
			return nil, fmt.Errorf("namespaces: %w", err)
		}
		all = append(all, page.Namespaces...)
		if !page.More || len(page.Namespaces) == 0 {
			return all, nil
		}
		after = all[len(all)-1].Name
	}
}

// StoreStats returns the statistics of the server's state store.
func (c *Client) StoreStats(ctx context.Context) (kv.Stats, error) {
	stats, err := ask(ctx, c, protocol.KVStat, append(begin(protocol.KVStat), "{}"...), asking, protocol.ParseKVStats)
	return stats, during(err, "store stats")
}

// tokenSource makes tokens for writes without one: a random prefix for the client and a
// counter.
type tokenSource struct {
	prefix string
	count  atomic.Uint64
}

func newTokenSource() *tokenSource {
	var random [12]byte
	_, _ = rand.Read(random[:]) // it never fails
	return &tokenSource{prefix: hex.EncodeToString(random[:]) + "."}
}

func (t *tokenSource) next() string { return t.prefix + strconv.FormatUint(t.count.Add(1), 36) }
