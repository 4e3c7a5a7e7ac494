package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"confcenter/tools/ccdump/capture"
	"confcenter/tools/ccdump/stream"
)

const (
	// tapBuffer is how much one direction of a connection reads at once, in bytes.
	tapBuffer = 64 << 10
	// maxTapped is how many bytes may wait to be decoded. Beyond it they are still
	// forwarded, and shown as lost: watching must not slow what is watched.
	maxTapped = 32 << 20
	// maxTapEvents is the same in pieces. There is extra room for the beginnings and
	// ends of connections, which are never left out.
	maxTapEvents = 1 << 14
	// maxTapConns is how many connections are forwarded at a time.
	maxTapConns = 4096
	dialTimeout = 10 * time.Second
	// tapRest is how long the decoder rests once it has caught up: it then takes
	// everything since in one go, and leaves the core to the forwarding.
	tapRest = time.Millisecond
	// acceptRest is how long accepting pauses when descriptors have run out.
	acceptRest = 100 * time.Millisecond
)

func newTap() *cobra.Command {
	var o options
	var listen, to, write string
	cmd := &cobra.Command{
		Use:   "tap",
		Short: "Forward connections to a server and print each frame; needs no privileges",
		Long: `Listen, forward every connection to the server, and print what both sides say.
Give programs the tap's address instead of the server's. The tap forwards bytes
unchanged, and forwarding never waits for printing.`,
		Example: `  ccdump tap --listen :4900 --to 127.0.0.1:4800
  ccdump tap --to 127.0.0.1:4800 --write odd.pcapng --body none`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkServer(to); err != nil {
				return err
			}
			return runTap(cmd, &o, listen, to, write)
		},
	}
	o.bind(cmd)
	f := cmd.Flags()
	f.StringVarP(&listen, "listen", "l", "127.0.0.1:4900", "address to listen on")
	f.StringVarP(&to, "to", "t", "127.0.0.1:4800", "server to forward connections to")
	f.StringVar(&write, "write", "", "also write the traffic to this file, as packets in pcapng")
	return cmd
}

// tap forwards connections and reports what it saw.
type tap struct {
	to     string
	events chan func() error           // each makes packets of what has happened
	seen   func(*capture.Record) error // takes them
	queued atomic.Int64                // bytes in events
	closed atomic.Int64                // connections closed since the server cannot be reached
	status func(format string, args ...any)

	slots chan struct{} // filled by the connections that are forwarded
	all   sync.WaitGroup
}

// tapConn is a connection that is forwarded.
type tapConn struct {
	ends   [2]*net.TCPConn // client's, server's
	behind [2]atomic.Int64 // bytes of each direction that were not queued
	synth  *capture.Synth  // for events only
}

func runTap(cmd *cobra.Command, o *options, listen, to, write string) error {
	ctx, stop := context.WithCancel(cmd.Context())
	defer stop()
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", listen)
	if err != nil {
		return err
	}
	save, closeFile, err := saveTo(write, capture.RawIP)
	if err != nil {
		listener.Close()
		return err
	}
	t := &tap{to: to, events: make(chan func() error, maxTapEvents+8*maxTapConns), slots: make(chan struct{}, maxTapConns)}
	v := newLines(o, cmd.OutOrStdout())
	t.seen = func(rec *capture.Record) error {
		v.packet(rec)
		return save(rec)
	}
	t.status = func(format string, args ...any) {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s\n", cmd.CommandPath(), fmt.Sprintf(format, args...))
	}
	t.status("listening on %v for %s; interrupt to end", listener.Addr(), to)
	context.AfterFunc(ctx, func() { listener.Close() })
	accepted := make(chan error, 1)
	go func() {
		accepted <- t.accept(ctx, listener)
		stop()
		t.all.Wait()
		close(t.events)
	}()
	showErr := t.show(v, stop)
	return errors.Join(showErr, <-accepted, closeFile())
}

// accept accepts connections until the listener is closed.
func (t *tap) accept(ctx context.Context, listener net.Listener) error {
	for {
		c, err := listener.Accept()
		if ctx.Err() != nil {
			if err == nil {
				c.Close()
			}
			return nil
		}
		if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ECONNABORTED) {
			t.status("accepting pauses: %v", err)
			time.Sleep(acceptRest)
			continue
		}
		if err != nil {
			return err
		}
		t.all.Go(func() { t.pass(ctx, c.(*net.TCPConn)) })
	}
}

