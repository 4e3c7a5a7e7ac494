package audit

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"confcenter/codes"
)

const (
	// priority is that of facility 10, about security, and severity 5, a notice.
	priority = 10<<3 | 5
	// syslogTimeout is how long connecting and each write may take.
	syslogTimeout = 5 * time.Second
)

// Syslog is a Sink of messages of RFC 5424, whose text is the line. Over TCP each has its length
// before it, as RFC 6587 says; there and on a socket it cannot tell what has arrived.
type Syslog struct {
	// set at open
	network, address, host string

	conn net.Conn
	text []byte
}

// ParseSyslog reads where messages go: a path of a unix socket, udp:HOST:PORT or tcp:HOST:PORT.
// codes.BadRequest.
func ParseSyslog(text string) (*Syslog, error) {
	s := &Syslog{network: "unix", address: text}
	if network, address, ok := strings.Cut(text, ":"); ok && (network == "udp" || network == "tcp") {
		s.network, s.address = network, address
		if _, port, err := net.SplitHostPort(address); err != nil || port == "" {
			return nil, codes.Errorf(codes.BadRequest, "%.100q: write udp:HOST:PORT or tcp:HOST:PORT", text)
		}
	} else if !filepath.IsAbs(text) {
		return nil, codes.Errorf(codes.BadRequest, "%.100q: write udp:HOST:PORT, tcp:HOST:PORT or the path of a socket, such as /dev/log", text)
	}
	s.host, _ = os.Hostname()
	if s.host == "" || strings.ContainsAny(s.host, " \n") {
		s.host = "-"
	}
	return s, nil
}

// Name implements Sink.
func (s *Syslog) Name() string { return "syslog" }

// Last implements Sink: syslog cannot tell.
func (s *Syslog) Last() (Head, error) { return Head{}, nil }

// Write implements Sink.
func (s *Syslog) Write(b Block) error {
	if err := s.connect(); err != nil {
		return err
	}
	if err := s.conn.SetWriteDeadline(time.Now().Add(syslogTimeout)); err != nil {
		return err
	}
	for line := range bytes.Lines(b.Lines) {
		if err := s.send(bytes.TrimSuffix(line, []byte("\n"))); err != nil {
			_ = s.Close()
			return err
		}
	}
	return nil
}

func (s *Syslog) send(line []byte) error {
	l, err := ParseLine(line)
	if err != nil {
		return err
	}
	message := fmt.Appendf(s.text[:0], "<%d>1 %s %s confcenter %d audit - ", priority, time.UnixMilli(l.Time).UTC().Format("2006-01-02T15:04:05.000Z"), s.host, os.Getpid())
	message = append(message, line...)
	s.text = message
	switch s.conn.RemoteAddr().Network() {
	case "unix":
		message = append(message, '\n')
	case "tcp":
		message = append(append(strconv.AppendInt(nil, int64(len(message)), 10), ' '), message...)
	}
	_, err = s.conn.Write(message)
	return err
}

// connect dials unless that is done. A unix socket takes either packets or a stream.
func (s *Syslog) connect() (err error) {
	if s.conn != nil {
		return nil
	}
	networks := []string{s.network}
	if s.network == "unix" {
		networks = []string{"unixgram", "unix"}
	}
	for _, network := range networks {
		if s.conn, err = net.DialTimeout(network, s.address, syslogTimeout); err == nil {
			return nil
		}
	}
	return err
}

// Settle implements Sink.
func (s *Syslog) Settle() error { return nil }

// Close implements Sink.
func (s *Syslog) Close() error {
	if s.conn == nil {
		return nil
	}
	err := s.conn.Close()
	s.conn = nil
	return err
}
