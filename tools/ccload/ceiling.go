package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/panjf2000/gnet/v2"
	"github.com/spf13/cobra"

	"confcenter/kv"
	"confcenter/protocol"
)

// ceiling is a gnet server that reads only headers: every answer is ready-made bytes
// with the sequence of its request. Real servers are compared with it, because both pay
// for the same system calls. It has one event loop, which owns every field below.
type ceiling struct {
	gnet.BuiltinEventEngine
	boot        func(gnet.Engine)
	answer      map[protocol.Command][]byte // what is ready-made, by the request's id
	push        []byte
	out         []byte
	subscribers []gnet.Conn
}

var errEnded = errors.New("the engine ended by itself")

// serveCeiling serves addr until ctx ends and answers GETCONFIG and KVGET with bodies
// of size bytes. It calls booted once it listens. gnet takes up to half a second to
// stop.
func serveCeiling(ctx context.Context, addr string, size int, booted func()) error {
	stopped := make(chan error, 1)
	s := &ceiling{
		answer: ceilingAnswers(size),
		push: protocol.AppendFrame(nil, protocol.EvNotify, 0,
			protocol.AppendChange(nil, protocol.Change{File: pushName, Mtime: 1700000000})),
		boot: func(e gnet.Engine) {
			booted()
			context.AfterFunc(ctx, func() { stopped <- e.Stop(context.Background()) })
		},
	}
	err := gnet.Run(s, "tcp://"+addr,
		gnet.WithNumEventLoop(1),
		gnet.WithTCPNoDelay(gnet.TCPNoDelay),
		gnet.WithReuseAddr(true),
		gnet.WithLogger(silent{}))
	switch {
	case err != nil:
		return fmt.Errorf("listen on %s: %w", addr, err)
	case ctx.Err() == nil:
		return errEnded
	}
	return <-stopped
}

// OnBoot announces that the server listens.
func (s *ceiling) OnBoot(e gnet.Engine) gnet.Action {
	s.boot(e)
	return gnet.None
}

// ceilingAnswers has a frame for each request that is answered.
func ceilingAnswers(size int) map[protocol.Command][]byte {
	start := protocol.AppendConfigStart(nil, 1700000000, []byte(`"f00000.json"`))
	pad := max(0, size-len(start)-len(`""`)-len(protocol.ConfigEnd))
	document := string(start) + `"` + strings.Repeat("x", pad) + `"` + protocol.ConfigEnd
	bodies := map[protocol.Command][]byte{
		protocol.Whoami:        protocol.AppendIdentified(nil, 2001, "", ""),
		protocol.GetConfig:     []byte(document),
		protocol.KVGet:         kvDocument(size),
		protocol.SetConfig:     protocol.AppendConfigUpdated(nil, 0, 1700000000, "success"),
		protocol.BookCfgChange: protocol.AppendSubscribed(nil, 1700000000, "monitor"),
	}
	frames := make(map[protocol.Command][]byte, len(bodies))
	for cmd, body := range bodies {
		frames[cmd] = protocol.AppendFrame(nil, cmd.Reply(), 0, body)
	}
	return frames
}

// kvDocument is the reply to a KVGET.
func kvDocument(size int) []byte {
	entry := kv.Entry{NS: kvNamespace, Key: kvKey(0), Create: 1, Mod: 1, Version: 1, Updated: 1_700_000_000_000}
	answer := func(value string) []byte {
		entry.Value = kv.StringValue(value)
		return protocol.AppendKVGot(nil, 1, &entry, false)
	}
	return answer(strings.Repeat("x", max(0, size-len(answer("")))))
}

// OnClose forgets a subscriber.
func (s *ceiling) OnClose(c gnet.Conn, _ error) gnet.Action {
	i, ok := c.Context().(int)
	if !ok {
		return gnet.None
	}
	last := len(s.subscribers) - 1
	s.subscribers[i] = s.subscribers[last]
	s.subscribers[i].SetContext(i)
	s.subscribers = s.subscribers[:last]
	return gnet.None
}

