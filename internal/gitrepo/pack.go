package gitrepo

import (
	"bufio"
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"os"
)

// pack is many objects in one file, with a sorted index of their hashes in another.
type pack struct {
	path    string // without suffix
	hashLen int
	n       int64 // objects
	index   *os.File
	data    *os.File // nil: not opened yet
}

const (
	indexMagic = "\xfftOc\x00\x00\x00\x02"
	fanOut     = int64(len(indexMagic)) // where the table of first bytes begins
	names      = fanOut + 256*4         // where the hashes begin
)

// openPack opens the index of a pack; nil if it cannot be read.
func openPack(path string, hashLen int) *pack {
	f, err := open(path + ".idx")
	if err != nil {
		return nil
	}
	p := &pack{path: path, hashLen: hashLen, index: f}
	magic := make([]byte, len(indexMagic))
	_, err = f.ReadAt(magic, 0)
	n, ok := p.number(names - 4)
	if p.n = n; err != nil || !ok || string(magic) != indexMagic {
		f.Close()
		return nil
	}
	return p
}

// number reads a number of four bytes.
func (p *pack) number(at int64) (int64, bool) {
	var b [4]byte
	_, err := p.index.ReadAt(b[:], at)
	return int64(binary.BigEndian.Uint32(b[:])), err == nil
}

// find returns where in the pack an object is.
func (p *pack) find(hash []byte) (at int64, found bool) {
	low, ok := int64(0), true
	if hash[0] > 0 {
		low, ok = p.number(fanOut + 4*int64(hash[0]-1))
	}
	high, known := p.number(fanOut + 4*int64(hash[0]))
	if !ok || !known || high > p.n {
		return 0, false
	}
	name := make([]byte, p.hashLen)
	for low < high {
		middle := (low + high) / 2
		if _, err := p.index.ReadAt(name, names+middle*int64(p.hashLen)); err != nil {
			return 0, false
		}
		switch bytes.Compare(hash, name) {
		case 0:
			return p.offset(middle)
		case -1:
			high = middle
		default:
			low = middle + 1
		}
	}
	return 0, false
}

// offset returns where object i of the index is.
func (p *pack) offset(i int64) (int64, bool) {
	const crc, short, isLong = 4, 4, 1 << 31
	offsets := names + p.n*(int64(p.hashLen)+crc)
	at, ok := p.number(offsets + i*short)
	if !ok || at < isLong {
		return at, ok
	}
	var b [8]byte
	_, err := p.index.ReadAt(b[:], offsets+p.n*short+(at-isLong)*8)
	long := binary.BigEndian.Uint64(b[:])
	return int64(long), err == nil && long <= math.MaxInt64
}

// packed reads the object at a place in a pack.
func (o *objects) packed(p *pack, at int64, depth int) (kind, []byte, error) {
	if depth > maxChain {
		return 0, nil, errTooMuch
	}
	if p.data == nil {
		f, err := open(p.path + ".pack")
		if err != nil {
			return 0, nil, err
		}
		p.data = f
	}
	in := bufio.NewReader(io.NewSectionReader(p.data, at, math.MaxInt64-at))
	k, size, err := objectHeader(in)
	if err != nil {
		return 0, nil, err
	}
	var base func() (kind, []byte, error)
	switch k {
	case offsetDelta:
		back, err := distance(in)
		if err != nil || back <= 0 || back >= at {
			return 0, nil, errDamaged
		}
		base = func() (kind, []byte, error) { return o.packed(p, at-back, depth+1) }
	case hashDelta:
		hash := make([]byte, o.hashLen)
		if _, err := io.ReadFull(in, hash); err != nil {
			return 0, nil, err
		}
		base = func() (kind, []byte, error) { return o.object(hash, depth+1) }
	}
	z, err := zlib.NewReader(in)
	if err != nil {
		return 0, nil, err
	}
	text, err := o.inflated(z, size)
	if err != nil || base == nil {
		return k, text, err
	}
	k, from, err := base()
	if err != nil {
		return 0, nil, err
	}
	text, err = o.apply(text, from)
	return k, text, err
}

var errDamaged = errors.New("a damaged pack")

// objectHeader reads the kind and size of an object: groups of seven bits, the lowest first.
func objectHeader(in io.ByteReader) (k kind, size int64, err error) {
	b, err := in.ReadByte()
	k, size = kind(b>>4&7), int64(b&15)
	for shift := 4; err == nil && b >= 128 && shift < 32; shift += 7 {
		b, err = in.ReadByte()
		size |= int64(b&127) << shift
	}
	return k, size, err
}

// distance reads how far in front of a delta its base is: groups of seven bits, the highest first.
func distance(in io.ByteReader) (n int64, err error) {
	b, err := in.ReadByte()
	n = int64(b & 127)
	for i := 0; err == nil && b >= 128 && i < 8; i++ {
		b, err = in.ReadByte()
		n = (n+1)<<7 | int64(b&127)
	}
	return n, err
}

// apply makes an object of a delta and its base.
func (o *objects) apply(delta, base []byte) ([]byte, error) {
	from, n := binary.Uvarint(delta)
	if n <= 0 || from != uint64(len(base)) {
		return nil, errDamaged
	}
	delta = delta[n:]
	size, n := binary.Uvarint(delta)
	if n <= 0 || size > maxObject {
		return nil, errDamaged
	}
	if o.left -= int64(size); o.left < 0 {
		return nil, errTooMuch
	}
	delta = delta[n:]
	var text []byte
	for len(delta) > 0 {
		part, rest, ok := step(delta, base)
		if !ok || len(text)+len(part) > int(size) {
			return nil, errDamaged
		}
		text, delta = append(text, part...), rest
	}
	if len(text) != int(size) {
		return nil, errDamaged
	}
	return text, nil
}

// step returns what the first instruction of a delta adds: a part of the base, or bytes of its own.
func step(delta, base []byte) (part, rest []byte, ok bool) {
	op := delta[0]
	delta = delta[1:]
	if op < 128 {
		if op == 0 || int(op) > len(delta) {
			return nil, nil, false
		}
		return delta[:op], delta[op:], true
	}
	var numbers [7]int // the bytes of where and how many, those that are not zero
	for i := range numbers {
		if op>>i&1 == 0 {
			continue
		}
		if len(delta) == 0 {
			return nil, nil, false
		}
		numbers[i], delta = int(delta[0]), delta[1:]
	}
	at := numbers[0] | numbers[1]<<8 | numbers[2]<<16 | numbers[3]<<24
	n := numbers[4] | numbers[5]<<8 | numbers[6]<<16
	if n == 0 {
		n = 1 << 16
	}
	if at+n > len(base) {
		return nil, nil, false
	}
	return base[at : at+n], delta, true
}
