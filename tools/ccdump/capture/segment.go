package capture

import (
	"encoding/binary"
	"fmt"
	"net/netip"
)

// Endpoint is an address and a port. An IPv4 address stands in it as IPv6 maps it.
type Endpoint struct {
	IP   [16]byte
	Port uint16
}

// EndpointOf is addr as an Endpoint.
func EndpointOf(addr netip.AddrPort) Endpoint {
	return Endpoint{IP: addr.Addr().As16(), Port: addr.Port()}
}

// AddrPort is the endpoint as the standard library has it.
func (e Endpoint) AddrPort() netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom16(e.IP).Unmap(), e.Port)
}

// String is ADDRESS:PORT.
func (e Endpoint) String() string { return e.AddrPort().String() }

// Segment is a TCP segment.
type Segment struct {
	At       int64 // ns since 1970
	Src, Dst Endpoint
	Seq, Ack uint32
	Flags    Flags
	// Payload aliases the record.
	Payload []byte
	// Missing is how many bytes of the payload the capture does not have.
	Missing int
}

// Flags are those of a TCP header.
type Flags uint8

// The flags that matter here.
const (
	FIN Flags = 1 << 0
	SYN Flags = 1 << 1
	RST Flags = 1 << 2
	ACK Flags = 1 << 4
)

// Has says that f is set.
func (f Flags) Has(one Flags) bool { return f&one != 0 }

// Reason is why a record is no TCP segment. 0 is none.
type Reason uint8

// The reasons.
const (
	UnknownLink Reason = iota + 1
	NotIP
	NotTCP
	Fragment
	Encrypted
	TooShort
	Reasons // how many there are, and one
)

var reasonTexts = [...]string{
	UnknownLink: "of a link type that ccdump does not know",
	NotIP:       "not IP",
	NotTCP:      "not TCP",
	Fragment:    "IP fragments, which ccdump does not put together; capture where they are still or again whole",
	Encrypted:   "encrypted by IPsec",
	TooShort:    "cut off within their headers, or with impossible lengths in them",
}

func (r Reason) String() string {
	if int(r) < len(reasonTexts) {
		return reasonTexts[r]
	}
	return fmt.Sprintf("reason %d", uint8(r))
}

// The link types that are understood.
const (
	// Ethernet is what most captures consist of.
	Ethernet = linkEthernet

	linkNull     Link = 0
	linkEthernet Link = 1
	linkRawBSD   Link = 12
	linkRawOpen  Link = 14
	linkRaw      Link = 101
	linkLoop     Link = 108
	linkSLL      Link = 113
	linkIPv4     Link = 228
	linkIPv6     Link = 229
	linkSLL2     Link = 276
)

const (
	etherIPv4 = 0x0800
	etherIPv6 = 0x86DD
	etherVLAN = 0x8100
	etherQinQ = 0x88A8
	etherOld  = 0x9100

	protoTCP      = 6
	protoHopByHop = 0
	protoRouting  = 43
	protoFragment = 44
	protoESP      = 50
	protoAuth     = 51
	protoOptions  = 60
	protoMobility = 135
)

// Decode fills s from a record. Unless the reason is 0 the rest of s means nothing.
// Checksums are not looked at: network cards make them after the capture.
func (s *Segment) Decode(rec *Record) Reason {
	s.At = rec.At
	cut := max(rec.Length-len(rec.Data), 0)
	b := rec.Data
	switch rec.Link {
	case linkEthernet:
		if len(b) < 14 {
			return TooShort
		}
		return s.ether(binary.BigEndian.Uint16(b[12:]), b[14:], cut)
	case linkSLL:
		if len(b) < 16 {
			return TooShort
		}
		return s.ether(binary.BigEndian.Uint16(b[14:]), b[16:], cut)
	case linkSLL2:
		if len(b) < 20 {
			return TooShort
		}
		return s.ether(binary.BigEndian.Uint16(b), b[20:], cut)
	case linkNull, linkLoop:
		// Four bytes of an address family whose numbers and byte order are the
		// capturing machine's; the packet says itself what it is.
		if len(b) < 4 {
			return TooShort
		}
		return s.ip(b[4:], cut)
	case linkRaw, linkRawBSD, linkRawOpen, linkIPv4, linkIPv6:
		return s.ip(b, cut)
	}
	return UnknownLink
}

