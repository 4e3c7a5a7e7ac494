package disk

import (
	"encoding/binary"
	"io"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"confcenter/codes"
	"confcenter/kv"
)

// copyBytes is about how much of a copy is read at a time.
const copyBytes = 512 << 10

// Copy is all rows at one moment: what a crash at that moment would have left. It implements
// kv.Copy. Between two calls of Next it refers to files that would else be removed, but holds
// nothing in memory.
type Copy struct {
	// set at its beginning
	d        *Disk
	revision kv.Revision
	time     int64
	upper    []byte // of the last log record that counts
	pressed  bool   // there was hardly any space already

	from []byte // of Next

	mu     sync.Mutex
	snap   *pebble.Snapshot // guarded by mu; nil: let go
	busy   bool             // guarded by mu: Next is reading
	closed bool             // guarded by mu
}

// copies are those that are open, so that Close can end them.
type copies struct {
	mu   sync.Mutex
	open map[*Copy]struct{} // guarded by mu
}

// Copy begins a copy of the newest revision.
func (d *Disk) Copy() (kv.Copy, error) {
	if err := d.usable(); err != nil {
		return nil, err
	}
	defer d.life.RUnlock()
	c := &Copy{d: d, time: d.cfg.Clock.Now().UnixMilli(), from: []byte{0}, pressed: d.noSpace() != nil, snap: d.db.NewSnapshot()}
	// Taken behind the snapshot: its newest group may not have been acknowledged, and may never be.
	if err := c.findEnd(kv.Revision(d.newest.Load())); err != nil {
		c.Close()
		return nil, err
	}
	d.copies.mu.Lock()
	defer d.copies.mu.Unlock()
	if d.copies.open == nil {
		d.copies.open = map[*Copy]struct{}{}
	}
	d.copies.open[c] = struct{}{}
	return c, nil
}

// findEnd finds the last group up to a revision.
func (c *Copy) findEnd(newest kv.Revision) error {
	row, closer, err := c.snap.Get(metaKey)
	if err != nil {
		return damaged("meta", err)
	}
	tables, err := decodeMeta(row)
	_ = closer.Close()
	if err != nil {
		return damaged("meta", err)
	}
	c.revision, c.upper = tables.revision, []byte{logKind}
	it, err := c.snap.NewIter(&pebble.IterOptions{LowerBound: []byte{logKind}, UpperBound: []byte{logKind + 1}})
	if err != nil {
		return damaged("log", err)
	}
	defer it.Close()
	for ok := it.Last(); ok; ok = it.Prev() {
		g, err := readGroup(it)
		if err != nil {
			return damaged("log", err)
		}
		if g.last() <= max(newest, tables.revision) {
			c.revision = max(c.revision, g.last())
			c.upper = append(append([]byte(nil), it.Key()...), 0)
			return nil
		}
	}
	return it.Error()
}

// noSpace returns why not even deletes are taken.
func (d *Disk) noSpace() error {
	if v := d.gate.verdict.Load(); v != nil {
		return v.deletes
	}
	return nil
}

// Revision implements kv.Copy.
func (c *Copy) Revision() kv.Revision { return c.revision }

// Time implements kv.Copy.
func (c *Copy) Time() int64 { return c.time }

// Next implements kv.Copy.
func (c *Copy) Next(dst []byte) ([]byte, error) {
	if err := c.d.usable(); err != nil {
		return nil, err
	}
	defer c.d.life.RUnlock()
	if err := c.d.noSpace(); err != nil && !c.pressed {
		return nil, codes.Errorf(codes.Storage, "the copy has ended, because it keeps space from being freed: %w", err)
	}
	c.mu.Lock()
	c.busy = true
	snap := c.snap
	c.mu.Unlock()
	defer c.rest()
	if snap == nil {
		return nil, codes.Errorf(codes.Closed, "the copy is closed")
	}
	it, err := snap.NewIter(&pebble.IterOptions{LowerBound: c.from, UpperBound: c.upper})
	if err != nil {
		return nil, damaged("rows", err)
	}
	defer it.Close()
	start := len(dst)
	for ok := it.First(); ok && len(dst)-start < copyBytes; ok = it.Next() {
		value, err := it.ValueAndErr()
		if err != nil {
			return nil, damaged("rows", err)
		}
		dst = appendRow(dst, it.Key(), value)
		c.from = append(append(c.from[:0], it.Key()...), 0)
	}
	if err := it.Error(); err != nil {
		return nil, damaged("rows", err)
	}
	if len(dst) == start {
		return dst, io.EOF
	}
	return dst, nil
}

// rest ends a read.
func (c *Copy) rest() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.busy = false
	c.letGoLocked()
}

// Close implements kv.Copy.
func (c *Copy) Close() {
	c.d.copies.mu.Lock()
	delete(c.d.copies.open, c)
	c.d.copies.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.letGoLocked()
}

// letGoLocked lets go of the snapshot if it is not needed any more.
func (c *Copy) letGoLocked() {
	if c.closed && !c.busy && c.snap != nil {
		_ = c.snap.Close()
		c.snap = nil
	}
}

// end closes all copies, none of which is being read.
func (l *copies) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.open {
		c.mu.Lock()
		c.closed = true
		c.letGoLocked()
		c.mu.Unlock()
	}
	l.open = nil
}

func appendRow(dst, key, value []byte) []byte {
	dst = append(binary.AppendUvarint(dst, uint64(len(key))), key...)
	return append(binary.AppendUvarint(dst, uint64(len(value))), value...)
}
