package main

import (
	"bufio"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/protocol"
)

// fakeWriter is the server's end of a connection to a fake server.
type fakeWriter struct{ conn net.Conn }

func (w *fakeWriter) reply(h protocol.Header, body string) {
	w.frame(h.Command.Reply(), h.Seq, body)
}

func (w *fakeWriter) frame(cmd protocol.Command, seq uint16, body string) {
	w.raw(protocol.AppendFrame(nil, cmd, seq, []byte(body)))
}

func (w *fakeWriter) raw(p []byte) { _, _ = w.conn.Write(p) }

// serveFake answers WHOAMI and gives every other frame to handle. It returns its
// address and ends with the test.
func serveFake(t *testing.T, handle func(w *fakeWriter, h protocol.Header, body []byte)) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var wg sync.WaitGroup
	var mu sync.Mutex
	var conns []net.Conn
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, c)
			mu.Unlock()
			wg.Go(func() { serveFakeConn(c, handle) })
		}
	})
	t.Cleanup(func() {
		ln.Close()
		mu.Lock()
		for _, c := range conns {
			c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return ln.Addr().String()
}

func serveFakeConn(c net.Conn, handle func(w *fakeWriter, h protocol.Header, body []byte)) {
	defer c.Close()
	in, w := bufio.NewReader(c), &fakeWriter{conn: c}
	head := make([]byte, protocol.HeaderSize)
	for {
		if _, err := io.ReadFull(in, head); err != nil {
			return
		}
		h, err := protocol.ParseHeader(head)
		if err != nil {
			return
		}
		body := make([]byte, h.BodyLen)
		if _, err := io.ReadFull(in, body); err != nil {
			return
		}
		if h.Command == protocol.Whoami {
			w.reply(h, `{"code":0,"svrid":2001}`)
			continue
		}
		handle(w, h, body)
	}
}
