package capture

import (
	"errors"
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

// Why there is no segment in a record.
var (
	ErrNotIP     = errors.New("not IP")
	ErrNotTCP    = errors.New("not TCP")
	ErrFragment  = errors.New("IP fragments, which ccdump does not reassemble; capture where packets are whole")
	ErrEncrypted = errors.New("encrypted by IPsec")
	ErrTooShort  = errors.New("cut off in their headers, or with impossible lengths")
)

// LinkError says that records have a link type that is not known.
type LinkError Link

func (e LinkError) Error() string {
	return fmt.Sprintf("link type %d is not known; known are Ethernet, Linux cooked, raw IP and loopback", uint16(e))
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
func firstLayer(rec *Record) (gopacket.LayerType, error) {
	switch rec.Link {
	case Ethernet:
		return layers.LayerTypeEthernet, nil
	case layers.LinkTypeLinuxSLL:
		return layers.LayerTypeLinuxSLL, nil
	case layers.LinkTypeLinuxSLL2:
		return layers.LayerTypeLinuxSLL2, nil
	case layers.LinkTypeNull, layers.LinkTypeLoop:
		return layers.LayerTypeLoopback, nil
	case RawIP, 12, 14, layers.LinkTypeIPv4, layers.LinkTypeIPv6: // 12 and 14 are RawIP as BSDs call it
	default:
		return 0, LinkError(rec.Link)
	}
	if len(rec.Data) == 0 {
		return 0, ErrTooShort
	}
	switch rec.Data[0] >> 4 {
	case 4:
		return layers.LayerTypeIPv4, nil
	case 6:
		return layers.LayerTypeIPv6, nil
	}
	return 0, ErrNotIP
}

// Decode returns the segment in a record, which is valid until the next call, or else why
// there is none.
func (d *Decoder) Decode(rec *Record) (*Segment, error) {
	layer, err := firstLayer(rec)
	if err != nil {
		return nil, err
	}
	d.seg = Segment{At: rec.At}
	data, otherwise := rec.Data, ErrNotIP
	for {
		decoder, known := d.layers.Decoder(layer)
		switch {
		case layer == gopacket.LayerTypeFragment:
			return nil, ErrFragment
		case layer == layers.LayerTypeIPSecESP:
			return nil, ErrEncrypted
		case !known:
			return nil, otherwise
		case decoder.DecodeFromBytes(data, gopacket.NilDecodeFeedback) != nil:
			return nil, ErrTooShort
		}
		switch layer {
		case layers.LayerTypeIPv4:
			d.between(d.ip4.SrcIP, d.ip4.DstIP, int(d.ip4.Length)-len(data))
			otherwise = ErrNotTCP
		case layers.LayerTypeIPv6:
			d.between(d.ip6.SrcIP, d.ip6.DstIP, len(d.ip6.Contents)+int(d.ip6.Length)-len(data))
			otherwise = ErrNotTCP
		case layers.LayerTypeTCP:
			return d.segment(), nil
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
