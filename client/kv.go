package client

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
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
	stats, err := ask(ctx, c, protocol.KVStat, append(begin(protocol.KVStat), "{}"...), protocol.ParseKVStats)
	return stats, during(err, "store stats")
}

// begin begins the frame of a request.
func begin(cmd protocol.Command) []byte { return protocol.BeginFrame(nil, cmd, 0) }

// ask sends a request that changes nothing, repeatedly if necessary, and parses the
// reply. frame is not finished yet.
func ask[T any](ctx context.Context, c *Client, cmd protocol.Command, frame []byte, parse func(body []byte) (T, error)) (T, error) {
	body, err := c.ask(ctx, cmd, frame)
	return answer(body, err, parse)
}

// answer parses a reply, if there is one.
func answer[T any](body []byte, err error, parse func(body []byte) (T, error)) (none T, _ error) {
	if err != nil {
		return none, err
	}
	found, err := parse(body)
	if err != nil {
		return none, unreadable(err)
	}
	return found, nil
}

// ask returns the reply's body.
func (c *Client) ask(ctx context.Context, cmd protocol.Command, frame []byte) ([]byte, error) {
	ctx, end := c.observe(ctx, cmd)
	frame = protocol.FinishFrame(frame, 0)
	for {
		body, err := []byte(nil), c.awaitState(ctx)
		if err == nil {
			body, _, err = c.try(ctx, cmd, frame, true)
		}
		if !lost(err) || !c.cfg.StateWaits {
			end(body, err)
			return body, err
		}
	}
}

// awaitState waits for a connection if Config.StateWaits is set.
func (c *Client) awaitState(ctx context.Context) error {
	if !c.cfg.StateWaits {
		return nil
	}
	_, err := c.awaitSession(ctx, nil, true)
	return err
}

// resend determines what happens to a write whose connection is lost.
type resend uint8

const (
	never    resend = iota // it fails: the server may have executed it
	again                  // it is sent again
	stubborn               // it is sent again, and waits for a server even the first time
)

// insist sends a write and returns the reply's body. If the write may be sent again, and
// may have reached a server, insist waits for the next connection within ctx and
// Config.RequestTimeout. repeated reports whether it was sent again. frame is not
// finished yet.
func (c *Client) insist(ctx context.Context, cmd protocol.Command, frame []byte, how resend) (body []byte, repeated bool, err error) {
	ctx, end := c.observe(ctx, cmd)
	defer func() { end(body, err) }()
	frame = protocol.FinishFrame(frame, 0)
	waits := c.cfg.StateWaits && how != stubborn
	if waits {
		if err := c.awaitState(ctx); err != nil {
			return nil, false, err
		}
	}
	timer := c.cfg.Clock.NewTimer(c.cfg.RequestTimeout)
	defer timer.Stop()
	if err := c.takeTurn(ctx, timer.C()); err != nil {
		return nil, false, err
	}
	defer c.giveTurn()
	for {
		if waits {
			if err := c.awaitState(ctx); err != nil {
				return nil, repeated, unknownOutcome(err, repeated)
			}
			timer.Reset(c.cfg.RequestTimeout)
		}
		sess, err := c.awaitSession(ctx, timer.C(), repeated || how == stubborn)
		if err != nil {
			return nil, repeated, unknownOutcome(err, repeated)
		}
		body, err := sess.conn.request(ctx, timer.C(), cmd, frame)
		sent := !SafeToRetry(err)
		if !lost(err) || (sent && how == never) {
			return body, repeated, unknownOutcome(err, repeated)
		}
		repeated = repeated || sent
	}
}

// unknownOutcome returns err. If the request is repeated it marks err as sent: an earlier
// attempt may have reached a server.
func unknownOutcome(err error, repeated bool) error {
	var r *requestError
	if !repeated || !errors.As(err, &r) {
		return err
	}
	again := *r
	again.sent = true
	return &again
}

// resendable is again if ok, otherwise never.
func resendable(ok bool) resend {
	if ok {
		return again
	}
	return never
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

func (t *tokenSource) next() string {
	return t.prefix + strconv.FormatUint(t.count.Add(1), 36)
}
