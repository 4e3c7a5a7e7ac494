// Package ledger is what a store of configurations remembers across restarts and
// the directory alone cannot tell: versions that never fall, tombstones, the last
// good contents of files that are broken now, and writes that were begun.
//
// [Ledger] is the interface. The [Journal], a file of its own, is the first to have
// it; what keeps revisions anyway, as the log of a state store does, can be another.
// The way of a write is: temporary file, Commit, rename, publication, reply. A
// [Version] therefore holds the exact bytes of its file and the digest of those it
// replaces: with them and the file that is there a start decides for each document
// alone whether the write has to be finished or somebody has edited since.
package ledger

import (
	"crypto/sha256"
)

// Digest identifies a text; 128 bits of SHA-256, so that nobody can make two
// texts that look the same to a ledger.
type Digest [16]byte

// DigestOf is the digest of text.
func DigestOf(text []byte) Digest {
	sum := sha256.Sum256(text)
	return Digest(sum[:len(Digest{})])
}

// Version is the state of one document after a change.
type Version struct {
	Name    string
	Seq     uint64 // of the change; rises over all documents
	Served  int32  // the version clients see
	Given   int32  // what the writer or the file said
	Deleted bool
	Text    []byte // compact; not used of a deletion
	Write   *Write // what was, or is going to be, done to the file; nil: it was found so
}

// Write is how a version comes onto the disk.
type Write struct {
	// File is the exact bytes; nil of a deletion, and of a write that an older
	// program began: its file is Text as the store formats it.
	File     []byte
	Absent   bool   // there was no file before
	Replaces Digest // of the bytes before, zero if there were none or they could not be read
}

// List is the list of bases that a document is served with.
type List struct {
	Name   string
	Floor  int32  // the resolved version is not below it
	Digest Digest // of the list and of the way to merge; zero: the document has none
}

// Change is what becomes durable together. Of each name only the last version and
// the last list count.
type Change struct {
	Lists    []List // first: one that is remembered without its cause only makes a version rise
	Versions []Version
}

// Empty reports whether there is nothing to remember.
func (c *Change) Empty() bool { return len(c.Lists)+len(c.Versions) == 0 }

// Document is what is remembered of one name.
type Document struct {
	// Version is the newest. Its Write is nil if the file is known to be in place.
	Version
	List    List
	HasList bool
}

// Memory is all that a ledger remembers.
type Memory struct {
	Seq       uint64 // the highest
	Documents []Document
	// Torn is how many bytes at the end were cut off because a power cut had left
	// them incomplete. Nothing in them was acknowledged.
	Torn int64
}

// Ledger remembers. It is used by one goroutine.
type Ledger interface {
	// Epoch identifies the history of versions: random text that is made with the
	// ledger and kept for its life.
	Epoch() string
	// Recall is what was remembered when the ledger was opened. It is called once,
	// before anything else; the texts may share memory with all the others.
	Recall() (Memory, error)
	// Commit returns when c is durable. After an error nothing of it is, as far as
	// Err is nil, and a later Commit may work: the disk was full. Several writes in
	// one change share its cost.
	Commit(c Change) error
	// Placed notes that the files of writes are durable in their places. It is
	// remembered with a later Commit at the latest.
	Placed(seqs ...uint64)
	// TakeBack undoes writes that were committed and are not going to be placed: the
	// versions before them hold. After an error a later Commit or Close does it.
	TakeBack(seqs ...uint64) error
	// Tidy is called between changes, so that a ledger which holds mostly garbage
	// may begin anew with what counts: all, which is about live bytes. done tells that
	// it did and holds no more than that.
	Tidy(live int64, all func() Change) (done bool, err error)
	// Err is why nothing will be committed until a restart; nil: no reason.
	Err() error
	// Close makes what was noted durable, if it can, and ends the use.
	Close() error
}
