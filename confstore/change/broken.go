package change

import (
	"strings"

	"confcenter/confstore/doclog"
)

// Broken is a file that is there but cannot be served as it is: someone has edited it by hand, and
// made a mistake or not finished yet.
type Broken struct {
	Name   string
	Reason string        // why it cannot be served
	Never  bool          // no version of it was ever served
	Hash   doclog.Digest // of the bytes that are there; zero: they cannot be read
	Text   []byte        // these bytes; nil: they cannot be read, or no one may see them
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
