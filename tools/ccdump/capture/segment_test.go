package capture

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"slices"
	"strings"
	"testing"

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

func ipv4(proto byte, fragment uint16, payload []byte) []byte {
	b := []byte{0x46, 0}
	b = binary.BigEndian.AppendUint16(b, uint16(24+len(payload)))
	b = append(b, 0, 0)
	b = binary.BigEndian.AppendUint16(b, fragment)
	b = append(b, 64, proto, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 1, 1, 1, 0) // 4 bytes of options
	return append(b, payload...)
}

func ipv6(next byte, payload []byte) []byte {
	b := []byte{0x60, 0, 0, 0}
	b = binary.BigEndian.AppendUint16(b, uint16(len(payload)))
	b = append(b, next, 64)
	from, to := netip.MustParseAddr("2001:db8::1").As16(), netip.MustParseAddr("2001:db8::2").As16()
	b = append(append(b, from[:]...), to[:]...)
	return append(b, payload...)
}

func TestLinkTypes(t *testing.T) {
	inner := ipv4(protoTCP, 0x4000, tcpHeader("hello"))
	zeros := func(n int) []byte { return make([]byte, n) }
	for name, one := range map[string]struct {
		link Link
		data []byte
	}{
		"ethernet":          {linkEthernet, slices.Concat(zeros(12), []byte{8, 0}, inner)},
		"ethernet, padded":  {linkEthernet, slices.Concat(zeros(12), []byte{8, 0}, inner, zeros(9))},
		"vlan":              {linkEthernet, slices.Concat(zeros(12), []byte{0x81, 0, 0, 5, 8, 0}, inner)},
		"vlan in vlan":      {linkEthernet, slices.Concat(zeros(12), []byte{0x88, 0xa8, 0, 5, 0x81, 0, 0, 6, 8, 0}, inner)},
		"cooked":            {linkSLL, slices.Concat(zeros(14), []byte{8, 0}, inner)},
		"cooked 2":          {linkSLL2, slices.Concat([]byte{8, 0}, zeros(18), inner)},
		"raw":               {linkRaw, inner},
		"raw IPv4":          {linkIPv4, inner},
		"raw of OpenBSD":    {linkRawOpen, inner},
		"loopback, NULL":    {linkNull, slices.Concat([]byte{2, 0, 0, 0}, inner)},
		"loopback, LOOP":    {linkLoop, slices.Concat([]byte{0, 0, 0, 2}, inner)},
		"segmented by card": {linkRaw, append(append(bytes.Clone(inner[:2]), 0, 0), inner[4:]...)},
	} {
		var s Segment
		require.Zero(t, s.Decode(&Record{At: 5, Data: one.data, Length: len(one.data), Link: one.link}), name)
		require.Equal(t, Segment{At: 5, Src: s.Src, Dst: s.Dst, Seq: 7, Ack: 9, Flags: ACK, Payload: []byte("hello")}, s, name)
		require.Equal(t, "10.0.0.1:50000", s.Src.String())
		require.Equal(t, "10.0.0.2:4800", s.Dst.String())
	}
}

