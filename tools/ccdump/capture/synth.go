package capture

import (
	"encoding/binary"
	"net/netip"
)

// Synth makes the packets of a connection from bytes that were not captured as
// packets: what a tap has forwarded, or what a test made up. They are raw IP, without
// checksums.
type Synth struct {
	ends [2]netip.AddrPort // client, server
	next [2]uint32         // sequence numbers
	emit func(*Record) error
	buf  []byte
}

// RawIP is the link type of the packets that Synth makes.
const RawIP = linkRaw

// synthSegment is the most payload a packet gets, as on the loopback interface.
const synthSegment = 32 << 10

// NewSynth gives each packet to emit, which must not keep it.
func NewSynth(client, server netip.AddrPort, emit func(*Record) error) *Synth {
	return &Synth{ends: [2]netip.AddrPort{client, server}, next: [2]uint32{1000, 5000}, emit: emit}
}

// Open makes the handshake.
func (s *Synth) Open(at int64) error {
	if err := s.packet(0, at, SYN, nil); err != nil {
		return err
	}
	s.next[0]++
	if err := s.packet(1, at, SYN|ACK, nil); err != nil {
		return err
	}
	s.next[1]++
	return s.packet(0, at, ACK, nil)
}

// Data makes the packets for bytes that one side sends; 0 is the client.
func (s *Synth) Data(from int, at int64, b []byte) error {
	for len(b) > 0 {
		n := min(len(b), synthSegment)
		if err := s.packet(from, at, ACK, b[:n]); err != nil {
			return err
		}
		s.next[from] += uint32(n)
		b = b[n:]
	}
	return nil
}

// Lose leaves n bytes out.
func (s *Synth) Lose(from int, n int) { s.next[from] += uint32(n) }

// Close makes the packets that end the connection.
func (s *Synth) Close(at int64) error {
	for from := range s.ends {
		if err := s.packet(from, at, FIN|ACK, nil); err != nil {
			return err
		}
		s.next[from]++
	}
	return nil
}

func (s *Synth) packet(from int, at int64, flags Flags, payload []byte) error {
	src, dst := s.ends[from], s.ends[1-from]
	b := appendIP(s.buf[:0], src.Addr(), dst.Addr(), 20+len(payload))
	b = binary.BigEndian.AppendUint16(b, src.Port())
	b = binary.BigEndian.AppendUint16(b, dst.Port())
	b = binary.BigEndian.AppendUint32(b, s.next[from])
	b = binary.BigEndian.AppendUint32(b, s.next[1-from])
	b = append(b, 5<<4, byte(flags), 0xff, 0xff, 0, 0, 0, 0)
	b = append(b, payload...)
	s.buf = b
	return s.emit(&Record{At: at, Data: b, Length: len(b), Link: linkRaw})
}

func appendIP(b []byte, src, dst netip.Addr, length int) []byte {
	if src.Is4() && dst.Is4() {
		b = append(b, 0x45, 0)
		b = binary.BigEndian.AppendUint16(b, uint16(20+length))
		b = append(b, 0, 0, 0, 0, 64, protoTCP, 0, 0)
		return append(append(b, src.AsSlice()...), dst.AsSlice()...)
	}
	b = append(b, 0x60, 0, 0, 0)
	b = binary.BigEndian.AppendUint16(b, uint16(length))
	b = append(b, protoTCP, 64)
	from, to := src.As16(), dst.As16()
	return append(append(b, from[:]...), to[:]...)
}
