package backup

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json" // two small objects that are written and read once
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"

	"confcenter/codes"
)

// MaxBlock is the longest block that is read: one row, of the longest group of transactions that
// an engine makes durable in one go, fits into it many times over.
const MaxBlock = 256 << 20

// maxText is the longest block of JSON.
const maxText = 64 << 10

// firstRead is how much of a block is allocated before any of it has been read.
const firstRead = 1 << 20

// Read reads a backup from its beginning to its end. head is called once, before any row, and then
// row for each; key and value are not kept. Errors of either end it. A backup that is cut, damaged,
// or none at all fails with codes.Storage, and one by a newer version with codes.NotImplemented;
// until Read has returned without an error, rows may be missing behind those that were there.
func Read(from io.Reader, head func(Head) error, row func(key, value []byte) error) (Totals, error) {
	r := &reader{from: bufio.NewReaderSize(from, 64<<10), sum: sha256.New()}
	if err := r.head(); err != nil {
		return r.totals, err
	}
	if err := head(r.totals.Head); err != nil {
		return r.totals, err
	}
	for {
		before := hex.EncodeToString(r.sum.Sum(nil))
		kind, payload, err := r.block()
		if err != nil {
			return r.totals, err
		}
		switch kind {
		case rowsBlock:
			r.totals.Blocks++
			err = eachRow(payload, func(key, value []byte) error {
				r.totals.Rows++
				return row(key, value)
			})
			if errors.Is(err, errRow) {
				err = r.damaged("%w", err)
			}
		case endBlock:
			err = r.end(payload, before)
			r.totals.SHA256 = hex.EncodeToString(r.sum.Sum(nil))
			return r.totals, err
		default:
			err = r.damaged("it is of an unknown kind, %q", kind)
		}
		if err != nil {
			return r.totals, err
		}
	}
}

// reader reads blocks.
type reader struct {
	from   *bufio.Reader
	sum    hash.Hash
	totals Totals
	blocks int64 // read so far
	short  bool  // it is cut off
	buffer bytes.Buffer
}

func (r *reader) damaged(format string, args ...any) error {
	return codes.Errorf(codes.Storage, "the backup is damaged: block %d, which ends at byte %d: %w; use another backup", r.blocks, r.totals.Bytes, fmt.Errorf(format, args...))
}

// cut is the error for a backup that ends too early.
func (r *reader) cut(err error) error {
	if r.short = errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF); !r.short {
		return codes.Errorf(codes.Storage, "the backup cannot be read: %w", err)
	}
	return codes.Errorf(codes.Storage, "the backup is incomplete: it is cut off behind byte %d, in block %d; use another backup", r.totals.Bytes, r.blocks+1)
}

// bytes reads exactly n bytes, which are valid until the next call. It allocates as they come.
func (r *reader) bytes(n int) ([]byte, error) {
	r.buffer.Reset()
	r.buffer.Grow(min(n, firstRead))
	got, err := io.CopyN(&r.buffer, r.from, int64(n))
	_, _ = r.sum.Write(r.buffer.Bytes()) // a hash takes everything
	r.totals.Bytes += got
	if err != nil {
		return nil, r.cut(err)
	}
	return r.buffer.Bytes(), nil
}

func (r *reader) head() error {
	magic, err := r.bytes(len(Magic))
	if err != nil && !r.short {
		return err
	}
	if string(magic) != Magic {
		return codes.Errorf(codes.Storage, "this is no backup: it does not begin with %q", Magic)
	}
	kind, text, err := r.block()
	if err != nil {
		return err
	}
	if kind != headBlock {
		return r.damaged("it is no head")
	}
	h := &r.totals.Head
	if err := json.Unmarshal(text, h); err != nil {
		return r.damaged("head: %w", err)
	}
	if h.Format != Format || h.Engine != Engine {
		return codes.Errorf(codes.NotImplemented, "the backup was written by version %q in format %d with rows of %q; this version reads format %d with rows of %q: use the one that wrote it", h.Program, h.Format, h.Engine, Format, Engine)
	}
	return nil
}

// block reads the next block, which is valid until the one after.
func (r *reader) block() (kind byte, payload []byte, err error) {
	header, err := r.bytes(headerBytes)
	if err != nil {
		return 0, nil, err
	}
	sum := crc32.Checksum(header, castagnoli)
	kind = header[0]
	length, most := int(binary.BigEndian.Uint32(header[1:])), maxText
	if kind == rowsBlock {
		most = MaxBlock
	}
	r.blocks++
	if length > most {
		return 0, nil, r.damaged("it has %d bytes, the limit is %d", length, most)
	}
	payload, err = r.bytes(length + sumBytes)
	if err != nil {
		r.blocks--
		return 0, nil, err
	}
	payload, tail := payload[:length], payload[length:]
	if crc32.Update(sum, castagnoli, payload) != binary.BigEndian.Uint32(tail) {
		return 0, nil, r.damaged("its checksum is wrong")
	}
	return kind, payload, nil
}

func (r *reader) end(text []byte, sum string) error {
	var e ending
	if err := json.Unmarshal(text, &e); err != nil {
		return r.damaged("end: %w", err)
	}
	if e != (ending{r.totals.Blocks, r.totals.Rows, sum}) {
		return r.damaged("it has %d blocks with %d rows and the SHA-256 %s, and should have %d with %d and %s", r.totals.Blocks, r.totals.Rows, sum, e.Blocks, e.Rows, e.SHA256)
	}
	if _, err := r.from.ReadByte(); !errors.Is(err, io.EOF) {
		return r.damaged("something follows its end")
	}
	return nil
}

var errRow = errors.New("a row does not fit into it")

// eachRow calls fn for each row of a block.
func eachRow(rows []byte, fn func(key, value []byte) error) error {
	for len(rows) > 0 {
		var pair [2][]byte
		for i := range pair {
			n, size := binary.Uvarint(rows)
			if size <= 0 || n > uint64(len(rows)-size) {
				return errRow
			}
			pair[i], rows = rows[size:size+int(n)], rows[size+int(n):]
		}
		if err := fn(pair[0], pair[1]); err != nil {
			return err
		}
	}
	return nil
}
