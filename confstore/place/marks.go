// Package place knows which files of a configuration directory are in place, and decides at
// a start what a file is that differs from its newest version: an edit, or what a crash has left.
//
// A version is committed to the log before its file is renamed into place, and files are made
// durable in the background. [Marks] tells, on this machine and outside the log, how far that
// has got: which files are placed, and through which revision all are durable. [Judge] has the
// rules.
package place

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"maps"
	"math"
	"os"
	"slices"

	"confcenter/codes"
	"confcenter/internal/atomicfile"
	"confcenter/kv"
)

// MarksName is the file of Marks in the data directory.
const MarksName = "config.placed"

// File is the file of a version that is in place.
type File struct {
	Name     string
	Revision kv.Revision
	State    string // of its repository, if it was found on disk, before it was read; "": not known
}

// Identity shows with one stat whether a file is the one that was placed.
type Identity struct {
	Inode               uint64
	Size, Mtime, Change int64 // bytes, and ns since 1970
}

// mark says that the file of a version is in place.
type mark struct {
	revision kv.Revision
	file     Identity
}

// Marks is the file that says how far files are in place: a line that begins with the boot of
// the machine in which it was written, and the revision through which all files are durable;
// then a line for each file of a later version. Each line ends with its checksum. Lines are
// appended without a sync: they are for a process that comes after this one in the same boot.
// One goroutine uses it.
type Marks struct {
	root atomicfile.Root // set at open
	boot string          // set at open: of the machine, now

	file   atomicfile.File
	size   int64
	synced kv.Revision
	placed map[string]mark
	again  bool // the machine has not been started since the file was written
}

// Open reads the marks in root, or begins new ones. boot identifies the time since the machine
// was started. What is damaged counts as not marked: that is safe, since a file that is not
// known to be in place is compared with the log.
func Open(root atomicfile.Root, boot string) (*Marks, error) {
	m := &Marks{root: root, boot: boot, placed: map[string]mark{}}
	data, _, err := atomicfile.ReadFile(root, MarksName, math.MaxInt64-1)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, codes.Errorf(codes.Storage, "%s in the data directory: %w", MarksName, err)
	}
	m.read(data)
	return m, nil
}

// Again reports whether the machine has not been started since the marks were written.
func (m *Marks) Again() bool { return m.again }

// Synced is the revision through which all files are durable.
func (m *Marks) Synced() kv.Revision { return m.synced }

// Placed reports whether the file of a version is marked as placed.
func (m *Marks) Placed(name string, rev kv.Revision) bool {
	return rev <= m.synced || m.placed[name].revision == rev
}

// Place marks the file of a version as placed. After an error it is not, which does no harm until
// the process ends.
func (m *Marks) Place(name string, rev kv.Revision, file Identity) error {
	m.placed[name] = mark{rev, file}
	if m.file == nil {
		return m.Advance(m.synced)
	}
	text := line(nil, name, m.placed[name])
	if _, err := m.file.WriteAt(text, m.size); err != nil {
		return err
	}
	m.size += int64(len(text))
	return nil
}

// Advance says durably that all files of versions through rev are. Marks of those go.
func (m *Marks) Advance(rev kv.Revision) error {
	m.synced = max(m.synced, rev)
	maps.DeleteFunc(m.placed, func(_ string, one mark) bool { return one.revision <= m.synced })
	text := sealed(fmt.Appendf(nil, "placed 1 %s %d", m.boot, m.synced))
	for _, name := range slices.Sorted(maps.Keys(m.placed)) {
		text = line(text, name, m.placed[name])
	}
	if err := atomicfile.Write(m.root, MarksName, text, atomicfile.Attr{Perm: 0o600}); err != nil {
		return err
	}
	file, err := m.root.OpenFile(MarksName, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	err = m.Close()
	m.file, m.size, m.again = file, int64(len(text)), true
	return err
}

// Close ends the use of the file.
func (m *Marks) Close() error {
	if m.file == nil {
		return nil
	}
	return m.file.Close()
}

// line appends the line of a mark.
func line(dst []byte, name string, one mark) []byte {
	return append(dst, sealed(fmt.Appendf(nil, "%d %d %d %d %d %q", one.revision, one.file.Inode, one.file.Size, one.file.Mtime, one.file.Change, name))...)
}

// sealed is a line with its checksum.
func sealed(text []byte) []byte {
	return fmt.Appendf(text, " %08x\n", crc32.ChecksumIEEE(text))
}

// unsealed is a line without its checksum; false if that is wrong.
func unsealed(text []byte) (string, bool) {
	i := bytes.LastIndexByte(text, ' ')
	if i < 0 || string(sealed(slices.Clone(text[:i]))) != string(text)+"\n" {
		return "", false
	}
	return string(text[:i]), true
}

func (m *Marks) read(data []byte) {
	first := true
	for text := range bytes.Lines(data) {
		body, ok := unsealed(bytes.TrimSuffix(text, []byte("\n")))
		if !ok {
			return // torn, or damaged: nothing behind it counts
		}
		if first {
			var boot string
			if _, err := fmt.Sscanf(body, "placed 1 %s %d", &boot, &m.synced); err != nil {
				m.synced = 0
				return
			}
			m.again, first = boot == m.boot, false
			continue
		}
		var one mark
		var name string
		if _, err := fmt.Sscanf(body, "%d %d %d %d %d %q", &one.revision, &one.file.Inode, &one.file.Size, &one.file.Mtime, &one.file.Change, &name); err != nil {
			return
		}
		m.placed[name] = one
	}
}
