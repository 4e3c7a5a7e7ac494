// Package journal reads the file in which versions before remembered the configurations: what
// was served of each document, tombstones, the last valid contents of files that are broken, and
// unfinished writes. Nothing is written there any more; what a journal has is taken over into the
// state store once.
package journal

import (
	"errors"
	"io/fs"
	"math"

	"confcenter/codes"
	"confcenter/internal/atomicfile"
)

// Name is the file in the data directory.
const Name = "config.journal"

// Document is what is remembered about one name.
type Document struct {
	Name    string
	Seq     uint64 // of the change that made it what it is
	Served  int32  // the version clients see
	Given   int32  // what the writer or the file said
	Deleted bool
	Text    []byte // compact; not used of a deletion
	File    []byte // the exact bytes of its file, if they are known
	Floor   int32  // the resolved version is not below it
	// List is half of the digest of its list of bases; zero: it had none, or the journal does not
	// know of one.
	List   [16]byte
	Listed bool // the journal knows
}

// Memory is all that a journal remembers. Its texts share one block of memory.
type Memory struct {
	Epoch     string
	Seq       uint64 // the highest
	Documents []Document
	// Torn is how many bytes at the end were left incomplete by a power cut. Nothing in them was
	// acknowledged.
	Torn int64
}

// Read reads the journal in root; nil if there is none. One that is damaged is refused. Of a write
// that was not finished there are two accounts: finished is asked whether its file is in place.
func Read(root atomicfile.Root, finished func(Document) bool) (*Memory, error) {
	data, _, err := atomicfile.ReadFile(root, Name, math.MaxInt64-1)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, codes.Errorf(codes.Storage, "journal %s: %w", Name, err)
	}
	old, err := replay(data)
	if err != nil {
		return nil, codes.Errorf(codes.Storage, "journal %s in the data directory: %w", Name, err)
	}
	return old.memory(finished), nil
}
