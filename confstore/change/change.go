// Package change has what is said of a change of several documents at once: what is asked for, and
// what has become of it.
package change

import (
	"strings"

	"confcenter/access"
	"confcenter/confstore/log"
	"confcenter/kv"
)

// Request asks for a change of several documents: all of it happens, or nothing.
type Request struct {
	// Documents are at most as many as a store may have; each name occurs once.
	Documents []Document
	// Actor is who asks; subscribers receive it with the change. If it has a token, the same change
	// asked for again with it is not made again, but answered with what the first one did, unless
	// that changed nothing: it has left no trace, and may be made now.
	Actor *access.Actor
	// Asked identifies what was asked for, if Documents follow from that and from what there was, so
	// that they are others when it is asked for again; zero: Documents are what was asked for.
	Asked log.Digest
	// Behind, unless it is 0, is the revision at which the caller looked at all documents to find
	// which to change. If any document was changed after it the change is refused with
	// codes.Conflict.
	Behind kv.Revision
	// Approved are the documents that its Actor's Approver has approved of, by name. If anything else
	// that is marked would change with them the change is refused with codes.Conflict.
	Approved []string
	// Check has nothing written: the result says what the change would do.
	Check bool
}

// Document is what becomes of one document.
type Document struct {
	Name string
	// File is the bytes of its file from now on; nil deletes the document. It is not copied and
	// must not change until the request is answered, nor after that if the error is codes.Timeout.
	File []byte
	// Keep leaves the document as it is, so that only Base counts.
	Keep bool
	// Base, unless it is nil, is the digest of the file that the change is based on, zero if there
	// was none. If another one is served by then, the change is refused with codes.Conflict.
	Base *log.Digest
}

// Result is what a change has done.
type Result struct {
	// Revision is that of the change; 0 if everything was as requested already, or if nothing was
	// to be written.
	Revision kv.Revision
	// Replayed: the change had been made before, with the same token. What it did is in the log.
	Replayed bool
	// Documents are those that the change touches, by name.
	Documents []Changed
	// Approval are the documents that it makes others of and that are only changed with another
	// person's approval, by name: they are among Documents, or inherit from one of these. A change
	// that is not only checked is held then, and not made.
	Approval []string
	// Told are the names of the documents that subscribers are told of, as they are themselves or
	// with what they inherit. They are not told of those of which only the layout has changed.
	Told []string
	// Refused says why nothing was changed, if that is for some of the documents, by name.
	Refused []Refusal
}

// Held is a change that needs another person's approval, as it is to be made then.
type Held struct {
	// Documents are all of the change, each with the Base that it was compared with. What was
	// to be sealed in them is.
	Documents []Document
	// Marked are those because of which it is held, as in Result.Approval.
	Marked []string
	// Linked are the other names of the files that it writes or removes, by symlinks, by name: they
	// change as well, marked or not.
	Linked []string
	Actor  *access.Actor
	// Asked identifies what was asked for: with the Actor's token it is held only once.
	Asked log.Digest
}

// Changed is what a change makes of a document.
type Changed struct {
	Name  string
	Kind  log.Kind
	Mtime int32 // the version served
	Size  int   // of the file
	Hash  log.Digest
	Was   log.Digest // the file that is replaced; zero: there was no document

	Broken *Broken // the file that is replaced, if it cannot be served
}

// Refusal is why one document cannot be changed.
type Refusal struct {
	Name string
	Err  error
}

// Broken is a file that is there but cannot be served as it is: someone has edited it by hand, and
// made a mistake or not finished yet.
type Broken struct {
	Name   string
	Reason string     // why it cannot be served
	Never  bool       // no version of it was ever served
	Hash   log.Digest // of the bytes that are there; zero: they cannot be read
	Text   []byte     // these bytes; nil: they cannot be read, or no one may see them
}

// Error is what every interface says of it.
func (b *Broken) Error() string { return b.Name + " " + b.Says() }

// Says is Error without the name.
func (b *Broken) Says() string {
	reason := strings.TrimPrefix(b.Reason, "is not valid JSON: ")
	if b.Never {
		return "is broken and was never good: " + reason
	}
	return "was edited by hand and is broken (" + reason + ")"
}
