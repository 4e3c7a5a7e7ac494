package capture

import (
	"errors"
	"net/netip"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
)

// Synth makes the packets of a connection from bytes that were not captured as
// packets: what a tap has forwarded, or what a test made up. They are raw IP, without
// checksums.
type Synth struct {
	ends [2]netip.AddrPort // client, server
	next [2]uint32         // sequence numbers
	done [2]bool           // says no more
	emit func(*Record) error
	buf  gopacket.SerializeBuffer
}

// synthSegment is the most payload a packet gets, as on the loopback interface.
const synthSegment = 32 << 10

// NewSynth gives each packet to emit, which must not keep it.
func NewSynth(client, server netip.AddrPort, emit func(*Record) error) *Synth {
	return &Synth{ends: [2]netip.AddrPort{client, server}, emit: emit, buf: gopacket.NewSerializeBuffer()}
}

// Open makes the handshake.
func (s *Synth) Open(at int64) error {
	s.next = [2]uint32{uint32(at >> 10), uint32(at >> 20)} // another connection between the same ports has others
	if err := s.packet(0, at, layers.TCP{SYN: true}, nil); err != nil {
		return err
	}
	s.next[0]++
	if err := s.packet(1, at, layers.TCP{SYN: true, ACK: true}, nil); err != nil {
		return err
	}
	s.next[1]++
	return s.packet(0, at, layers.TCP{ACK: true}, nil)
}

// Data makes the packets for bytes that one side sends; 0 is the client.
func (s *Synth) Data(from int, at int64, b []byte) error {
	for len(b) > 0 {
		n := min(len(b), synthSegment)
		if err := s.packet(from, at, layers.TCP{ACK: true}, b[:n]); err != nil {
			return err
		}
		s.next[from] += uint32(n)
		b = b[n:]
	}
	return nil
}

// Lose leaves n bytes out.
func (s *Synth) Lose(from int, n int) { s.next[from] += uint32(n) }

// End makes the packet by which a side says that it sends no more.
func (s *Synth) End(from int, at int64) error {
	if s.done[from] {
		return nil
	}
	s.done[from] = true
	err := s.packet(from, at, layers.TCP{FIN: true, ACK: true}, nil)
	s.next[from]++
	return err
}

// Close ends the connection.
func (s *Synth) Close(at int64) error { return errors.Join(s.End(0, at), s.End(1, at)) }

func (s *Synth) packet(from int, at int64, tcp layers.TCP, payload []byte) error {
	src, dst := s.ends[from], s.ends[1-from]
	tcp.SrcPort, tcp.DstPort = layers.TCPPort(src.Port()), layers.TCPPort(dst.Port())
	tcp.Seq, tcp.Ack, tcp.Window = s.next[from], s.next[1-from], 0xffff
	var ip gopacket.SerializableLayer
	if src.Addr().Is4() && dst.Addr().Is4() {
		ip = &layers.IPv4{Version: 4, TTL: 64, Protocol: layers.IPProtocolTCP, SrcIP: src.Addr().AsSlice(), DstIP: dst.Addr().AsSlice()}
	} else {
		from, to := src.Addr().As16(), dst.Addr().As16()
		ip = &layers.IPv6{Version: 6, HopLimit: 64, NextHeader: layers.IPProtocolTCP, SrcIP: from[:], DstIP: to[:]}
	}
	if err := gopacket.SerializeLayers(s.buf, gopacket.SerializeOptions{FixLengths: true}, ip, &tcp, gopacket.Payload(payload)); err != nil {
		return err
	}
	b := s.buf.Bytes()
	return s.emit(&Record{At: at, Data: b, Length: len(b), Link: RawIP})
}
