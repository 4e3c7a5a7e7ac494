package capture

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
)

// pcapng is a sequence of blocks: type u32, length u32, body, length u32 again. The
// section header before a block sets its byte order.
const (
	blockSection   = 0x0A0D0D0A
	blockInterface = 1
	blockPacket    = 2 // obsolete
	blockSimple    = 3
	blockEnhanced  = 6

	blockFrame    = 12 // bytes of a block without its body
	orderMagic    = 0x1A2B3C4D
	maxBlock      = MaxPacket + 64<<10
	maxInterfaces = 1024

	sectionMagic = "\x0A\x0D\x0D\x0A"
)

// blockFixed lists the blocks that packets need, with the length of their fixed part.
var blockFixed = map[uint32]int{blockSection: 16, blockInterface: 8, blockPacket: 20, blockSimple: 4, blockEnhanced: 20}

// fence hands the blocks of a pcapng file to the library's reader, which trusts the
// lengths in them and keeps every name and key it reads. The fence checks the lengths
// first and passes on only the blocks that packets need.
type fence struct {
	in    *bufio.Reader
	order binary.ByteOrder

	block []byte // the current one, whole
	rest  []byte // the part of it that is not handed on yet
	start int64  // offset of the current block
	next  int64  // offset behind it

	interfaces int    // of the section
	snap       uint32 // of its first interface
}

// Read hands on at most the rest of one block, so that start belongs to the block
// that the library is reading.
func (f *fence) Read(p []byte) (int, error) {
	for len(f.rest) == 0 {
		if err := f.load(); err != nil {
			return 0, err
		}
	}
	n := copy(p, f.rest)
	f.rest = f.rest[n:]
	return n, nil
}

// load reads the next block; rest stays empty if packets do not need it.
func (f *fence) load() error {
	f.start = f.next
	head, err := f.in.Peek(blockFrame)
	if err != nil {
		if len(head) == 0 && errors.Is(err, io.EOF) {
			return io.EOF
		}
		return &FileError{Offset: f.start, Err: fileError(err)}
	}
	if string(head[:4]) == sectionMagic {
		switch uint32(orderMagic) {
		case binary.LittleEndian.Uint32(head[8:]):
			f.order = binary.LittleEndian
		case binary.BigEndian.Uint32(head[8:]):
			f.order = binary.BigEndian
		default:
			return f.fault("a section with unknown byte order % x", head[8:12])
		}
		f.interfaces, f.snap = 0, 0
	}
	kind, length := f.order.Uint32(head), f.order.Uint32(head[4:])
	if length < blockFrame || length%4 != 0 {
		return f.fault("a block of %d bytes, which cannot be", length)
	}
	f.next += int64(length)
	fixed, wanted := blockFixed[kind]
	if !wanted {
		if _, err := f.in.Discard(int(length)); err != nil {
			return &FileError{Offset: f.start, Err: fileError(err)}
		}
		return nil
	}
	if length > maxBlock {
		return f.fault("a block of %d bytes, more than the limit of %d", length, maxBlock)
	}
	if cap(f.block) < int(length) {
		f.block = make([]byte, max(int(length), 64<<10))
	}
	f.block = f.block[:length]
	if _, err := io.ReadFull(f.in, f.block); err != nil {
		return &FileError{Offset: f.start, Err: fileError(err)}
	}
	if err := f.check(kind, fixed); err != nil {
		return err
	}
	f.rest = f.block
	return nil
}

// check compares the lengths inside the block with the block's own.
func (f *fence) check(kind uint32, fixed int) error {
	body := f.block[8 : len(f.block)-4]
	if len(body) < fixed {
		return f.fault("a block of type %d with only %d bytes", kind, len(body))
	}
	kept := uint32(0)
	switch kind {
	case blockInterface:
		if f.interfaces == 0 {
			f.snap = f.order.Uint32(body[4:])
		}
		if f.interfaces++; f.interfaces > maxInterfaces {
			return f.fault("more than %d interfaces", maxInterfaces)
		}
	case blockPacket, blockEnhanced:
		kept = f.order.Uint32(body[12:])
	case blockSimple:
		if kept = f.order.Uint32(body); f.snap != 0 {
			kept = min(kept, f.snap)
		}
	}
	if uint64(kept) > uint64(len(body)-fixed) {
		return f.fault("a packet of %d bytes in a block of %d", kept, len(f.block))
	}
	return nil
}

func (f *fence) fault(format string, args ...any) error {
	return &FileError{Offset: f.start, Err: fmt.Errorf(format, args...)}
}

// blockSource reads pcapng.
type blockSource struct {
	fence *fence
	r     *pcapgo.NgReader
	err   error
}

func openBlocks(in *bufio.Reader) (Source, error) {
	f := &fence{in: in, order: binary.LittleEndian}
	r, err := pcapgo.NewNgReader(f, pcapgo.NgReaderOptions{WantMixedLinkType: true, SkipUnknownVersion: true})
	if err != nil {
		return nil, f.explain(err)
	}
	return &blockSource{fence: f, r: r}, nil
}

func (f *fence) explain(err error) error {
	if already := (*FileError)(nil); errors.As(err, &already) {
		return already
	}
	return &FileError{Offset: f.start, Err: fileError(err)}
}

// Next implements Source.
func (s *blockSource) Next(rec *Record) error {
	if s.err != nil {
		return s.err
	}
	data, info, err := s.r.ZeroCopyReadPacketData()
	switch {
	case err == nil:
		*rec = Record{Data: data, Length: info.Length, Link: Link(info.AncillaryData[0].(layers.LinkType))}
		if !info.Timestamp.IsZero() { // simple packets have no time
			rec.At = info.Timestamp.UnixNano()
		}
		return nil
	case errors.Is(err, io.EOF):
		s.err = io.EOF
	default:
		s.err = s.fence.explain(err)
	}
	return s.err
}
