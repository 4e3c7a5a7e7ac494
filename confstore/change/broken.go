package change

import (
	"strings"

	"confcenter/confstore/doclog"
)

// Broken is a file that is there but cannot be served as it is: somebody has edited it by hand, and
// made a mistake or not finished yet. As an error it says so; every interface has the same text.
type Broken struct {
	Name   string
	Reason string        // why it cannot be served
	Never  bool          // no version of it was ever served
	Hash   doclog.Digest // of the bytes that are there; zero: they cannot be read
	Text   []byte        // these bytes; nil: they cannot be read, or nobody may see them
}

// Error implements error.
func (b *Broken) Error() string {
	reason := strings.TrimPrefix(b.Reason, "is not valid JSON: ")
	if b.Never {
		return b.Name + " is broken and was never good: " + reason
	}
	return b.Name + " was edited by hand and is broken (" + reason + ")"
}