// pass is the life of one connection.
func (t *tap) pass(ctx context.Context, client *net.TCPConn) {
	defer client.Close()
	dialed, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "tcp", t.to)
	if err != nil {
		// Programs keep trying; one line says as much as a thousand.
		if ctx.Err() == nil && t.closed.Add(1) == 1 {
			t.status("the server cannot be reached; until it can, connections are closed: %v", err)
		}
		return
	}
	if n := t.closed.Swap(0); n > 0 {
		t.status("the server can be reached again; %d connections were closed", n)
	}
	server := dialed.(*net.TCPConn)
	defer server.Close()
	c := &tapConn{ends: [2]*net.TCPConn{client, server}, synth: capture.NewSynth(endpoint(client.RemoteAddr()), endpoint(server.RemoteAddr()), t.seen)}
	select {
	case t.slots <- struct{}{}:
	default:
		t.status("%v is turned away: %d connections are forwarded already", client.RemoteAddr(), maxTapConns)
		return
	}
	defer func() { <-t.slots }()
	unhook := context.AfterFunc(ctx, func() {
		client.Close()
		server.Close()
	})
	defer unhook()
	begun := time.Now().UnixNano()
	t.events <- func() error { return c.synth.Open(begun) }
	var both sync.WaitGroup
	both.Go(func() { t.copy(c, stream.FromClient) })
	both.Go(func() { t.copy(c, stream.FromServer) })
	both.Wait()
	over := time.Now().UnixNano()
	t.events <- func() error {
		for from := range c.behind {
			c.synth.Lose(from, int(c.behind[from].Swap(0)))
		}
		return c.synth.Close(over)
	}
}

// endpoint converts a to the form that addresses have in packets.
func endpoint(a net.Addr) netip.AddrPort {
	addr := a.(*net.TCPAddr).AddrPort()
	return netip.AddrPortFrom(addr.Addr().Unmap().WithZone(""), addr.Port())
}

// copy forwards one direction. It queues bytes for the decoder before it forwards them,
// so that their answer cannot overtake them there.
func (t *tap) copy(c *tapConn, from stream.Dir) {
	src, dst := c.ends[from], c.ends[from.Other()]
	buf := make([]byte, tapBuffer)
	for {
		n, err := src.Read(buf)
		if n > 0 {
			t.queue(c, int(from), buf[:n])
			if _, err := dst.Write(buf[:n]); err != nil {
				// No one reads any more, but the other direction may still have data.
				_ = src.CloseRead()
				return
			}
		}
		if err != nil {
			over := time.Now().UnixNano()
			t.events <- func() error { return c.synth.End(int(from), over) }
			if closeErr := dst.CloseWrite(); closeErr != nil {
				_ = dst.Close()
			}
			return
		}
	}
}

// queue hands a copy of b to the decoder if there is room.
func (t *tap) queue(c *tapConn, from int, b []byte) {
	n := int64(len(b))
	if t.queued.Load()+n > maxTapped || len(t.events) >= maxTapEvents {
		c.behind[from].Add(n)
		return
	}
	at, lost, b := time.Now().UnixNano(), int(c.behind[from].Swap(0)), bytes.Clone(b)
	t.queued.Add(n)
	t.events <- func() error {
		t.queued.Add(-n)
		c.synth.Lose(from, lost)
		return c.synth.Data(from, at, b)
	}
}

// show decodes events until the channel is closed. It ends the tap when it can no
// longer print.
func (t *tap) show(v *view, stop func()) (err error) {
	for {
		var happened func() error
		var more bool
		select {
		case happened, more = <-t.events:
		default:
			v.flush()
			time.Sleep(tapRest)
			happened, more = <-t.events
		}
		if !more {
			v.asm.Finish()
			v.flush()
			return errors.Join(v.err, err)
		}
		if v.err != nil || err != nil {
			stop()
			continue // until all have ended
		}
		err = happened()
	}
}
