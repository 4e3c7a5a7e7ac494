package confstore

import (
	"crypto/sha256"

	"confcenter/confstore/doclog"
	"confcenter/meta"
)

// rules is the _meta.json in force, and which documents inherit from which.
type rules struct {
	meta     *meta.Meta
	heirs    map[string][]string // by base, sorted
	problems []meta.Problem      // found while parsing
}

// parseRules takes nil for "there is no _meta.json".
func parseRules(text []byte) (*rules, error) {
	r := &rules{heirs: make(map[string][]string)}
	if text == nil {
		return r, nil
	}
	var err error
	if r.meta, r.problems, err = meta.Parse(text); err != nil {
		return nil, err
	}
	for _, name := range r.meta.Names() {
		bases, _ := r.meta.Bases(name)
		for _, base := range bases {
			r.heirs[base] = append(r.heirs[base], name)
		}
	}
	return r, nil
}

// listDigest changes whenever name's bases or the way to merge them change. It is zero if
// name has no entry.
func (r *rules) listDigest(name string) doclog.Digest {
	bases, listed := r.meta.Bases(name)
	if !listed {
		return doclog.Digest{}
	}
	h := sha256.New()
	if r.meta.Deep(name) {
		h.Write([]byte("deep"))
	}
	for _, base := range bases {
		h.Write([]byte{0})
		h.Write([]byte(base))
	}
	return doclog.Digest(h.Sum(nil))
}
