package decrypt

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
)

const (
	// maxLogged is of how many connections a Log knows the keys; those of the oldest are
	// forgotten.
	maxLogged = 1 << 18
	// maxLine is the longest line that may have keys, in bytes.
	maxLine = 1 << 10
	// maxSecret is the longest key in it, in bytes: a hash of SHA-384.
	maxSecret = 48
	// readSize is how much of a log is read at once, in bytes.
	readSize = 64 << 10
)

// random is what a client begins with; it names the connection in a key log.
type random [32]byte

// label is the kind of a key.
type label uint8

const (
	master label = iota // of TLS 1.2
	clientHandshake
	serverHandshake
	clientTraffic
	serverTraffic
	labels
)

var labelNames = [labels]string{
	master: "CLIENT_RANDOM", clientHandshake: "CLIENT_HANDSHAKE_TRAFFIC_SECRET", serverHandshake: "SERVER_HANDSHAKE_TRAFFIC_SECRET",
	clientTraffic: "CLIENT_TRAFFIC_SECRET_0", serverTraffic: "SERVER_TRAFFIC_SECRET_0",
}

// secrets are the keys of a connection, by kind.
type secrets [labels][]byte

// Log is a key log.
type Log struct {
	file  io.ReaderAt
	read  int64  // how much of the file
	part  []byte // of a line
	skips bool   // the rest of a line that is too long

	known map[random]*secrets
	order []random // of known, the oldest first
	lines int      // that were whole
}

// Open opens a key log, which may be empty yet: whoever writes it can go on. The file stays
// open for as long as the Log is in use.
func Open(path string) (*Log, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	l := newLog(file)
	l.more()
	if l.lines > 0 && len(l.known) == 0 {
		file.Close()
		return nil, fmt.Errorf("%s is no key log: it has no line such as CLIENT_TRAFFIC_SECRET_0 RANDOM SECRET", path)
	}
	return l, nil
}

func newLog(file io.ReaderAt) *Log { return &Log{file: file, known: map[random]*secrets{}} }

// find returns the keys of a connection, as far as they are in the log.
func (l *Log) find(of random) *secrets {
	l.more()
	return l.known[of]
}

// more reads what has been added. What cannot be read is as good as not written.
func (l *Log) more() {
	buf := make([]byte, readSize)
	for {
		n, err := l.file.ReadAt(buf, l.read)
		l.read += int64(n)
		l.take(buf[:n])
		if n == 0 || (err != nil && !errors.Is(err, io.EOF)) {
			return
		}
	}
}

func (l *Log) take(b []byte) {
	for len(b) > 0 {
		end := bytes.IndexByte(b, '\n')
		if end < 0 {
			if l.skips = l.skips || len(l.part)+len(b) > maxLine; l.skips {
				b, l.part = nil, nil
			}
			l.part = append(l.part, b...)
			return
		}
		if !l.skips && len(l.part)+end <= maxLine {
			l.line(append(l.part, b[:end]...))
		}
		b, l.part, l.skips = b[end+1:], l.part[:0], false
	}
}

// line takes a line; those that have no keys, or none that are needed, mean nothing.
func (l *Log) line(line []byte) {
	fields := bytes.Fields(line)
	if len(fields) > 0 && fields[0][0] != '#' {
		l.lines++
	}
	var of random
	if len(fields) != 3 || len(fields[1]) != hex.EncodedLen(len(of)) || len(fields[2]) > hex.EncodedLen(maxSecret) {
		return
	}
	kind := slices.Index(labelNames[:], string(fields[0]))
	secret := make([]byte, hex.DecodedLen(len(fields[2])))
	_, err := hex.Decode(of[:], fields[1])
	if _, err2 := hex.Decode(secret, fields[2]); kind < 0 || err != nil || err2 != nil || len(secret) == 0 {
		return
	}
	s := l.known[of]
	if s == nil {
		if len(l.order) >= maxLogged {
			delete(l.known, l.order[0])
			l.order = l.order[1:]
		}
		s = new(secrets)
		l.known[of] = s
		l.order = append(l.order, of)
	}
	s[kind] = secret
}
