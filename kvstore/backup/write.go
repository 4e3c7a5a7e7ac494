// Package backup is the file of a backup: all rows of a state store at one revision, in blocks
// that each have a checksum, and an end without which it is not complete. docs/backup.md describes
// its bytes.
//
// A newcomer reads [Write] and [Read]; there is nothing else. Neither holds more than a block.
package backup

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json" // two small objects that are written and read once
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"confcenter/kv"
)

// Magic is what each backup begins with.
const Magic = "ccbackup"

// The kinds of blocks, in the order in which they come.
const (
	headBlock = 'H' // one; JSON: a Head
	rowsBlock = 'R' // any number; whole rows
	endBlock  = 'E' // one; JSON: an ending
)

// Format is that of the file, and Engine the engine whose rows are in it.
const (
	Format = 1
	Engine = "pebblekv/1"
)

// What a block is framed by: kind and length before it, a checksum behind.
const headerBytes, sumBytes = 1 + 4, 4

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Head is what a backup says of itself.
type Head struct {
	Format   int         `json:"format"`
	Engine   string      `json:"engine"`
	Revision kv.Revision `json:"revision"` // as of which it is
	Time     int64       `json:"time"`     // when it was begun, in ms since 1970
	Program  string      `json:"program"`  // the version that has written it
}

// ending is what the last block says of those before.
type ending struct {
	Blocks int64  `json:"blocks"`
	Rows   int64  `json:"rows"`
	SHA256 string `json:"sha256"` // of all bytes before this block
}

// Totals are what is in a backup.
type Totals struct {
	Head   Head
	Blocks int64 // of rows
	Rows   int64
	Bytes  int64  // of the file
	SHA256 string // of all of it
}

// Write writes a backup of what a copy has to w, a block at a time. program is the version of the
// one that calls it.
func Write(w io.Writer, from kv.Copy, program string) (Totals, error) {
	head := Head{Format: Format, Engine: Engine, Revision: from.Revision(), Time: from.Time(), Program: program}
	out := &writer{to: w, totals: Totals{Head: head}}
	whole := sha256.New()
	out.sum = whole
	out.put([]byte(Magic))
	text, err := json.Marshal(head)
	if err != nil {
		return out.totals, err
	}
	out.block(headBlock, text)
	var buffer []byte
	for out.err == nil {
		buffer, err = from.Next(append(buffer[:0], make([]byte, headerBytes)...))
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return out.totals, err
		}
		rows, err := countRows(buffer[headerBytes:])
		if err != nil {
			return out.totals, err
		}
		out.totals.Blocks++
		out.totals.Rows += rows
		buffer = out.framed(rowsBlock, buffer)
		const keep = 2 << 20
		if cap(buffer) > keep {
			buffer = nil
		}
	}
	text, err = json.Marshal(ending{out.totals.Blocks, out.totals.Rows, hex.EncodeToString(whole.Sum(nil))})
	if err != nil {
		return out.totals, err
	}
	out.block(endBlock, text)
	out.totals.SHA256 = hex.EncodeToString(whole.Sum(nil))
	return out.totals, out.err
}

// writer writes blocks until an error, which it keeps.
type writer struct {
	to     io.Writer
	sum    io.Writer // what is written goes there as well
	totals Totals
	err    error
}

func (w *writer) put(b []byte) {
	if w.err != nil {
		return
	}
	if _, w.err = w.to.Write(b); w.err == nil {
		_, _ = w.sum.Write(b) // a hash takes everything
		w.totals.Bytes += int64(len(b))
	}
}

func (w *writer) block(kind byte, payload []byte) {
	w.framed(kind, append(make([]byte, headerBytes), payload...))
}

// framed writes a block before which there is room for its header, and returns its buffer.
func (w *writer) framed(kind byte, b []byte) []byte {
	b[0] = kind
	binary.BigEndian.PutUint32(b[1:], uint32(len(b)-headerBytes))
	b = binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
	if w.err == nil && len(b) > headerBytes+MaxBlock+sumBytes {
		w.err = fmt.Errorf("a row of %d bytes is too long for a backup", len(b))
	}
	w.put(b)
	return b
}

func countRows(rows []byte) (n int64, err error) {
	err = eachRow(rows, func(_, _ []byte) error {
		n++
		return nil
	})
	return n, err
}
