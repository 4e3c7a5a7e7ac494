// Package documents is the vocabulary of a watch on documents, for TCP and HTTP: what is asked for, how an event is spelled, and
// what of it is at a key path. To those who follow them documents are entries of a store, in two namespaces.
package documents

import (
	"confcenter/codes"
	"confcenter/kv"
	"confcenter/meta"
)

// The namespaces of documents.
const (
	Own      = "own"      // as they are in their files
	Resolved = "resolved" // with what they inherit
)

// MaxPath is the longest path of a Watch, in bytes.
const MaxPath = 4096

// Watch is what a watch on documents asks for.
type Watch struct {
	// Filter is one document or all whose names begin with a prefix, own or resolved.
	Filter kv.Filter
	// Path is the key path of a part; empty: the whole document.
	Path string
	// From asks for the changes after that revision. 0 without Past means from now on.
	From kv.Revision
	Past bool // From applies even if it is 0
	// State asks for the current contents first.
	State bool
	// Prev asks for the contents before each change.
	Prev bool
	// Changes asks for the paths that changed instead of the contents.
	Changes bool
	// Reveal asks for sealed values revealed, as far as the caller may know them.
	Reveal bool
}

// ErrNameAndPrefix refuses a watch that has both: its filter could have only one of them.
var ErrNameAndPrefix error = codes.Errorf(codes.BadRequest, "name and prefix exclude each other")

// Complete completes the name, and returns what is wrong with the watch.
func (q *Watch) Complete() error {
	switch {
	case q.Past && q.State:
		return codes.Errorf(codes.BadRequest, "from and state exclude each other")
	case len(q.Path) > MaxPath:
		return codes.Errorf(codes.TooLarge, "a path has at most %d bytes", MaxPath)
	case q.Filter.Exact:
		q.Filter.Text = meta.Complete(q.Filter.Text)
	}
	return q.Filter.Check()
}
