package journal

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
)

// recordKind is on the disk: never renumber.
type recordKind uint8

const (
	recordPut    recordKind = 1 // a document's new state, found or finished
	recordIntent recordKind = 2 // a document's new state that a Set is about to write
	recordDone   recordKind = 3 // the intent with this sequence is on the disk
	recordAbort  recordKind = 4 // the intent with this sequence was given up; the state before it holds
	recordList   recordKind = 5 // a document's list of bases and the floor of its resolved version
)

// record is one fact in the journal. For each name only the last of a kind
// counts. On the disk, little-endian:
//
//	put     kind u8 | seq u64 | served i32 | given i32 | flags u8 | name length u16 | name | text
//	intent  as put, with previous [16]byte behind flags; the text may be the file's bytes
//	done    kind u8 | seq u64
//	abort   kind u8 | seq u64
//	list    kind u8 | floor i32 | list [16]byte | name
//
// each with its length as u32 in front.
type record struct {
	kind     recordKind
	seq      uint64
	served   int32
	given    int32
	deleted  bool
	absent   bool     // intent: there was no file before
	exact    bool     // intent: text is the file's bytes, not the compact form
	previous [16]byte // intent: of the file's bytes before
	floor    int32
	list     [16]byte
	name     string
	text     []byte // aliases what it was decoded from
}

const (
	flagDeleted = 1
	flagAbsent  = 2
	flagExact   = 4
)

var errRecord = errors.New("record makes no sense")

// decodeRecords cuts a frame's payload into its records.
func decodeRecords(payload []byte) ([]record, error) {
	var records []record
	for len(payload) > 0 {
		if len(payload) < 5 {
			return nil, errRecord
		}
		length := binary.LittleEndian.Uint32(payload)
		if length == 0 || uint64(length) > uint64(len(payload)-4) {
			return nil, errRecord
		}
		r, err := decodeRecord(payload[4 : 4+length])
		if err != nil {
			return nil, err
		}
		records = append(records, r)
		payload = payload[4+length:]
	}
	return records, nil
}

func decodeRecord(b []byte) (record, error) {
	r := record{kind: recordKind(b[0])}
	in := cutter{rest: b[1:]}
	switch r.kind {
	case recordPut, recordIntent:
		r.seq = in.uint64()
		r.served = int32(in.uint32())
		r.given = int32(in.uint32())
		flags := in.take(1)
		if r.kind == recordIntent {
			copy(r.previous[:], in.take(len(r.previous)))
		}
		r.name = string(in.take(int(in.uint16())))
		if !in.failed {
			r.deleted, r.absent, r.exact = flags[0]&flagDeleted != 0, flags[0]&flagAbsent != 0, flags[0]&flagExact != 0
		}
		r.text = in.rest
	case recordDone, recordAbort:
		r.seq = in.uint64()
	case recordList:
		r.floor = int32(in.uint32())
		copy(r.list[:], in.take(len(r.list)))
		r.name = string(in.rest)
	default:
		return r, errRecord
	}
	if in.failed {
		return r, errRecord
	}
	return r, nil
}

// cutter takes bytes from the front; the first shortage sticks.
type cutter struct {
	rest   []byte
	failed bool
}

func (c *cutter) take(n int) []byte {
	if c.failed || n > len(c.rest) {
		c.failed = true
		return nil
	}
	out := c.rest[:n]
	c.rest = c.rest[n:]
	return out
}

func (c *cutter) uint16() uint16 {
	if b := c.take(2); b != nil {
		return binary.LittleEndian.Uint16(b)
	}
	return 0
}

func (c *cutter) uint32() uint32 {
	if b := c.take(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (c *cutter) uint64() uint64 {
	if b := c.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// A frame is what one append writes: magic u16 | length u32 | CRC-32C of the six
// bytes before | CRC-32C of the payload | payload. The header has a checksum of
// its own because a damaged length would look like a frame that was cut off.
const (
	frameHeader = 14
	frameMagic  = 0x4ACF
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// openFrame is the payload of the frame that data begins with and the length of
// the whole frame; ok is false if there is no sound frame.
func openFrame(data []byte) (payload []byte, length int, ok bool) {
	le := binary.LittleEndian
	if len(data) < frameHeader || le.Uint16(data) != frameMagic || le.Uint32(data[6:]) != crc32.Checksum(data[:6], castagnoli) {
		return nil, 0, false
	}
	size := uint64(le.Uint32(data[2:]))
	if size > uint64(len(data)-frameHeader) {
		return nil, 0, false
	}
	payload = data[frameHeader : frameHeader+size]
	if le.Uint32(data[10:]) != crc32.Checksum(payload, castagnoli) {
		return nil, 0, false
	}
	return payload, frameHeader + int(size), true
}