// ether goes on behind a link header that names a protocol.
func (s *Segment) ether(kind uint16, b []byte, cut int) Reason {
	for kind == etherVLAN || kind == etherQinQ || kind == etherOld {
		if len(b) < 4 {
			return TooShort
		}
		kind, b = binary.BigEndian.Uint16(b[2:]), b[4:]
	}
	if kind != etherIPv4 && kind != etherIPv6 {
		return NotIP
	}
	return s.ip(b, cut)
}

func (s *Segment) ip(b []byte, cut int) Reason {
	if len(b) == 0 {
		return TooShort
	}
	switch b[0] >> 4 {
	case 4:
		return s.ipv4(b, cut)
	case 6:
		return s.ipv6(b, cut)
	}
	return NotIP
}

var mapped = [12]byte{10: 0xff, 11: 0xff}

func (s *Segment) ipv4(b []byte, cut int) Reason {
	header := int(b[0]&0xf) * 4
	if header < 20 || len(b) < header {
		return TooShort
	}
	if binary.BigEndian.Uint16(b[6:])&0x3fff != 0 { // more fragments, or an offset
		return Fragment
	}
	if b[9] != protoTCP {
		return notTCP(b[9])
	}
	// Cards that cut large segments themselves leave the length 0.
	if total := int(binary.BigEndian.Uint16(b[2:])); total != 0 {
		if total < header {
			return TooShort
		}
		b, cut = within(b, total)
	}
	copy(s.Src.IP[:], mapped[:])
	copy(s.Dst.IP[:], mapped[:])
	copy(s.Src.IP[12:], b[12:16])
	copy(s.Dst.IP[12:], b[16:20])
	return s.tcp(b[header:], cut)
}

// within cuts padding behind a packet of total bytes off, or says how many of them
// are missing.
func within(b []byte, total int) (packet []byte, missing int) {
	if total <= len(b) {
		return b[:total], 0
	}
	return b, total - len(b)
}

func notTCP(proto byte) Reason {
	if proto == protoESP {
		return Encrypted
	}
	return NotTCP
}

// maxExtensions bounds the chain of IPv6 extension headers.
const maxExtensions = 16

func (s *Segment) ipv6(b []byte, cut int) Reason {
	if len(b) < 40 {
		return TooShort
	}
	if length := int(binary.BigEndian.Uint16(b[4:])); length != 0 { // 0: a jumbogram
		b, cut = within(b, 40+length)
	}
	copy(s.Src.IP[:], b[8:24])
	copy(s.Dst.IP[:], b[24:40])
	next, b := b[6], b[40:]
	for range maxExtensions {
		size := 0
		switch next {
		case protoTCP:
			return s.tcp(b, cut)
		case protoFragment:
			if len(b) < 8 {
				return TooShort
			}
			if binary.BigEndian.Uint16(b[2:])&0xfff9 != 0 { // an offset, or more fragments
				return Fragment
			}
			size = 8
		case protoHopByHop, protoRouting, protoOptions, protoMobility:
			if len(b) < 2 {
				return TooShort
			}
			size = 8 + int(b[1])*8
		case protoAuth:
			if len(b) < 2 {
				return TooShort
			}
			size = 8 + int(b[1])*4
		default:
			return notTCP(next)
		}
		if len(b) < size {
			return TooShort
		}
		next, b = b[0], b[size:]
	}
	return TooShort
}

func (s *Segment) tcp(b []byte, cut int) Reason {
	if len(b) < 20 {
		return TooShort
	}
	header := int(b[12]>>4) * 4
	if header < 20 {
		return TooShort
	}
	if len(b) < header { // only options are missing
		cut -= header - len(b)
		if cut < 0 {
			return TooShort
		}
		header = len(b)
	}
	s.Src.Port, s.Dst.Port = binary.BigEndian.Uint16(b), binary.BigEndian.Uint16(b[2:])
	s.Seq, s.Ack = binary.BigEndian.Uint32(b[4:]), binary.BigEndian.Uint32(b[8:])
	s.Flags = Flags(b[13])
	s.Payload, s.Missing = b[header:], cut
	return 0
}
