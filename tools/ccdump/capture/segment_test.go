package capture

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/gopacket/gopacket/layers"
	"github.com/stretchr/testify/require"
)

func tcpHeader(payload string) []byte {
	b := binary.BigEndian.AppendUint16(nil, 50000)
	b = binary.BigEndian.AppendUint16(b, 4800)
	b = binary.BigEndian.AppendUint32(b, 7)
	b = binary.BigEndian.AppendUint32(b, 9)
	b = append(b, 6<<4, byte(ACK), 0, 0, 0, 0, 0, 0, 1, 1, 1, 0) // 4 bytes of options
	return append(b, payload...)
}

func ipv4(proto layers.IPProtocol, fragment uint16, payload []byte) []byte {
	b := []byte{0x46, 0}
	b = binary.BigEndian.AppendUint16(b, uint16(24+len(payload)))
	b = append(b, 0, 0)
	b = binary.BigEndian.AppendUint16(b, fragment)
	b = append(b, 64, byte(proto), 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 1, 1, 1, 0) // 4 bytes of options
	return append(b, payload...)
}

func ipv6(next layers.IPProtocol, payload []byte) []byte {
	b := []byte{0x60, 0, 0, 0}
	b = binary.BigEndian.AppendUint16(b, uint16(len(payload)))
	b = append(b, byte(next), 64)
	from, to := netip.MustParseAddr("2001:db8::1").As16(), netip.MustParseAddr("2001:db8::2").As16()
	b = append(append(b, from[:]...), to[:]...)
	return append(b, payload...)
}

func TestLinkTypes(t *testing.T) {
	inner := ipv4(layers.IPProtocolTCP, 0x4000, tcpHeader("hello"))
	zeros := func(n int) []byte { return make([]byte, n) }
	for name, one := range map[string]struct {
		link Link
		data []byte
	}{
		"ethernet":          {Ethernet, slices.Concat(zeros(12), []byte{8, 0}, inner)},
		"ethernet, padded":  {Ethernet, slices.Concat(zeros(12), []byte{8, 0}, inner, zeros(9))},
		"vlan":              {Ethernet, slices.Concat(zeros(12), []byte{0x81, 0, 0, 5, 8, 0}, inner)},
		"vlan in vlan":      {Ethernet, slices.Concat(zeros(12), []byte{0x88, 0xa8, 0, 5, 0x81, 0, 0, 6, 8, 0}, inner)},
		"cooked":            {layers.LinkTypeLinuxSLL, slices.Concat(zeros(14), []byte{8, 0}, inner)},
		"cooked 2":          {layers.LinkTypeLinuxSLL2, slices.Concat([]byte{8, 0}, zeros(18), inner)},
		"raw":               {RawIP, inner},
		"raw IPv4":          {layers.LinkTypeIPv4, inner},
		"raw of OpenBSD":    {14, inner},
		"loopback, NULL":    {layers.LinkTypeNull, slices.Concat([]byte{2, 0, 0, 0}, inner)},
		"loopback, LOOP":    {layers.LinkTypeLoop, slices.Concat([]byte{0, 0, 0, 2}, inner)},
		"segmented by card": {RawIP, append(append(bytes.Clone(inner[:2]), 0, 0), inner[4:]...)},
	} {
		s, err := NewDecoder().Decode(&Record{At: 5, Data: one.data, Length: len(one.data), Link: one.link})
		require.NoError(t, err, name)
		require.Equal(t, &Segment{At: 5, Src: s.Src, Dst: s.Dst, Seq: 7, Ack: 9, Flags: ACK, Payload: []byte("hello")}, s, name)
		require.Equal(t, "10.0.0.1:50000", s.Src.String())
		require.Equal(t, "10.0.0.2:4800", s.Dst.String())
	}
}

