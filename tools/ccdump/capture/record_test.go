package capture

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/pcapgo"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// kept is a record that outlives the next one.
type kept struct {
	At     int64
	Data   string
	Length int
	Link   Link
}

// readAll reads a capture to its end.
func readAll(t testing.TB, r io.Reader) (list []kept, err error) {
	t.Helper()
	src, err := Open(r)
	if err != nil {
		return nil, err
	}
	for {
		var rec Record
		if err := src.Next(&rec); err != nil {
			again := src.Next(&rec)
			require.Equal(t, err, again, "a source that has ended stays at its end")
			if errors.Is(err, io.EOF) {
				return list, nil
			}
			return list, err
		}
		list = append(list, kept{rec.At, string(rec.Data), rec.Length, rec.Link})
	}
}

func written(t testing.TB, blocks bool, records ...Record) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := NewWriter(&b, Ethernet)
	require.NoError(t, err)
	write, flush := w.Write, w.Flush
	if !blocks {
		b.Reset()
		old := pcapgo.NewWriterNanos(&b)
		require.NoError(t, old.WriteFileHeader(MaxPacket, Ethernet))
		write = func(r *Record) error {
			return old.WritePacket(gopacket.CaptureInfo{Timestamp: time.Unix(0, r.At), CaptureLength: len(r.Data), Length: r.Length}, r.Data)
		}
		flush = func() error { return nil }
	}
	for i := range records {
		require.NoError(t, write(&records[i]))
	}
	require.NoError(t, flush())
	return b.Bytes()
}

func someRecords() []Record {
	return []Record{
		{At: 1_700_000_000_000_000_001, Data: []byte("first"), Length: 5},
		{At: 1_700_000_000_000_000_002, Data: []byte("cut"), Length: 1500},
		{At: 1_700_000_001_000_000_000, Data: bytes.Repeat([]byte("long"), 20000), Length: 80000},
	}
}

func TestWrittenIsRead(t *testing.T) {
	for name, blocks := range map[string]bool{"pcap": false, "pcapng": true} {
		t.Run(name, func(t *testing.T) {
			file := written(t, blocks, someRecords()...)
			var packed bytes.Buffer
			z := gzip.NewWriter(&packed)
			_, err := z.Write(file)
			require.NoError(t, err)
			require.NoError(t, z.Close())
			plain, err := readAll(t, bytes.NewReader(file))
			require.NoError(t, err)
			require.Len(t, plain, 3)
			for i, want := range someRecords() {
				got := plain[i]
				require.Equal(t, want.At, got.At)
				require.Equal(t, string(want.Data), got.Data)
				require.Equal(t, want.Length, got.Length)
				require.Equal(t, Ethernet, got.Link)
			}
			unpacked, err := readAll(t, &packed)
			require.NoError(t, err)
			require.Equal(t, plain, unpacked)
		})
	}
}

// However a capture ends, everything before that is read and the place is named.
func TestTruncatedCaptures(t *testing.T) {
	for name, blocks := range map[string]bool{"pcap": false, "pcapng": true} {
		t.Run(name, func(t *testing.T) {
			records := someRecords()[:2]
			file := written(t, blocks, records...)
			whole, err := readAll(t, bytes.NewReader(file))
			require.NoError(t, err)
			for n := range len(file) {
				list, err := readAll(t, bytes.NewReader(file[:n]))
				if len(list) > 0 {
					require.Equal(t, whole[:len(list)], list)
				}
				if err == nil {
					continue // cut exactly between two records
				}
				if n >= 24 {
					require.ErrorIs(t, err, ErrTruncated, "%d bytes", n)
					var offset int
					_, failed := fmt.Sscanf(err.Error(), "at offset %d:", &offset)
					require.NoError(t, failed, err)
					require.LessOrEqual(t, offset, n)
				}
			}
		})
	}
}

func TestNoCapture(t *testing.T) {
	for text, want := range map[string]string{
		"":                 "it is empty",
		"{}":               "it begins with 7b 7d",
		"GET / HTTP/1.1":   "it begins with 47 45 54 20",
		"\x1f\x8b\x00\x00": "gzip header",
		"\xd4\xc3\xb2\xa1": "in the middle",
		"\xd4\xc3\xb2\xa1\x09\x00\x04\x00" + strings.Repeat("\x00", 16): "version",
		"\x0a\x0d\x0d\x0a\x1c\x00\x00\x00\x00\x00\x00\x00":              "byte order",
		"\x0a\x0d\x0d\x0a\x0b\x00\x00\x00\x4d\x3c\x2b\x1a":              "in the middle",
	} {
		_, err := Open(strings.NewReader(text))
		require.ErrorContains(t, err, want, "%q", text)
	}
}