// OnTraffic answers every complete frame, all in one write.
func (s *ceiling) OnTraffic(c gnet.Conn) gnet.Action {
	in, _ := c.Peek(-1)
	s.out = s.out[:0]
	used := 0
	for len(in)-used >= protocol.HeaderSize {
		h, err := protocol.ParseHeader(in[used:])
		if err != nil || h.BodyLen > protocol.MaxBody {
			return gnet.Close
		}
		end := used + protocol.HeaderSize + int(h.BodyLen)
		if end > len(in) {
			break
		}
		used = end
		s.serve(c, h)
	}
	if used > 0 { // Discard(0) would drop everything
		_, _ = c.Discard(used)
	}
	if len(s.out) > 0 {
		_, _ = c.Write(s.out)
	}
	return gnet.None
}

func (s *ceiling) serve(c gnet.Conn, h protocol.Header) {
	frame := s.answer[h.Command]
	if frame == nil {
		return
	}
	switch h.Command {
	case protocol.BookCfgChange:
		if c.Context() == nil {
			c.SetContext(len(s.subscribers))
			s.subscribers = append(s.subscribers, c)
		}
	case protocol.SetConfig:
		// Backwards, because a failing write removes its subscriber.
		for i := len(s.subscribers) - 1; i >= 0; i-- {
			_, _ = s.subscribers[i].Write(s.push)
		}
	}
	start := len(s.out)
	s.out = append(s.out, frame...)
	protocol.SetSeq(s.out[start:], h.Seq)
}

// silent is a gnet logger that drops everything: errors that matter are returned.
type silent struct{}

func (silent) Debugf(string, ...any) {}
func (silent) Infof(string, ...any)  {}
func (silent) Warnf(string, ...any)  {}
func (silent) Errorf(string, ...any) {}
func (silent) Fatalf(string, ...any) {}

// bareHandler reads any request and always gives the same answer, so it costs only what
// net/http itself does. Real handlers are compared with it.
func bareHandler(reply []byte) http.HandlerFunc {
	contentType, noSniff := []string{"application/json"}, []string{"nosniff"}
	return func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return // the peer is gone
		}
		h := w.Header()
		h["Content-Type"], h["X-Content-Type-Options"] = contentType, noSniff
		_, _ = w.Write(reply)
	}
}

// serveBare serves HTTP on addr with a fixed reply until ctx ends.
func serveBare(ctx context.Context, addr string, reply []byte, booted func()) error {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	s := &http.Server{Handler: bareHandler(reply)}
	closed := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() { closed <- s.Close() })
	defer stop()
	booted()
	if err := s.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-closed
}

func newCeiling() *cobra.Command {
	var addr, web string
	var size int
	var secure security
	cmd := &cobra.Command{
		Use:   "ceiling",
		Short: "Serve ready-made bytes, to measure what the machine can give at most",
		Long: `Serve ready-made bytes from one event loop: WHOAMI, GETCONFIG, KVGET, SETCONFIG
and BOOKCFGCHANGE are answered with code 0 whatever they say, and each SETCONFIG
writes one push to every connection that has sent a BOOKCFGCHANGE. With --http
every HTTP request is answered with that body instead.`,
		Example: `  taskset -c 0 ccload ceiling --reply-size 280 &
  taskset -c 1 ccload get --addr 127.0.0.1:4801 --depth 16`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			booted := func() { fmt.Fprintf(cmd.OutOrStdout(), "listening on %s\n", addr) }
			if web != "" {
				return serveBare(cmd.Context(), addr, []byte(web), booted)
			}
			if secure.cert != "" {
				pair, err := tls.LoadX509KeyPair(secure.cert, secure.key)
				if err != nil {
					return err
				}
				return serveSecure(cmd.Context(), addr, size, pair, booted)
			}
			return serveCeiling(cmd.Context(), addr, size, booted)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&addr, "listen", "l", "127.0.0.1:4801", "address")
	f.IntVar(&size, "reply-size", replySize, "body of the reply to a GETCONFIG or KVGET, in bytes")
	f.StringVar(&secure.cert, "tls-cert", "", "speak TLS with the certificate in this PEM file, from a goroutine for each connection, without pushes")
	f.StringVar(&secure.key, "tls-key", "", "PEM file of its key")
	f.StringVar(&web, "http", "", "speak HTTP and answer everything with this body")
	return cmd
}
