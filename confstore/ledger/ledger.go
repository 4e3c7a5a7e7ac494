// Package ledger keeps what a store of configurations has to remember across restarts and cannot
// see from the directory: versions that never fall, tombstones, the last valid contents of files
// that are broken now, and unfinished writes.
//
// [Ledger] is the interface. The [Journal], a file of its own, is its first implementation; a store
// that keeps revisions anyway, such as the log of a state store, can be another. The steps of a
// write are: temporary file, Commit, rename, publication, reply. A [Version] therefore holds the
// exact bytes of its file and the digest of those it replaces. Comparing them with the file on disk,
// a restart decides for each document separately whether the write has to be finished or the file
// has been edited since.
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
	Write   *Write // what was or will be done to the file; nil: the version was found on disk
}

// Write is how a version gets onto the disk.
type Write struct {
	// File is the exact bytes. It is nil for a deletion, and for a write begun by an older
	// program, whose file is Text as the store formats it.
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

// Change is what becomes durable together. For each name only the last version and the last list
// count.
type Change struct {
	Lists    []List // first: one that is remembered without its cause only makes a version rise
	Versions []Version
}

// Empty reports whether there is nothing to remember.
func (c *Change) Empty() bool { return len(c.Lists)+len(c.Versions) == 0 }

// Document is what is remembered about one name.
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
	// Recall returns what was remembered when the ledger was opened. It is called once, before
	// anything else. The texts may all share one block of memory.
	Recall() (Memory, error)
	// Commit returns when c is durable. If it fails and Err is nil, nothing of c was written and
	// a later Commit may succeed, for example when the disk was full. Several writes in one
	// change share its cost.
	Commit(c Change) error
	// Placed records that the files of writes are durably in place. That becomes durable with a
	// later Commit at the latest.
	Placed(seqs ...uint64)
	// TakeBack undoes writes that were committed and will not be placed: the versions before them
	// apply again. After an error a later Commit or Close does it.
	TakeBack(seqs ...uint64) error
	// Untidy reports whether most of the ledger is garbage, given that all that counts is about
	// live bytes. It is cheap.
	Untidy(live int64) bool
	// Renew replaces everything that is remembered by all, in new files: unfinished writes are
	// forgotten, and if it succeeds, Err is nil from then on.
	Renew(all Change) error
	// Err returns why nothing is committed until Renew has succeeded; nil if commits are possible.
	Err() error
	// Close makes what was recorded durable, if it can, and releases the ledger.
	Close() error
}
