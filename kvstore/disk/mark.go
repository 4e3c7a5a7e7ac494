package disk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"

	"confcenter/codes"
	"confcenter/kv"
)

// The mark is a small file beside the database that says how far acknowledged writes
// reach. A database whose last log file was cut, emptied or removed opens without
// complaint, only shorter; the mark reveals that. It is written after a group is durable
// and before it is acknowledged, so it survives the end of the process. It is synced about
// once a second, so after a power cut it may be a little behind, but never ahead. Two slots
// in different sectors are written in turn: a torn write leaves the other one intact.
const (
	markName   = "durable.mark"
	slotSize   = 40
	slotStride = 4096
	markMagic  = 0x6363_6d61_726b_3031 // "ccmark01"
)

// markState is what a slot says.
type markState struct {
	format   uint32
	born     bool // the database beside it has been made
	sequence uint64
	revision kv.Revision
}

func (s markState) encode() (slot [slotSize]byte) {
	binary.BigEndian.PutUint64(slot[0:], markMagic)
	binary.BigEndian.PutUint32(slot[8:], s.format)
	if s.born {
		slot[15] = 1
	}
	binary.BigEndian.PutUint64(slot[16:], s.sequence)
	binary.BigEndian.PutUint64(slot[24:], uint64(s.revision))
	binary.BigEndian.PutUint32(slot[36:], crc32.Checksum(slot[:36], castagnoli))
	return slot
}

func decodeMark(slot []byte) (s markState, ok bool) {
	if len(slot) != slotSize || binary.BigEndian.Uint64(slot) != markMagic ||
		binary.BigEndian.Uint32(slot[36:]) != crc32.Checksum(slot[:36], castagnoli) {
		return s, false
	}
	return markState{
		format:   binary.BigEndian.Uint32(slot[8:]),
		born:     slot[15] == 1,
		sequence: binary.BigEndian.Uint64(slot[16:]),
		revision: kv.Revision(binary.BigEndian.Uint64(slot[24:])),
	}, true
}

// mark is the open file.
type mark struct {
	file vfs.File

	mu    sync.Mutex // guards what follows; the file is written under it, synced without
	state markState
	dirty bool
}

// readMark reads the mark of dir; known is false if there is none that can be read.
func readMark(fsys vfs.FS, path string) (s markState, known bool, err error) {
	file, err := fsys.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return s, false, nil
	}
	if err != nil {
		return s, false, fmt.Errorf("opening %s: %w", markName, err)
	}
	defer file.Close()
	for i := range 2 {
		var slot [slotSize]byte
		if _, err := file.ReadAt(slot[:], int64(i)*slotStride); err != nil && !errors.Is(err, io.EOF) {
			return s, false, fmt.Errorf("reading %s: %w", markName, err)
		}
		if one, ok := decodeMark(slot[:]); ok && (!known || one.sequence > s.sequence) {
			s, known = one, true
		}
	}
	if known && s.format > markVersion {
		return s, true, codes.Errorf(codes.Storage, "the store was written by a newer version: its format is %d, this one reads up to %d", s.format, markVersion)
	}
	return s, known, nil
}

// createMark makes a mark anew, with both slots, and makes it durable.
func createMark(fsys vfs.FS, dir, path string, s markState) (*mark, error) {
	s.format = markVersion
	file, err := fsys.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, fmt.Errorf("creating %s: %w", markName, err)
	}
	m := &mark{file: file, state: s}
	err = m.writeBoth()
	if err == nil {
		err = syncDir(fsys, dir)
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return m, nil
}

// openMark opens the mark that readMark has read.
func openMark(fsys vfs.FS, path string, s markState) (*mark, error) {
	file, err := fsys.OpenReadWrite(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", markName, err)
	}
	return &mark{file: file, state: s}, nil
}

// set replaces what the mark says, in both slots, durably.
func (m *mark) set(born bool, revision kv.Revision) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state.format, m.state.born, m.state.revision = markVersion, born, revision
	return m.writeBoth()
}

// writeBoth syncs after each slot, so that one is whole whatever happens.
func (m *mark) writeBoth() error {
	for range 2 {
		if err := m.write(); err != nil {
			return err
		}
		if err := m.file.Sync(); err != nil {
			return fmt.Errorf("syncing %s: %w", markName, err)
		}
	}
	m.dirty = false
	return nil
}

// advance records that revision is durable. It costs one write to the page cache.
func (m *mark) advance(revision kv.Revision) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state.revision = max(m.state.revision, revision)
	m.dirty = true
	return m.write()
}

// touch writes what the mark says already.
func (m *mark) touch() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.write()
}

func (m *mark) write() error {
	m.state.sequence++
	slot := m.state.encode()
	if _, err := m.file.WriteAt(slot[:], int64(m.state.sequence%2)*slotStride); err != nil {
		return fmt.Errorf("writing %s: %w", markName, err)
	}
	return nil
}

// sync makes what was written durable, without the lock, so that advance does not wait for
// the disk.
func (m *mark) sync() error {
	m.mu.Lock()
	dirty := m.dirty
	m.dirty = false
	m.mu.Unlock()
	if !dirty {
		return nil
	}
	if err := m.file.SyncData(); err != nil {
		return fmt.Errorf("syncing %s: %w", markName, err)
	}
	return nil
}

func (m *mark) revision() kv.Revision {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state.revision
}

func (m *mark) close() error { return m.file.Close() }

func syncDir(fsys vfs.FS, dir string) error {
	d, err := fsys.OpenDir(dir)
	if err != nil {
		return fmt.Errorf("opening the data directory: %w", err)
	}
	err = d.Sync()
	if closed := d.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return fmt.Errorf("syncing the data directory: %w", err)
	}
	return nil
}
