package disk

import (
	"encoding/binary"
	"fmt"

	"confcenter/kv"
)

// meta describes the contents of the tables. It is added in one step with them, so it is
// never ahead of them or behind.
type meta struct {
	revision     kv.Revision // the tables are the store as of it
	logFloor     kv.Revision
	historyFloor kv.Revision
	tokenFloor   kv.Revision
}

func (m meta) encode() []byte {
	row := binary.AppendUvarint(nil, formatVersion)
	for _, rev := range [...]kv.Revision{m.revision, m.logFloor, m.historyFloor, m.tokenFloor} {
		row = binary.AppendUvarint(row, uint64(rev))
	}
	return row
}

func decodeMeta(row []byte) (m meta, err error) {
	r := &reader{rest: row}
	if v := r.uvarint(); v != formatVersion && r.err == nil {
		return m, fmt.Errorf("its format is %d, this version reads %d", v, formatVersion)
	}
	for _, rev := range [...]*kv.Revision{&m.revision, &m.logFloor, &m.historyFloor, &m.tokenFloor} {
		*rev = kv.Revision(r.uvarint())
	}
	return m, r.end("meta")
}

// epoch is a stretch of revisions: the grain in which log and tokens are dropped.
type epoch struct {
	last  kv.Revision
	first int64 // time of its first change, in ms since 1970
	time  int64 // of its last one
	log   int64 // bytes of log records

	written kv.Revision // last as its row has it; 0: it has none
	changed bool        // the row does not say the same
}

func (e *epoch) encode() []byte {
	row := []byte{formatVersion}
	row = binary.AppendVarint(row, e.first)
	row = binary.AppendVarint(row, e.time)
	return binary.AppendUvarint(row, uint64(e.log))
}

func decodeEpoch(last int64, row []byte) (epoch, error) {
	r := &reader{rest: row}
	r.version()
	e := epoch{last: kv.Revision(last), written: kv.Revision(last)}
	e.first, e.time, e.log = r.varint(), r.varint(), int64(r.uvarint())
	return e, r.end("epoch")
}

// part is a stretch of revisions whose history is kept and dropped together: the versions
// superseded in it, and the deletions made in it. Because a version is written when it is
// superseded, a part is never merged with another and can be dropped without looking into
// it; a reader searches the parts one by one.
type part struct {
	start kv.Revision // of its first change; names it
	last  kv.Revision
	first int64 // time of its first change, in ms since 1970
	time  int64 // of its last one
	bytes int64
}

func (p *part) encode() []byte {
	row := []byte{formatVersion}
	row = binary.AppendUvarint(row, uint64(p.last))
	row = binary.AppendVarint(row, p.first)
	row = binary.AppendVarint(row, p.time)
	return binary.AppendUvarint(row, uint64(p.bytes))
}

func decodePart(start int64, row []byte) (part, error) {
	r := &reader{rest: row}
	r.version()
	p := part{start: kv.Revision(start), last: kv.Revision(r.uvarint())}
	p.first, p.time, p.bytes = r.varint(), r.varint(), int64(r.uvarint())
	return p, r.end("part")
}

// gap is a stretch of revisions that this store has not, and the one it was restored from may
// have had: what was current then is not known here.
type gap struct{ from, to kv.Revision } // both exclusive

func (g gap) encode() []byte { return binary.AppendUvarint([]byte{formatVersion}, uint64(g.to)) }

func decodeGap(from int64, row []byte) (gap, error) {
	r := &reader{rest: row}
	r.version()
	g := gap{kv.Revision(from), kv.Revision(r.uvarint())}
	return g, r.end("gap")
}
