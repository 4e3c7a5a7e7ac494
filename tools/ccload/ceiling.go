package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/panjf2000/gnet/v2"
	"github.com/panjf2000/gnet/v2/pkg/logging"
	"github.com/spf13/cobra"

	"confcenter/kv"
	"confcenter/protocol"
)

// ceilingConfig is what the bare server answers with.
type ceilingConfig struct {
	Listen    string // host:port; port 0 takes a free one
	ReplySize int    // body of the reply to a GETCONFIG or KVGET, in bytes
	PushName  string // file that a SETCONFIG tells all subscribers about
}

// ceiling is a gnet server that looks at nothing but headers: every answer is
// ready-made bytes with the sequence of its request. What a real server reaches
// is compared with it, because both pay for the same system calls. It has one
// event loop, which owns every field below.
type ceiling struct {
	gnet.BuiltinEventEngine

	// set at open
	engine gnet.Engine
	addr   net.Addr
	booted chan error
	ended  chan error

	// event loop only
	answer      map[protocol.Command][]byte // what is ready-made, by the request's id
	push        []byte
	out         []byte
	subscribers []gnet.Conn
}

// startCeiling returns when the server is listening. The caller stops it.
func startCeiling(cfg ceilingConfig) (*ceiling, error) {
	s := &ceiling{
		booted: make(chan error, 1),
		ended:  make(chan error, 1),
		answer: ceilingAnswers(cfg.ReplySize),
		push: protocol.AppendFrame(nil, protocol.EvNotify, 0,
			protocol.AppendChange(nil, protocol.Change{File: cfg.PushName, Mtime: 1700000000})),
	}
	go func() {
		err := gnet.Run(s, "tcp://"+cfg.Listen,
			gnet.WithNumEventLoop(1),
			gnet.WithTCPNoDelay(gnet.TCPNoDelay),
			gnet.WithReuseAddr(true),
			gnet.WithLogger(silent{}))
		s.ended <- err
		// If it never got as far as listening, this is the answer to that.
		select {
		case s.booted <- fmt.Errorf("listen on %s: %w", cfg.Listen, errors.Join(err, errNotBooted)):
		default:
		}
	}()
	if err := <-s.booted; err != nil {
		return nil, err
	}
	return s, nil
}

var errNotBooted = errors.New("the server did not start")

// ceilingAnswers are the frames for each request that is answered at all.
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

// stop ends the server; it takes gnet up to half a second.
func (s *ceiling) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := s.engine.Stop(ctx); err != nil {
		return err
	}
	return <-s.ended
}

// OnBoot finds the port that was taken.
func (s *ceiling) OnBoot(e gnet.Engine) gnet.Action {
	s.engine = e
	fd, err := e.Dup()
	if err == nil {
		s.addr, err = boundAddr(fd)
	}
	s.booted <- err
	if err != nil {
		return gnet.Shutdown
	}
	return gnet.None
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

// OnTraffic answers every complete frame, all of them in one write.
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
		// Backwards, because a write that fails removes its subscriber.
		for i := len(s.subscribers) - 1; i >= 0; i-- {
			_, _ = s.subscribers[i].Write(s.push)
		}
	}
	start := len(s.out)
	s.out = append(s.out, frame...)
	protocol.SetSeq(s.out[start:], h.Seq)
}

// silent is a gnet logger that says nothing: what matters is returned.
type silent struct{}

var _ logging.Logger = silent{}

func (silent) Debugf(string, ...any) {}
func (silent) Infof(string, ...any)  {}
func (silent) Warnf(string, ...any)  {}
func (silent) Errorf(string, ...any) {}
func (silent) Fatalf(string, ...any) {}

func newCeiling() *cobra.Command {
	cfg := ceilingConfig{Listen: "127.0.0.1:4801", ReplySize: replySize, PushName: pushName}
	cmd := &cobra.Command{
		Use:   "ceiling",
		Short: "Serve ready-made bytes, to measure what the machine can give at most",
		Long: `Serve ready-made bytes from one event loop: WHOAMI, GETCONFIG, KVGET, SETCONFIG
and BOOKCFGCHANGE are answered with code 0 whatever they say, and each SETCONFIG
writes one push to every connection that has sent a BOOKCFGCHANGE.`,
		Example: `  taskset -c 0 ccload ceiling --reply-size 280 &
  taskset -c 1 ccload get --addr 127.0.0.1:4801 --depth 16`,
		Args: exactArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := startCeiling(cfg)
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "listening on %s\n", s.addr)
			select {
			case <-cmd.Context().Done():
				return s.stop()
			case err := <-s.ended:
				return fmt.Errorf("the engine ended by itself: %w", errors.Join(err, errNotBooted))
			}
		},
	}
	f := cmd.Flags()
	f.StringVarP(&cfg.Listen, "listen", "l", cfg.Listen, "address; port 0 takes a free one")
	f.IntVar(&cfg.ReplySize, "reply-size", cfg.ReplySize, "body of the reply to a GETCONFIG or KVGET, in bytes")
	f.StringVar(&cfg.PushName, "push-name", cfg.PushName, "file that pushes speak of")
	return cmd
}
