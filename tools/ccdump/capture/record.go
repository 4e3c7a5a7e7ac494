package capture

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
)

// MaxPacket is the longest packet that is read from a file, in bytes: four times
// tcpdump's own limit.
const MaxPacket = 1 << 20

// readSize is how much is read from a file at once, in bytes.
const readSize = 1 << 20

// Link is the link type of a record, as registered for pcap.
type Link = layers.LinkType

const (
	// Ethernet is the link type of most captures.
	Ethernet = layers.LinkTypeEthernet
	// RawIP is the link type of the packets that Synth makes.
	RawIP = layers.LinkTypeRaw
)

// Record is one captured packet.
type Record struct {
	// At is when it was captured, in ns since 1970; 0 if the capture does not say.
	At int64
	// Data is the captured part. It is valid until the next call of Next.
	Data []byte
	// Length is how long it was, in bytes.
	Length int
	Link   Link
}

// Source yields records until io.EOF. Any other error ends it too.
type Source interface {
	Next(*Record) error
}

var (
	// ErrTruncated says that a capture ends in the middle of a packet, because it is still
	// being written or its writer was killed.
	ErrTruncated = errors.New("the capture ends in the middle of a record")
	// ErrNoCapture says that the file is not a capture.
	ErrNoCapture = errors.New("this is neither a pcap nor a pcapng file")
)

// file is a Source of the packets of a file.
type file struct {
	bytes int64 // that were read into in
	from  io.Reader
	in    *bufio.Reader
	next  func() ([]byte, gopacket.CaptureInfo, error)
	link  Link // of all records, in pcap
	err   error
}

// Open reads a capture, gzipped or not, from r, which may be a pipe.
func Open(r io.Reader) (Source, error) {
	packed := bufio.NewReader(r)
	f := &file{from: packed}
	if magic, _ := packed.Peek(2); string(magic) == "\x1f\x8b" {
		unpacked, err := gzip.NewReader(packed)
		if err != nil {
			return nil, fmt.Errorf("the gzip header is damaged: %w", err)
		}
		f.from = unpacked
	}
	f.in = bufio.NewReaderSize(f, readSize)
	magic, err := f.in.Peek(4)
	switch string(magic) {
	case "":
		if err != io.EOF {
			return nil, err
		}
		return nil, fmt.Errorf("%w: it is empty", ErrNoCapture)
	case "\x0a\x0d\x0d\x0a":
		var r *pcapgo.NgReader
		if r, err = pcapgo.NewNgReader(f.in, pcapgo.NgReaderOptions{WantMixedLinkType: true, SkipUnknownVersion: true}); err == nil {
			f.next = r.ZeroCopyReadPacketData
		}
	case "\xd4\xc3\xb2\xa1", "\xa1\xb2\xc3\xd4", "\x4d\x3c\xb2\xa1", "\xa1\xb2\x3c\x4d":
		var r *pcapgo.Reader
		if r, err = pcapgo.NewReader(f.in); err == nil {
			// The file states its own snap length. Packets may be longer, and memory must
			// not be allocated by it.
			r.SetSnaplen(MaxPacket)
			f.next, f.link = r.ZeroCopyReadPacketData, r.LinkType()
		}
	default:
		return nil, fmt.Errorf("%w: it begins with % x", ErrNoCapture, magic)
	}
	if err != nil {
		return nil, fileError(0, err)
	}
	return f, nil
}

// Read counts what is read.
func (f *file) Read(p []byte) (int, error) {
	n, err := f.from.Read(p)
	f.bytes += int64(n)
	return n, err
}

// Next implements Source.
func (f *file) Next(rec *Record) error {
	if f.err != nil {
		return f.err
	}
	begins := f.bytes - int64(f.in.Buffered())
	data, info, err := f.next()
	switch {
	case err == nil:
		*rec = Record{Data: data, Length: info.Length, Link: f.link}
		if len(info.AncillaryData) > 0 {
			rec.Link = info.AncillaryData[0].(Link)
		}
		if !info.Timestamp.IsZero() { // simple packets of pcapng have no time
			rec.At = info.Timestamp.UnixNano()
		}
	case errors.Is(err, io.EOF) && info.CaptureLength == 0:
		f.err = io.EOF
	default:
		f.err = fileError(begins, err)
	}
	return f.err
}

// fileError explains an error behind the last record that could be read.
func fileError(offset int64, err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = ErrTruncated
	}
	return fmt.Errorf("at offset %d: %w", offset, err)
}
