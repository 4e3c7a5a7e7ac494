package capture

import (
	"encoding/binary"
	"fmt"
	"net/netip"
)

// Segment is a TCP segment.
type Segment struct {
	At       int64 // ns since 1970
	Src, Dst netip.AddrPort
	Seq, Ack uint32
	Flags    Flags
	// Payload aliases the record.
	Payload []byte
	// Missing is how many bytes of the payload are not in the capture.
	Missing int
}

// Flags are the flags of a TCP header.
type Flags uint8

// The flags that ccdump looks at.
const (
	FIN Flags = 1 << 0
	SYN Flags = 1 << 1
	RST Flags = 1 << 2
	ACK Flags = 1 << 4
)

// Has reports whether f contains one.
func (f Flags) Has(one Flags) bool { return f&one != 0 }

// Reason says why a record is not a TCP segment; 0 means that it is one.
type Reason uint8

// The reasons.
const (
	UnknownLink Reason = iota + 1
	NotIP
	NotTCP
	Fragment
	Encrypted
	TooShort
	Reasons // one more than there are
)

var reasonTexts = [...]string{
	UnknownLink: "of a link type that ccdump does not know",
	NotIP:       "not IP",
	NotTCP:      "not TCP",
	Fragment:    "IP fragments, which ccdump does not reassemble; capture where packets are whole",
	Encrypted:   "encrypted by IPsec",
	TooShort:    "cut off in their headers, or with impossible lengths",
}

func (r Reason) String() string {
	if int(r) < len(reasonTexts) {
		return reasonTexts[r]
	}
	return fmt.Sprintf("reason %d", uint8(r))
}

// The link types that ccdump understands.
const (
	// Ethernet is the link type of most captures.
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

// header says how long a link header is and where it names the protocol, below 0 if
// it does not.
func (l Link) header() (size, kind int, known bool) {
	switch l {
	case linkEthernet:
		return 14, 12, true
	case linkSLL:
		return 16, 14, true
	case linkSLL2:
		return 20, 0, true
	case linkNull, linkLoop:
		// An address family, whose numbers and byte order depend on the capturing
		// machine; the packet itself says what it is.
		return 4, -1, true
	case linkRaw, linkRawBSD, linkRawOpen, linkIPv4, linkIPv6:
		return 0, -1, true
	}
	return 0, 0, false
}

// Decode fills s from a record. Unless it returns 0, the rest of s is undefined.
// Checksums are ignored: network cards compute them after the capture.
func (s *Segment) Decode(rec *Record) Reason {
	s.At = rec.At
	cut := max(rec.Length-len(rec.Data), 0)
	size, kind, known := rec.Link.header()
	switch {
	case !known:
		return UnknownLink
	case len(rec.Data) < size:
		return TooShort
	case kind < 0:
		return s.ip(rec.Data[size:], cut)
	}
	return s.ether(binary.BigEndian.Uint16(rec.Data[kind:]), rec.Data[size:], cut)
}

// ether decodes what follows a link header that names a protocol.
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
	return s.tcp(netip.AddrFrom4([4]byte(b[12:])), netip.AddrFrom4([4]byte(b[16:])), b[header:], cut)
}

// within cuts off the padding behind a packet of total bytes, or says how many of
// them are missing.
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
	src, dst := netip.AddrFrom16([16]byte(b[8:])), netip.AddrFrom16([16]byte(b[24:]))
	next, b := b[6], b[40:]
	for range maxExtensions {
		unit := 0 // of the length behind the first 8 bytes
		switch next {
		case protoTCP:
			return s.tcp(src.Unmap(), dst.Unmap(), b, cut)
		case protoHopByHop, protoRouting, protoOptions, protoMobility:
			unit = 8
		case protoAuth:
			unit = 4
		case protoFragment:
		default:
			return notTCP(next)
		}
		if len(b) < 8 || len(b) < 8+int(b[1])*unit {
			return TooShort
		}
		if next == protoFragment && binary.BigEndian.Uint16(b[2:])&0xfff9 != 0 { // an offset, or more fragments
			return Fragment
		}
		next, b = b[0], b[8+int(b[1])*unit:]
	}
	return TooShort
}

func (s *Segment) tcp(src, dst netip.Addr, b []byte, cut int) Reason {
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
	s.Src = netip.AddrPortFrom(src, binary.BigEndian.Uint16(b))
	s.Dst = netip.AddrPortFrom(dst, binary.BigEndian.Uint16(b[2:]))
	s.Seq, s.Ack = binary.BigEndian.Uint32(b[4:]), binary.BigEndian.Uint32(b[8:])
	s.Flags = Flags(b[13])
	s.Payload, s.Missing = b[header:], cut
	return 0
}
