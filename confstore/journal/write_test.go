package journal

import (
	"encoding/binary"
	"hash/crc32"
)

// What versions before wrote.

func appendRecord(dst []byte, r record) []byte {
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0, byte(r.kind))
	le := binary.LittleEndian
	switch r.kind {
	case recordPut, recordIntent:
		dst = le.AppendUint64(dst, r.seq)
		dst = le.AppendUint32(dst, uint32(r.served))
		dst = le.AppendUint32(dst, uint32(r.given))
		dst = append(dst, r.flags())
		if r.kind == recordIntent {
			dst = append(dst, r.previous[:]...)
		}
		dst = le.AppendUint16(dst, uint16(len(r.name)))
		dst = append(dst, r.name...)
		dst = append(dst, r.text...)
	case recordDone, recordAbort:
		dst = le.AppendUint64(dst, r.seq)
	case recordList:
		dst = le.AppendUint32(dst, uint32(r.floor))
		dst = append(dst, r.list[:]...)
		dst = append(dst, r.name...)
	}
	le.PutUint32(dst[start:], uint32(len(dst)-start-4))
	return dst
}

func (r record) flags() (flags byte) {
	if r.deleted {
		flags |= flagDeleted
	}
	if r.absent {
		flags |= flagAbsent
	}
	if r.exact {
		flags |= flagExact
	}
	return flags
}

// sealFrame fills in the header in front of a payload that begins at
// frame[frameHeader].
func sealFrame(frame []byte) {
	le := binary.LittleEndian
	le.PutUint16(frame, frameMagic)
	le.PutUint32(frame[2:], uint32(len(frame)-frameHeader))
	le.PutUint32(frame[6:], crc32.Checksum(frame[:6], castagnoli))
	le.PutUint32(frame[10:], crc32.Checksum(frame[frameHeader:], castagnoli))
}

func appendJournalHeader(dst []byte, epoch [16]byte) []byte {
	start := len(dst)
	dst = append(dst, journalMagic...)
	dst = binary.LittleEndian.AppendUint32(dst, journalVersion)
	dst = append(dst, epoch[:]...)
	return binary.LittleEndian.AppendUint32(dst, crc32.Checksum(dst[start:], castagnoli))
}