func TestIPv6ExtensionHeaders(t *testing.T) {
	tcp := tcpHeader("hello")
	hop := func(next layers.IPProtocol, rest []byte) []byte {
		return slices.Concat([]byte{byte(next), 1}, make([]byte, 14), rest)
	}
	auth := func(next layers.IPProtocol, rest []byte) []byte {
		return slices.Concat([]byte{byte(next), 4}, make([]byte, 22), rest)
	}
	atomic := func(next layers.IPProtocol, offset uint16, rest []byte) []byte {
		return slices.Concat(binary.BigEndian.AppendUint16([]byte{byte(next), 0}, offset), make([]byte, 4), rest)
	}
	for name, one := range map[string]struct {
		data []byte
		want error
	}{
		"plain":           {ipv6(layers.IPProtocolTCP, tcp), nil},
		"hop by hop":      {ipv6(layers.IPProtocolIPv6HopByHop, hop(layers.IPProtocolTCP, tcp)), nil},
		"several":         {ipv6(layers.IPProtocolIPv6HopByHop, hop(layers.IPProtocolIPv6Routing, hop(layers.IPProtocolIPv6Destination, hop(layers.IPProtocolTCP, tcp)))), nil},
		"authenticated":   {ipv6(layers.IPProtocolAH, auth(layers.IPProtocolTCP, tcp)), nil},
		"atomic fragment": {ipv6(layers.IPProtocolIPv6Fragment, atomic(layers.IPProtocolTCP, 0, tcp)), nil},
		"first fragment":  {ipv6(layers.IPProtocolIPv6Fragment, atomic(layers.IPProtocolTCP, 1, tcp)), ErrFragment},
		"later fragment":  {ipv6(layers.IPProtocolIPv6Fragment, atomic(layers.IPProtocolTCP, 64, tcp)), ErrFragment},
		"encrypted":       {ipv6(layers.IPProtocolESP, tcp), ErrEncrypted},
		"UDP":             {ipv6(17, tcp), ErrNotTCP},
		"cut":             {ipv6(layers.IPProtocolIPv6HopByHop, hop(layers.IPProtocolTCP, tcp)[:9]), ErrTooShort},
		"endless":         {ipv6(layers.IPProtocolIPv6Destination, bytes.Repeat([]byte{byte(layers.IPProtocolIPv6Destination), 0, 0, 0, 0, 0, 0, 0}, 40)), ErrTooShort},
	} {
		s, err := NewDecoder().Decode(&Record{Data: one.data, Length: len(one.data), Link: layers.LinkTypeIPv6})
		require.Equal(t, one.want, err, name)
		if one.want == nil {
			require.Equal(t, "hello", string(s.Payload), name)
			require.Equal(t, "[2001:db8::1]:50000", s.Src.String())
		}
	}
}

func TestUselessPackets(t *testing.T) {
	tcp := tcpHeader("hello")
	for name, one := range map[string]struct {
		link Link
		data []byte
		want error
	}{
		"unknown link":   {147, ipv4(layers.IPProtocolTCP, 0, tcp), LinkError(147)},
		"ARP":            {Ethernet, append(make([]byte, 12), 8, 6, 0, 0), ErrNotIP},
		"no IP":          {RawIP, []byte("\x00abc"), ErrNotIP},
		"empty":          {RawIP, nil, ErrTooShort},
		"more fragments": {RawIP, ipv4(layers.IPProtocolTCP, 0x2000, tcp), ErrFragment},
		"later fragment": {RawIP, ipv4(layers.IPProtocolTCP, 0x0007, tcp), ErrFragment},
		"UDP":            {RawIP, ipv4(17, 0, tcp), ErrNotTCP},
		"ESP":            {RawIP, ipv4(layers.IPProtocolESP, 0, tcp), ErrEncrypted},
		"short":          {RawIP, ipv4(layers.IPProtocolTCP, 0, tcp)[:30], ErrTooShort},
		"no header":      {RawIP, ipv4(layers.IPProtocolTCP, 0, tcp[:12]), ErrTooShort},
		"offset 0":       {RawIP, ipv4(layers.IPProtocolTCP, 0, append(append(bytes.Clone(tcp[:12]), 0), tcp[13:]...)), ErrTooShort},
	} {
		_, err := NewDecoder().Decode(&Record{Data: one.data, Length: len(one.data), Link: one.link})
		require.Equal(t, one.want, err, name)
	}
}

// A snap length cuts off payload; how much is known.
func TestSnapLength(t *testing.T) {
	whole, d := ipv4(layers.IPProtocolTCP, 0, tcpHeader("hello, world")), NewDecoder()
	for kept := range len(whole) + 1 {
		s, err := d.Decode(&Record{Data: whole[:kept], Length: len(whole), Link: RawIP})
		headers := len(whole) - len("hello, world")
		if kept < headers {
			require.Equal(t, ErrTooShort, err)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, "hello, world"[:kept-headers], string(s.Payload))
		require.Equal(t, len(whole)-kept, s.Missing)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(uint16(RawIP), ipv4(layers.IPProtocolTCP, 0, tcpHeader("hello")), 100)
	f.Add(uint16(layers.LinkTypeIPv6), ipv6(layers.IPProtocolIPv6HopByHop, tcpHeader(strings.Repeat("\x00", 40))), 0)
	f.Fuzz(func(t *testing.T, link uint16, data []byte, length int) {
		if s, err := NewDecoder().Decode(&Record{Data: data, Length: length, Link: Link(link)}); err == nil {
			require.LessOrEqual(t, len(s.Payload), len(data))
			require.GreaterOrEqual(t, s.Missing, 0)
		}
	})
}

func FuzzOpen(f *testing.F) {
	f.Add(written(f, false, someRecords()[:2]...))
	f.Add(written(f, true, someRecords()[:2]...))
	f.Add([]byte("\x1f\x8b"))
	f.Fuzz(func(t *testing.T, file []byte) {
		if len(file) > 1 && file[0] == 0x1f && file[1] == 0x8b {
			return // a small file can be a large one
		}
		list, err := readAll(t, bytes.NewReader(file))
		sum := 0
		for _, one := range list {
			sum += len(one.Data)
		}
		require.LessOrEqual(t, sum, len(file), "nothing is made up")
		if err == nil {
			require.NotEmpty(t, file)
		}
	})
}
