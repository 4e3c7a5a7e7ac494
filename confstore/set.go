package confstore

import (
	"confcenter/access"
	"confcenter/confstore/doclog"
)

// SetRequest asks for new contents of one document.
type SetRequest struct {
	// Name must pass CheckName.
	Name string
	// Contents is JSON of any kind; nil or null deletes the document. It is not
	// copied and must not change until done is called, nor after that if the error is
	// codes.Timeout.
	Contents []byte
	// Exact makes the file hold the bytes of Contents as they are: blanks, final newline,
	// spelling of strings. Without it the store formats them. The compact form is served
	// either way, so a mere change of formatting is written, but neither raises the version
	// nor notifies subscribers. A write that is finished after a crash is exact too.
	Exact bool
	// Mtime is the version the writer wants, in seconds. Without HasMtime, or if it is 0, the
	// store takes the current time, or one second more than the stored version. An mtime is
	// refused if it is older than the one last given or found, or more than a day ahead of
	// the clock and more than one above the version served.
	Mtime    int32
	HasMtime bool
	// IfMtime, with HasIfMtime, makes the write conditional on the version served now,
	// without inheritance; 0 means that the document must not exist.
	IfMtime    int32
	HasIfMtime bool
	// Base, unless it is nil, makes the write conditional on the file: it is the digest of its bytes,
	// zero if it must not exist. While a file is there that cannot be served, change.Broken, only a
	// Base that names its bytes holds; without any condition they are kept in DataDir.
	Base *doclog.Digest
	// Actor is who writes; subscribers receive it with the change. If it has a token, the same
	// change asked for again with it is not made again: the result is the version now served.
	Actor *access.Actor

	file, keep bool // see change.Document: Contents are a file, which may be null; or the document stays as it is
	resealed   bool // Contents are the file that Base names, but for the key by which values are sealed
}

// givesMtime: CppCloud's clients send 0 for "none".
func (r *SetRequest) givesMtime() bool { return r.HasMtime && r.Mtime != 0 }

// was reports whether Contents were in service, or are to be as someone has asked for when they could
// be: they are not held to what has been refused only since.
func (r *SetRequest) was() bool {
	return r.resealed || r.Actor != nil && (r.Actor.Origin == access.Rollback || r.Actor.Approver != "")
}

// SetResult describes what is stored.
type SetResult struct {
	// Mtime is the version now served, without inheritance. It is also set if the error is
	// codes.Older or codes.Conflict. For a document that never existed it is the given one.
	Mtime int32
	// Deleted tells that the request was to delete.
	Deleted bool
}
