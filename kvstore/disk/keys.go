package disk

import (
	"bytes"
	"encoding/binary"

	"confcenter/kv"
)

// The first byte of a key says what it is. The small kinds stand together so that
// they share one table. The log stands behind all others: only it is written
// through the database's own log and memory, so that tables, which are added
// whole, never overlap with what is in memory.
//
//	E revision                         epoch: what was written up to that revision, and when
//	I                                  identity
//	K namespace 0 key                  cut: from which revision on the key's versions are complete
//	L lease                            lease
//	M                                  meta
//	P revision                         part of history that begins with that revision
//	R revision                         gap: a restore let revisions go on far above that one
//	T revision                         request token
//	a namespace 0 key                  archived entry
//	c namespace 0 key                  current entry
//	h part namespace 0 key 0 ^revision superseded entry, or the record of a deletion; newest first
//	w revision                         log: one group, by its first revision
//
// Names have no control characters, so 0 ends them.
const (
	epochKind   = 'E'
	identKind   = 'I'
	cutKind     = 'K'
	leaseKind   = 'L'
	metaKind    = 'M'
	partKind    = 'P'
	gapKind     = 'R'
	tokenKind   = 'T'
	archiveKind = 'a'
	currentKind = 'c'
	historyKind = 'h'
	logKind     = 'w'
)

var metaKey, identityKey = []byte{metaKind}, []byte{identKind}

// nameKey appends the key of one of the kinds that have namespace and key.
func nameKey(dst []byte, kind byte, ns, key string) []byte {
	dst = append(dst, kind)
	dst = append(dst, ns...)
	dst = append(dst, 0)
	return append(dst, key...)
}

// historyPrefix appends what all versions of a key in a part begin with.
func historyPrefix(dst []byte, part kv.Revision, ns, key string) []byte {
	dst = numberKey(dst, historyKind, int64(part))
	dst = append(dst, ns...)
	dst = append(dst, 0)
	dst = append(dst, key...)
	return append(dst, 0)
}

func historyKey(dst []byte, part kv.Revision, ns, key string, rev kv.Revision) []byte {
	return binary.BigEndian.AppendUint64(historyPrefix(dst, part, ns, key), ^uint64(rev))
}

// splitName cuts what follows the kind into namespace and key.
func splitName(rest []byte) (ns, key []byte, ok bool) { return bytes.Cut(rest, []byte{0}) }

// numberKey appends the key of one of the kinds that have a number.
func numberKey(dst []byte, kind byte, n int64) []byte {
	return binary.BigEndian.AppendUint64(append(dst, kind), uint64(n))
}

func splitNumber(row []byte) (int64, bool) {
	if len(row) != 9 {
		return 0, false
	}
	return int64(binary.BigEndian.Uint64(row[1:])), true
}