func TestIPv6ExtensionHeaders(t *testing.T) {
	tcp := tcpHeader("hello")
	hop := func(next byte, rest []byte) []byte { return slices.Concat([]byte{next, 1}, make([]byte, 14), rest) }
	auth := func(next byte, rest []byte) []byte { return slices.Concat([]byte{next, 4}, make([]byte, 22), rest) }
	atomic := func(next byte, offset uint16, rest []byte) []byte {
		return slices.Concat(binary.BigEndian.AppendUint16([]byte{next, 0}, offset), make([]byte, 4), rest)
	}
	for name, one := range map[string]struct {
		data []byte
		want Reason
	}{
		"plain":           {ipv6(protoTCP, tcp), 0},
		"hop by hop":      {ipv6(protoHopByHop, hop(protoTCP, tcp)), 0},
		"several":         {ipv6(protoHopByHop, hop(protoRouting, hop(protoOptions, hop(protoTCP, tcp)))), 0},
		"authenticated":   {ipv6(protoAuth, auth(protoTCP, tcp)), 0},
		"atomic fragment": {ipv6(protoFragment, atomic(protoTCP, 0, tcp)), 0},
		"first fragment":  {ipv6(protoFragment, atomic(protoTCP, 1, tcp)), Fragment},
		"later fragment":  {ipv6(protoFragment, atomic(protoTCP, 64, tcp)), Fragment},
		"encrypted":       {ipv6(protoESP, tcp), Encrypted},
		"UDP":             {ipv6(17, tcp), NotTCP},
		"cut":             {ipv6(protoHopByHop, hop(protoTCP, tcp)[:9]), TooShort},
		"endless":         {ipv6(protoOptions, bytes.Repeat([]byte{protoOptions, 0, 0, 0, 0, 0, 0, 0}, 40)), TooShort},
	} {
		var s Segment
		require.Equal(t, one.want, s.Decode(&Record{Data: one.data, Length: len(one.data), Link: linkIPv6}), name)
		if one.want == 0 {
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
		want Reason
	}{
		"unknown link":   {147, ipv4(protoTCP, 0, tcp), UnknownLink},
		"ARP":            {linkEthernet, append(make([]byte, 12), 8, 6, 0, 0), NotIP},
		"no IP":          {linkRaw, []byte("\x00abc"), NotIP},
		"empty":          {linkRaw, nil, TooShort},
		"more fragments": {linkRaw, ipv4(protoTCP, 0x2000, tcp), Fragment},
		"later fragment": {linkRaw, ipv4(protoTCP, 0x0007, tcp), Fragment},
		"UDP":            {linkRaw, ipv4(17, 0, tcp), NotTCP},
		"ESP":            {linkRaw, ipv4(protoESP, 0, tcp), Encrypted},
		"short":          {linkRaw, ipv4(protoTCP, 0, tcp)[:30], TooShort},
		"no header":      {linkRaw, ipv4(protoTCP, 0, tcp[:12]), TooShort},
		"offset 0":       {linkRaw, ipv4(protoTCP, 0, append(append(bytes.Clone(tcp[:12]), 0), tcp[13:]...)), TooShort},
	} {
		var s Segment
		require.Equal(t, one.want, s.Decode(&Record{Data: one.data, Length: len(one.data), Link: one.link}), name)
	}
	for r := UnknownLink; r < Reasons; r++ {
		require.NotContains(t, r.String(), "reason ", "every reason is told in words")
	}
}

// A snap length cuts off payload; how much is known.
func TestSnapLength(t *testing.T) {
	whole := ipv4(protoTCP, 0, tcpHeader("hello, world"))
	for kept := range len(whole) + 1 {
		var s Segment
		reason := s.Decode(&Record{Data: whole[:kept], Length: len(whole), Link: linkRaw})
		if headers := len(whole) - len("hello, world"); kept < headers-4 {
			require.Equal(t, TooShort, reason)
		} else if kept >= headers {
			require.Zero(t, reason)
			require.Equal(t, "hello, world"[:kept-headers], string(s.Payload))
			require.Equal(t, len(whole)-kept, s.Missing)
		} else {
			require.Zero(t, reason, "only options are missing")
			require.Equal(t, len("hello, world"), s.Missing)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(uint16(linkRaw), ipv4(protoTCP, 0, tcpHeader("hello")), 100)
	f.Add(uint16(linkIPv6), ipv6(protoHopByHop, tcpHeader(strings.Repeat("\x00", 40))), 0)
	f.Fuzz(func(t *testing.T, link uint16, data []byte, length int) {
		var s Segment
		if s.Decode(&Record{Data: data, Length: length, Link: Link(link)}) == 0 {
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
