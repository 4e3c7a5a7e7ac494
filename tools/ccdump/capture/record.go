package capture

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"

	"github.com/gopacket/gopacket/pcapgo"
)

// MaxPacket is the longest packet that is read from a file, in bytes: four times
// tcpdump's own limit.
const MaxPacket = 1 << 20

// readSize is how much is read from a file at once, in bytes.
const readSize = 1 << 20

// Link is the link type of a record, as registered for pcap.
type Link uint16

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

// FileError says why a capture cannot be read further.
type FileError struct {
	// Offset is where the unreadable record or block begins.
	Offset int64
	Err    error
}

func (e *FileError) Error() string { return fmt.Sprintf("at offset %d: %v", e.Offset, e.Err) }

// Unwrap gives the reason.
func (e *FileError) Unwrap() error { return e.Err }

var (
	// ErrTruncated says that a capture ends in the middle of a packet, because it is still
	// being written or its writer was killed.
	ErrTruncated = errors.New("the capture ends in the middle of a record")
	// ErrNoCapture says that the file is not a capture.
	ErrNoCapture = errors.New("this is neither a pcap nor a pcapng file")
)

// Open reads a capture, gzipped or not, from r, which may be a pipe.
func Open(r io.Reader) (Source, error) {
	in := bufio.NewReaderSize(r, readSize)
	magic, err := in.Peek(4)
	if len(magic) >= 2 && magic[0] == 0x1f && magic[1] == 0x8b {
		unpacked, err := gzip.NewReader(in)
		if err != nil {
			return nil, fmt.Errorf("the gzip header is damaged: %w", err)
		}
		in = bufio.NewReaderSize(unpacked, readSize)
		magic, _ = in.Peek(4)
	} else if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	switch string(magic) {
	case "":
		return nil, fmt.Errorf("%w: it is empty", ErrNoCapture)
	case sectionMagic:
		return openBlocks(in)
	case "\xd4\xc3\xb2\xa1", "\xa1\xb2\xc3\xd4", "\x4d\x3c\xb2\xa1", "\xa1\xb2\x3c\x4d":
		return openPcap(in)
	}
	return nil, fmt.Errorf("%w: it begins with % x", ErrNoCapture, magic)
}

// pcapSource reads the old format: a 24-byte header, then records.
type pcapSource struct {
	r      *pcapgo.Reader
	link   Link
	offset int64
	err    error
}

const (
	pcapHeader       = 24
	pcapRecordHeader = 16
)

func openPcap(in *bufio.Reader) (Source, error) {
	r, err := pcapgo.NewReader(in)
	if err != nil {
		return nil, &FileError{Offset: 0, Err: fileError(err)}
	}
	// The file states its own snap length. Packets may be longer, and memory must
	// not be allocated by it.
	r.SetSnaplen(MaxPacket)
	return &pcapSource{r: r, link: Link(r.LinkType()), offset: pcapHeader}, nil
}

// Next implements Source.
func (s *pcapSource) Next(rec *Record) error {
	if s.err != nil {
		return s.err
	}
	data, info, err := s.r.ZeroCopyReadPacketData()
	if err != nil {
		if errors.Is(err, io.EOF) && info.CaptureLength == 0 {
			s.err = io.EOF
		} else {
			s.err = &FileError{Offset: s.offset, Err: fileError(err)}
		}
		return s.err
	}
	*rec = Record{At: info.Timestamp.UnixNano(), Data: data, Length: info.Length, Link: s.link}
	s.offset += pcapRecordHeader + int64(len(data))
	return nil
}

// fileError explains a reader's error.
func fileError(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return ErrTruncated
	}
	return err
}
