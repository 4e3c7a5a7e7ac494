package main

import (
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
	events chan tapEvent
	queued atomic.Int64 // bytes in events
	closed atomic.Int64 // connections closed since the server cannot be reached
	status func(format string, args ...any)

	slots chan struct{} // filled by the connections that are forwarded
	all   sync.WaitGroup
}

// tapConn is a connection that is forwarded.
type tapConn struct {
	ends   [2]*net.TCPConn // client's, server's
	addrs  [2]netip.AddrPort
	behind [2]atomic.Int64 // bytes of each direction that were not queued
	synth  *capture.Synth  // the decoder's own
}

// tapEvent is data, or without data the end of a connection if last is set, else its
// beginning.
type tapEvent struct {
	c    *tapConn
	at   int64
	from stream.Dir
	data []byte
	lost int64 // bytes before data
	half bool  // from sends no more
	last bool
}

func runTap(cmd *cobra.Command, o *options, listen, to, write string) error {
	ctx, stop := context.WithCancel(cmd.Context())
	defer stop()
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", listen)
	if err != nil {
		return err
	}
	save, err := saveTo(write, capture.RawIP)
	if err != nil {
		listener.Close()
		return err
	}
	t := &tap{to: to, events: make(chan tapEvent, maxTapEvents+8*maxTapConns), slots: make(chan struct{}, maxTapConns)}
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
	v := newLines(o, cmd.OutOrStdout())
	showErr := t.show(v, save, stop)
	return errors.Join(showErr, <-accepted, save.close())
}

// accept accepts connections until the listener is closed.
func (t *tap) accept(ctx context.Context, listener net.Listener) error {
	for {
		c, err := listener.Accept()
		if ended(ctx) {
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
		if !ended(ctx) && t.closed.Add(1) == 1 {
			t.status("the server cannot be reached; until it can, connections are closed: %v", err)
		}
		return
	}
	if n := t.closed.Swap(0); n > 0 {
		t.status("the server can be reached again; %d connections were closed", n)
	}
	server := dialed.(*net.TCPConn)
	defer server.Close()
	c := &tapConn{ends: [2]*net.TCPConn{client, server}, addrs: [2]netip.AddrPort{endpoint(client.RemoteAddr()), endpoint(server.RemoteAddr())}}
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
	t.events <- tapEvent{c: c, at: time.Now().UnixNano()}
	var both sync.WaitGroup
	both.Go(func() { t.copy(c, stream.FromClient) })
	both.Go(func() { t.copy(c, stream.FromServer) })
	both.Wait()
	t.events <- tapEvent{c: c, at: time.Now().UnixNano(), last: true}
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
			at := time.Now().UnixNano()
			t.queue(c, from, at, buf[:n])
			if _, err := dst.Write(buf[:n]); err != nil {
				// Nobody reads any more, but the other direction may still have data.
				_ = src.CloseRead()
				return
			}
		}
		if err != nil {
			t.events <- tapEvent{c: c, at: time.Now().UnixNano(), from: from, half: true}
			if closeErr := dst.CloseWrite(); closeErr != nil {
				_ = dst.Close()
			}
			return
		}
	}
}

// queue hands a copy of b to the decoder if there is room.
func (t *tap) queue(c *tapConn, from stream.Dir, at int64, b []byte) {
	behind := &c.behind[from]
	if t.queued.Load()+int64(len(b)) > maxTapped || len(t.events) >= maxTapEvents {
		behind.Add(int64(len(b)))
		return
	}
	lost := behind.Swap(0)
	select {
	case t.events <- tapEvent{c: c, at: at, from: from, data: append([]byte(nil), b...), lost: lost}:
		t.queued.Add(int64(len(b)))
	default:
		behind.Add(lost + int64(len(b)))
	}
}

// show decodes events until the channel is closed. It ends the tap when it can no
// longer print.
func (t *tap) show(v *view, save *saver, stop func()) error {
	var saveErr error
	seen := func(rec *capture.Record) error {
		v.packet(rec)
		return save.write(rec)
	}
	for {
		var e tapEvent
		var more bool
		select {
		case e, more = <-t.events:
		default:
			v.flush()
			time.Sleep(tapRest)
			e, more = <-t.events
		}
		if !more {
			v.asm.Finish()
			v.flush()
			return errors.Join(v.err, saveErr)
		}
		t.queued.Add(-int64(len(e.data)))
		if v.err != nil || saveErr != nil {
			stop()
			continue // until all have ended
		}
		saveErr = e.packets(seen)
	}
}

// packets makes packets of what has happened.
func (e *tapEvent) packets(seen func(*capture.Record) error) error {
	c := e.c
	switch {
	case e.last:
		for from := range c.behind {
			c.synth.Lose(from, int(c.behind[from].Swap(0)))
		}
		return c.synth.Close(e.at)
	case e.half:
		return c.synth.End(int(e.from), e.at)
	case c.synth == nil:
		c.synth = capture.NewSynth(c.addrs[0], c.addrs[1], seen)
		return c.synth.Open(e.at)
	}
	c.synth.Lose(int(e.from), int(e.lost))
	return c.synth.Data(int(e.from), e.at, e.data)
}
