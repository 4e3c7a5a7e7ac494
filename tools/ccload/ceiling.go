package main

import (
	"context"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/panjf2000/gnet/v2"
	"github.com/spf13/cobra"

	"confcenter/protocol"
)

// ceiling is a gnet server that reads only headers: every answer is ready-made bytes
// with the sequence of its request. Real servers are compared with it, because both pay
// for the same system calls. It has one event loop, which owns every field below.
type ceiling struct {
	gnet.BuiltinEventEngine
	answer      map[protocol.Command][]byte // what is ready-made, by the request's id
	push        []byte
	out         []byte
	subscribers map[gnet.Conn]bool
}

func newCeilingServer(size int) *ceiling {
	const begin, end = `{"code":0,"x":"`, `"}`
	body := []byte(begin + strings.Repeat("x", max(0, size-len(begin+end))) + end)
	s := &ceiling{answer: map[protocol.Command][]byte{}, subscribers: map[gnet.Conn]bool{}}
	for _, cmd := range []protocol.Command{protocol.Whoami, protocol.GetConfig, protocol.KVGet, protocol.SetConfig, protocol.BookCfgChange} {
		s.answer[cmd] = protocol.AppendFrame(nil, cmd.Reply(), 0, body)
	}
	s.push = protocol.AppendFrame(nil, protocol.EvNotify, 0, protocol.AppendChange(nil, protocol.Change{File: pushName, Mtime: 1700000000}))
	return s
}

// OnTraffic answers every complete frame, all in one write.
func (s *ceiling) OnTraffic(c gnet.Conn) gnet.Action {
	in, _ := c.Peek(-1)
	s.out = s.out[:0]
	used := 0
	for len(in)-used >= protocol.HeaderSize {
		h, err := protocol.ParseHeader(in[used:])
		if err != nil {
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
		_, _ = c.Write(s.out)
	}
	return gnet.None
}

// OnClose drops a subscriber: gnet may give its connection to the next peer.
func (s *ceiling) OnClose(c gnet.Conn, _ error) gnet.Action {
	delete(s.subscribers, c)
	return gnet.None
}

// serve answers one request.
func (s *ceiling) serve(c gnet.Conn, h protocol.Header) {
	switch h.Command {
	case protocol.BookCfgChange:
		s.subscribers[c] = true
	case protocol.SetConfig:
		for one := range s.subscribers {
			_, _ = one.Write(s.push)
		}
	}
	if frame := s.answer[h.Command]; frame != nil {
		s.out = append(s.out, frame...)
		protocol.SetSeq(s.out[len(s.out)-len(frame):], h.Seq)
	}
}

// bareHandler reads any request and always gives the same answer, so it costs only what
// net/http itself does. Real handlers are compared with it.
func bareHandler(reply []byte) http.HandlerFunc {
	contentType, noSniff := []string{"application/json"}, []string{"nosniff"}
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		h := w.Header()
		h["Content-Type"], h["X-Content-Type-Options"] = contentType, noSniff
		_, _ = w.Write(reply)
	}
}

func newCeiling() *cobra.Command {
	var addr, web string
	var size int
	cmd := &cobra.Command{
		Use:   "ceiling",
		Short: "Serve ready-made bytes, to measure what the machine can give at most",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			context.AfterFunc(cmd.Context(), func() { os.Exit(0) })
			if web != "" {
				return http.ListenAndServe(addr, bareHandler([]byte(web)))
			}
			return gnet.Run(newCeilingServer(size), "tcp://"+addr, gnet.WithNumEventLoop(1), gnet.WithTCPNoDelay(gnet.TCPNoDelay), gnet.WithReuseAddr(true))
		},
	}
	f := cmd.Flags()
	f.StringVar(&addr, "listen", "127.0.0.1:4801", "address")
	f.IntVar(&size, "reply-size", replySize, "body of each reply, in bytes")
	f.StringVar(&web, "http", "", "speak HTTP and answer everything with this body")
	return cmd
}
