package capture

import (
	"fmt"
	"net"
	"net/netip"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
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

// Decoder finds the TCP segments in records. Checksums are ignored: network cards compute
// them after the capture.
type Decoder struct {
	ip4    layers.IPv4
	ip6    layers.IPv6
	tcp    layers.TCP
	layers gopacket.DecodingLayerContainer
	seg    Segment
}

// NewDecoder makes a Decoder.
func NewDecoder() *Decoder {
	d := &Decoder{layers: gopacket.DecodingLayerSparse(nil)}
	for _, layer := range []gopacket.DecodingLayer{
		new(layers.Ethernet), new(layers.Dot1Q), new(layers.LinuxSLL), new(layers.LinuxSLL2), new(layers.Loopback),
		&d.ip4, &d.ip6, new(layers.IPv6ExtensionSkipper), new(layers.IPv6Fragment), new(layers.IPSecAH), &d.tcp,
	} {
		d.layers = d.layers.Put(layer)
	}
	return d
}

// firstLayer is what a record begins with.
func firstLayer(rec *Record) (gopacket.LayerType, Reason) {
	switch rec.Link {
	case Ethernet:
		return layers.LayerTypeEthernet, 0
	case layers.LinkTypeLinuxSLL:
		return layers.LayerTypeLinuxSLL, 0
	case layers.LinkTypeLinuxSLL2:
		return layers.LayerTypeLinuxSLL2, 0
	case layers.LinkTypeNull, layers.LinkTypeLoop:
		return layers.LayerTypeLoopback, 0
	case RawIP, 12, 14, layers.LinkTypeIPv4, layers.LinkTypeIPv6: // 12 and 14 are RawIP as BSDs call it
	default:
		return 0, UnknownLink
	}
	if len(rec.Data) == 0 {
		return 0, TooShort
	}
	switch rec.Data[0] >> 4 {
	case 4:
		return layers.LayerTypeIPv4, 0
	case 6:
		return layers.LayerTypeIPv6, 0
	}
	return 0, NotIP
}

// Decode returns the segment in a record, which is valid until the next call, or else why
// there is none.
func (d *Decoder) Decode(rec *Record) (*Segment, Reason) {
	layer, reason := firstLayer(rec)
	if reason != 0 {
		return nil, reason
	}
	d.seg = Segment{At: rec.At}
	data, otherwise := rec.Data, NotIP
	for {
		decoder, known := d.layers.Decoder(layer)
		switch {
		case layer == gopacket.LayerTypeFragment:
			return nil, Fragment
		case layer == layers.LayerTypeIPSecESP:
			return nil, Encrypted
		case !known:
			return nil, otherwise
		case decoder.DecodeFromBytes(data, gopacket.NilDecodeFeedback) != nil:
			return nil, TooShort
		}
		switch layer {
		case layers.LayerTypeIPv4:
			d.between(d.ip4.SrcIP, d.ip4.DstIP, int(d.ip4.Length)-len(data))
			otherwise = NotTCP
		case layers.LayerTypeIPv6:
			d.between(d.ip6.SrcIP, d.ip6.DstIP, len(d.ip6.Contents)+int(d.ip6.Length)-len(data))
			otherwise = NotTCP
		case layers.LayerTypeTCP:
			return d.segment(), 0
		}
		layer, data = decoder.NextLayerType(), decoder.LayerPayload()
	}
}

// between notes the addresses of an IP packet, and how many of its bytes are missing.
func (d *Decoder) between(src, dst net.IP, missing int) {
	from, _ := netip.AddrFromSlice(src)
	to, _ := netip.AddrFromSlice(dst)
	d.seg.Src, d.seg.Dst = netip.AddrPortFrom(from.Unmap(), 0), netip.AddrPortFrom(to.Unmap(), 0)
	d.seg.Missing = max(0, missing)
}

func (d *Decoder) segment() *Segment {
	s := &d.seg
	s.Src = netip.AddrPortFrom(s.Src.Addr(), uint16(d.tcp.SrcPort))
	s.Dst = netip.AddrPortFrom(s.Dst.Addr(), uint16(d.tcp.DstPort))
	s.Seq, s.Ack, s.Flags, s.Payload = d.tcp.Seq, d.tcp.Ack, Flags(d.tcp.Contents[13]), d.tcp.Payload
	return s
}