// A capture from a big-endian machine, and captures whose blocks have wrong lengths.
func TestBlocksOfOtherOrderAndHostileLengths(t *testing.T) {
	be := binary.BigEndian
	block := func(kind uint32, body []byte) []byte {
		for len(body)%4 != 0 {
			body = append(body, 0)
		}
		b := be.AppendUint32(nil, kind)
		b = be.AppendUint32(b, uint32(len(body)+12))
		b = append(b, body...)
		return be.AppendUint32(b, uint32(len(body)+12))
	}
	section := block(0x0A0D0D0A, be.AppendUint64(be.AppendUint32(be.AppendUint32(nil, 0x1A2B3C4D), 1<<16), ^uint64(0)))
	iface := block(1, be.AppendUint32(be.AppendUint32(nil, uint32(RawIP)<<16), 96))
	enhanced := func(iface, kept uint32) []byte {
		b := be.AppendUint32(nil, iface)
		b = be.AppendUint32(be.AppendUint32(b, 0x00000006), 0x1234)
		b = be.AppendUint32(be.AppendUint32(b, kept), 4)
		return block(6, append(b, "data"...))
	}
	simple := block(3, append(be.AppendUint32(nil, 4), "easy"...))
	names := block(4, bytes.Repeat([]byte("n"), 400))
	join := func(parts ...[]byte) io.Reader { return bytes.NewReader(bytes.Join(parts, nil)) }

	list, err := readAll(t, join(section, names, iface, enhanced(0, 4), names, simple, section, iface, enhanced(0, 4)))
	require.NoError(t, err)
	require.Len(t, list, 3)
	require.Equal(t, "data", list[0].Data)
	require.Equal(t, RawIP, list[0].Link)
	require.Equal(t, int64(6<<32+0x1234)*1000, list[0].At)
	require.Equal(t, "easy", list[1].Data)
	require.Zero(t, list[1].At, "simple packets have no time")

	_, err = readAll(t, join(section, iface, enhanced(7, 4)))
	require.ErrorContains(t, err, "Interface id 7")
	for name, last := range map[string][]byte{
		"a packet of nearly 4 GiB":       enhanced(0, 1<<32-16),
		"a packet longer than its block": enhanced(0, 5),
		"too little for a packet":        block(6, []byte("tiny")),
		"an endless block":               be.AppendUint32(be.AppendUint32(be.AppendUint32(nil, 6), 1<<31), 0),
		"an endless simple packet":       block(3, append(be.AppendUint32(nil, 1<<31), "easy"...)),
	} {
		list, err := readAll(t, join(section, iface, simple, last))
		require.Len(t, list, 1, name)
		require.ErrorIs(t, err, ErrTruncated, name)
		require.ErrorContains(t, err, fmt.Sprintf("at offset %d", len(section)+len(iface)+len(simple)), name)
	}
	_, err = readAll(t, join(section, simple))
	require.ErrorContains(t, err, "Interface is needed")
}

func TestHostilePcapLengths(t *testing.T) {
	le := binary.LittleEndian
	header := le.AppendUint32(nil, 0xa1b2c3d4)
	header = append(header, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	header = le.AppendUint32(header, 1<<32-1) // the file's own snap length
	header = le.AppendUint32(header, 1)
	record := func(kept, length uint32) []byte {
		b := append(bytes.Clone(header), 1, 0, 0, 0, 2, 0, 0, 0)
		b = le.AppendUint32(b, kept)
		return append(le.AppendUint32(b, length), "abcd"...)
	}
	list, err := readAll(t, bytes.NewReader(record(4, 4)))
	require.NoError(t, err)
	require.Equal(t, int64(1_000_002_000), list[0].At)
	_, err = readAll(t, bytes.NewReader(record(1<<31, 1<<31)))
	require.ErrorContains(t, err, "exceeds snap length")
	_, err = readAll(t, bytes.NewReader(record(5, 4)))
	require.ErrorContains(t, err, "exceeds original")
	_, err = readAll(t, bytes.NewReader(record(5, 5)))
	require.ErrorIs(t, err, ErrTruncated)
}

func TestSynth(t *testing.T) {
	for _, addr := range []string{"10.0.0.1", "fe80::1"} {
		a := netip.AddrPortFrom(netip.MustParseAddr(addr), 50000)
		b := netip.AddrPortFrom(netip.MustParseAddr(addr), 4800)
		var got []Segment
		s := NewSynth(a, b, func(rec *Record) error {
			seg, err := NewDecoder().Decode(rec)
			require.NoError(t, err)
			seg.Payload = bytes.Clone(seg.Payload)
			got = append(got, *seg)
			return nil
		})
		require.NoError(t, s.Open(1))
		require.NoError(t, s.Data(0, 2, bytes.Repeat([]byte("x"), synthSegment+1)))
		s.Lose(1, 10)
		require.NoError(t, s.Data(1, 3, []byte("y")))
		require.NoError(t, s.Close(4))
		require.Len(t, got, 8)
		require.Equal(t, SYN, got[0].Flags)
		require.Equal(t, SYN|ACK, got[1].Flags)
		require.Equal(t, a, got[3].Src)
		require.Len(t, got[3].Payload, synthSegment)
		require.Equal(t, got[3].Seq+synthSegment, got[4].Seq)
		require.Equal(t, got[1].Seq+11, got[5].Seq)
		require.Equal(t, addr, got[0].Src.Addr().String())
	}
}
