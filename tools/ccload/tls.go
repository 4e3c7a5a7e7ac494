package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"confcenter/protocol"
)

// security has the flags of TLS.
type security struct {
	on            bool
	ca, cert, key string
}

func (s *security) bind(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&s.on, "tls", false, "connect with TLS")
	f.StringVar(&s.ca, "tls-ca", "", "PEM file of the authorities that the server's certificate must come from; implies --tls")
	f.StringVar(&s.cert, "client-cert", "", "PEM file of a certificate for servers that ask for one; implies --tls")
	f.StringVar(&s.key, "client-key", "", "PEM file of its key")
}

// config is nil without TLS.
func (s *security) config() (*tls.Config, error) {
	if !s.on && s.ca == "" && s.cert == "" {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if s.ca != "" {
		text, err := os.ReadFile(s.ca)
		if err != nil {
			return nil, err
		}
		if c.RootCAs = x509.NewCertPool(); !c.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s has no certificate in PEM", s.ca)
		}
	}
	if s.cert != "" || s.key != "" {
		pair, err := tls.LoadX509KeyPair(s.cert, s.key)
		if err != nil {
			return nil, err
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// wire is what a connection's TLS reads and writes: the socket of net for the handshake,
// then that of the loop, which does not wait.
type wire struct {
	net.Conn
	of *conn // nil: the handshake
}

// Read implements net.Conn. What crypto/tls takes for temporary says that there is nothing
// yet.
func (w *wire) Read(p []byte) (int, error) {
	if w.of == nil {
		return w.Conn.Read(p)
	}
	n, err := readNow(w.of.fd, p)
	switch {
	case err == unix.EAGAIN || err == unix.EINTR:
		return 0, os.ErrDeadlineExceeded
	case err == nil && n == 0:
		return 0, io.EOF
	}
	return n, err
}

// Write implements net.Conn.
func (w *wire) Write(p []byte) (int, error) {
	if w.of == nil {
		return w.Conn.Write(p)
	}
	w.of.send(p)
	return len(p), nil
}

// secure makes TLS of a new connection.
func (l *loop) secure(w *wire, addr string) (*tls.Conn, error) {
	cfg := l.tls
	if cfg.ServerName == "" {
		host, _, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, err
		}
		cfg = cfg.Clone()
		cfg.ServerName = host
	}
	c := tls.Client(w, cfg)
	if err := c.HandshakeContext(l.ctx); err != nil {
		return nil, fmt.Errorf("TLS: %w", err)
	}
	return c, nil
}

// fill reads what there is, up to len(p): of TLS all of it, since epoll knows nothing of what
// has been read and not been decrypted.
func (c *conn) fill(p []byte) (n int, err error) {
	if c.tls == nil {
		return readNow(c.fd, p)
	}
	for n < len(p) && err == nil {
		var k int
		k, err = c.tls.Read(p[n:])
		n += k
	}
	switch {
	case n > 0:
		return n, nil // the error comes again
	case errors.Is(err, os.ErrDeadlineExceeded):
		return 0, unix.EAGAIN
	case errors.Is(err, io.EOF):
		return 0, nil
	}
	return 0, err
}

// serveSecure is serveCeiling with nothing but crypto/tls: a goroutine for each connection,
// which answers what one read has brought in one write.
func serveSecure(ctx context.Context, addr string, size int, pair tls.Certificate, booted func()) error {
	ln, err := tls.Listen("tcp", addr, &tls.Config{Certificates: []tls.Certificate{pair}, SessionTicketsDisabled: true, DynamicRecordSizingDisabled: true})
	if err != nil {
		return err
	}
	var all sync.WaitGroup
	defer all.Wait()
	stop := context.AfterFunc(ctx, func() { _ = ln.Close() })
	defer stop()
	booted()
	for {
		c, err := ln.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		all.Go(func() {
			defer c.Close()
			defer context.AfterFunc(ctx, func() { _ = c.Close() })()
			answerBarely(c, ceilingAnswers(size))
		})
	}
}

// answerBarely answers frames until the peer has gone.
func answerBarely(c io.ReadWriter, answers map[protocol.Command][]byte) {
	in, out, kept := make([]byte, 64<<10), []byte(nil), 0
	for {
		n, err := c.Read(in[kept:])
		if err != nil {
			return
		}
		rest := in[:kept+n]
		for out = out[:0]; len(rest) >= protocol.HeaderSize; {
			h, err := protocol.ParseHeader(rest)
			if end := protocol.HeaderSize + int(h.BodyLen); err != nil || len(rest) < end {
				break
			} else {
				rest = rest[end:]
			}
			start := len(out)
			if out = append(out, answers[h.Command]...); len(out) > start {
				protocol.SetSeq(out[start:], h.Seq)
			}
		}
		kept = copy(in, rest)
		if _, err := c.Write(out); err != nil {
			return
		}
	}
}
