package protocol

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
)

// The header, big-endian: version u8, header length u8, body length u32,
// command u16, sequence u16.
const (
	// HeaderSize is the length of a header in bytes, and the only value its
	// second byte may have.
	HeaderSize = 10
	// Version is what we send in the first byte. It is ignored on receipt, because peers
	// send anything.
	Version = 1
	// MaxBody is the largest body any command accepts, in bytes.
	MaxBody = 4 << 20
	// MaxAnonymousBody is the largest body accepted from a connection that has
	// not identified itself, in bytes.
	MaxAnonymousBody = 64 << 10
)

// Header is a frame's header without its constant parts.
type Header struct {
	Command Command
	Seq     uint16
	// BodyLen is the length that the peer announced, in bytes. Compare it with a limit
	// before allocating anything.
	BodyLen uint32
}

// HeaderError reports a second byte that is not HeaderSize: the stream is not
// this protocol, or has lost its place, and cannot be read any further.
type HeaderError struct {
	Got uint8
	// HTTP tells that the other side speaks HTTP: the ports were mixed up.
	HTTP bool
}

func (e *HeaderError) Error() string {
	if e.HTTP {
		return "the other side speaks HTTP; programs and the command line use the TCP port (--listen, 4800), browsers and curl the HTTP port (--http, 8080)"
	}
	return fmt.Sprintf("header length is %d, must be %d", e.Got, HeaderSize)
}

// CommandOf is the command of the frame at the front of b, which has the header at least, unless
// ParseHeader refuses it.
func CommandOf(b []byte) Command { return Command(binary.BigEndian.Uint16(b[6:])) }

// ParseHeader reads the first HeaderSize bytes of b, which must be there. The
// only error is a *HeaderError.
func ParseHeader(b []byte) (Header, error) {
	_ = b[HeaderSize-1]
	if b[1] != HeaderSize {
		http := slices.ContainsFunc(httpBegins, func(begin []byte) bool { return bytes.HasPrefix(b, begin) })
		return Header{}, &HeaderError{Got: b[1], HTTP: http}
	}
	return Header{
		BodyLen: binary.BigEndian.Uint32(b[2:]),
		Command: CommandOf(b),
		Seq:     binary.BigEndian.Uint16(b[8:]),
	}, nil
}

// httpBegins are the beginnings of HTTP's requests and answers.
var httpBegins = [][]byte{[]byte("HTTP/"), []byte("GET "), []byte("PUT "), []byte("POST "), []byte("HEAD "), []byte("PATCH "), []byte("DELETE "), []byte("OPTIONS "), []byte("PRI * ")}

// AppendHeader appends the header of a frame whose body is bodyLen bytes long.
func AppendHeader(dst []byte, cmd Command, seq uint16, bodyLen int) []byte {
	n := uint32(bodyLen)
	return append(dst, Version, HeaderSize, byte(n>>24), byte(n>>16), byte(n>>8), byte(n),
		byte(cmd>>8), byte(cmd), byte(seq>>8), byte(seq))
}

// AppendFrame appends a whole frame.
func AppendFrame(dst []byte, cmd Command, seq uint16, body []byte) []byte {
	return append(AppendHeader(dst, cmd, seq, len(body)), body...)
}

// BeginFrame appends a header without the body length. Append the body next, then call
// FinishFrame with the length that dst had before.
func BeginFrame(dst []byte, cmd Command, seq uint16) []byte {
	return AppendHeader(dst, cmd, seq, 0)
}

// FinishFrame closes the frame that BeginFrame began at offset start.
func FinishFrame(buf []byte, start int) []byte {
	SetBodyLen(buf[start:], len(buf)-start-HeaderSize)
	return buf
}

// SetBodyLen overwrites the body length of the frame that starts at frame[0],
// for a body that is sent from elsewhere.
func SetBodyLen(frame []byte, n int) {
	binary.BigEndian.PutUint32(frame[2:], uint32(n))
}

// SetSeq overwrites the sequence of the frame that starts at frame[0]: a
// broadcast is encoded once and numbered for each receiver.
func SetSeq(frame []byte, seq uint16) {
	binary.BigEndian.PutUint16(frame[8:], seq)
}
