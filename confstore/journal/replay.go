package journal

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"

	"confcenter/internal/jsontext"
)

// The journal's first bytes: magic | version u32 | epoch [16]byte | CRC-32C.
const (
	journalMagic   = "confjrnl"
	journalVersion = 1
	journalHeader  = len(journalMagic) + 4 + 16 + 4
)

// kept is what the journal has about one name.
type kept struct {
	put  record // kind 0 if there is none
	list record // kind 0 if there is none
	// An intent without its mark, and the state before it.
	intent *record
	before record
}

// replayed is a journal as it was found.
type replayed struct {
	epoch [16]byte
	seq   uint64 // the highest
	names map[string]*kept
	open  map[uint64]*kept // intents without a mark, by sequence
	size  int64            // of the sound part; what is behind is torn
	torn  int64            // bytes of a frame that was cut off in writing
}

func newReplayed() *replayed {
	return &replayed{names: make(map[string]*kept), open: make(map[uint64]*kept)}
}

// memory is what was remembered.
func (r *replayed) memory(finished func(Document) bool) *Memory {
	m := &Memory{Epoch: hex.EncodeToString(r.epoch[:]), Seq: r.seq, Torn: r.torn, Documents: make([]Document, 0, len(r.names))}
	for name, k := range r.names {
		if k.put.kind == 0 { // a list alone is nobody's
			continue
		}
		d := k.document(name, k.put)
		if k.intent != nil && !finished(d) {
			if k.before.kind == 0 {
				continue
			}
			d = k.document(name, k.before)
		}
		m.Documents = append(m.Documents, d)
	}
	slices.SortFunc(m.Documents, func(a, b Document) int { return strings.Compare(a.Name, b.Name) })
	return m
}

func (k *kept) document(name string, put record) Document {
	d := Document{
		Name: name, Seq: put.seq, Served: put.served, Given: put.given, Deleted: put.deleted, Text: put.text,
		Floor: k.list.floor, List: k.list.list, Listed: k.list.kind != 0,
	}
	if put.exact {
		d.File, d.Text = put.text, jsontext.AppendCompact(make([]byte, 0, len(put.text)), put.text)
	}
	return d
}

// remedy is the same for all kinds of damage.
const remedy = "restore it from a backup, or move it away: the server then starts from the files alone, without tombstones and with versions that may fall"

// replay decodes a journal. A truncated frame at the very end is what a power cut leaves and
// is ignored; damage in front of intact frames is an error, because acknowledged changes may
// be lost.
func replay(data []byte) (*replayed, error) {
	r := newReplayed()
	if err := r.header(data); err != nil {
		return nil, err
	}
	at := journalHeader
	for at < len(data) {
		payload, length, ok := openFrame(data[at:])
		if !ok {
			if next := soundFrameAfter(data, at+1); next >= 0 {
				return nil, fmt.Errorf("damaged at offset %d, sound again at %d; %s", at, next, remedy)
			}
			break
		}
		records, err := decodeRecords(payload)
		if err != nil {
			return nil, fmt.Errorf("frame at offset %d: %w; %s", at, err, remedy)
		}
		for _, rec := range records {
			r.take(rec)
		}
		at += length
	}
	r.size, r.torn = int64(at), int64(len(data)-at)
	return r, nil
}

func (r *replayed) header(data []byte) error {
	if len(data) < journalHeader || string(data[:len(journalMagic)]) != journalMagic {
		return fmt.Errorf("is not a journal of this program; %s", remedy)
	}
	le, rest := binary.LittleEndian, data[len(journalMagic):]
	if version := le.Uint32(rest); version > journalVersion {
		return fmt.Errorf("has format %d, this program knows up to %d; use the newer program", version, journalVersion)
	}
	body := journalHeader - 4
	if le.Uint32(data[body:]) != crc32.Checksum(data[:body], castagnoli) {
		return fmt.Errorf("damaged at offset 0; %s", remedy)
	}
	copy(r.epoch[:], rest[4:])
	return nil
}

// soundFrameAfter finds an intact frame at or after from, -1 if there is none. The number of
// attempts is bounded; so many apparent frame headers without a frame are no accident.
func soundFrameAfter(data []byte, from int) int {
	magic := binary.LittleEndian.AppendUint16(nil, frameMagic)
	for tries := 0; tries < 1000; tries++ {
		i := bytes.Index(data[from:], magic)
		if i < 0 {
			return -1
		}
		from += i
		if _, _, ok := openFrame(data[from:]); ok {
			return from
		}
		from++
	}
	return -1
}

func (r *replayed) take(rec record) {
	r.seq = max(r.seq, rec.seq)
	if rec.kind == recordDone || rec.kind == recordAbort {
		r.settle(rec)
		return
	}
	k := r.names[rec.name]
	if k == nil {
		k = &kept{}
		r.names[rec.name] = k
	}
	switch rec.kind {
	case recordPut:
		r.close(k)
		k.put = rec
	case recordIntent:
		r.close(k)
		k.before, k.put, k.intent = k.put, rec, &rec
		r.open[rec.seq] = k
	case recordList:
		k.list = rec
	}
}

// close forgets an open intent: a later record about its name shows that it was carried out.
func (r *replayed) close(k *kept) {
	if k.intent != nil {
		delete(r.open, k.intent.seq)
	}
	k.intent, k.before = nil, record{}
}

func (r *replayed) settle(mark record) {
	k := r.open[mark.seq]
	if k == nil {
		return
	}
	if mark.kind == recordAbort {
		k.put = k.before
	}
	r.close(k)
}
