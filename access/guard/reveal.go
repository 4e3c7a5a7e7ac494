package guard

import (
	"strings"

	"confcenter/access/policy"
	"confcenter/access/seal"
)

// Reveals reports whether the caller may know a value that was sealed there: config:NAME. It is a
// right to where a value comes from, wherever it is read.
func (c *Caller) Reveals(origin string) bool {
	if c == nil {
		return true
	}
	name, ok := strings.CutPrefix(origin, seal.OfDocument)
	return ok && c.Document(policy.Reveal, name) == nil
}

// Revealed is valid JSON with those of its sealed values revealed that the caller may know; valid
// itself if there are none. The result is the caller's alone, and not to be kept for others.
func (c *Caller) Revealed(ring *seal.Ring, valid []byte) []byte {
	if ring == nil || !seal.Has(valid) {
		return valid
	}
	return ring.AppendRevealed(nil, valid, c.Reveals)
}
