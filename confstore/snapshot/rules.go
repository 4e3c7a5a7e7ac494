package snapshot

import (
	"cmp"
	"crypto/sha256"
	"slices"

	"confcenter/confstore/log"
	"confcenter/meta"
)

// Rules is the _meta.json in force, and which documents inherit from which.
type Rules struct {
	Meta     *meta.Meta          // the last valid one, nil if there is none
	Heirs    map[string][]string // by base, sorted
	problems []meta.Problem      // found while parsing
}

// ParseRules takes nil for "there is no _meta.json".
func ParseRules(text []byte) (*Rules, error) {
	r := &Rules{Heirs: make(map[string][]string)}
	if text == nil {
		return r, nil
	}
	var err error
	if r.Meta, r.problems, err = meta.Parse(text); err != nil {
		return nil, err
	}
	for _, name := range r.Meta.Names() {
		bases, _ := r.Meta.Bases(name)
		for _, base := range bases {
			r.Heirs[base] = append(r.Heirs[base], name)
		}
	}
	return r, nil
}

// ListDigest changes whenever name's bases or the way to merge them change. It is zero if
// name has no entry.
func (r *Rules) ListDigest(name string) log.Digest {
	bases, listed := r.Meta.Bases(name)
	if !listed {
		return log.Digest{}
	}
	h := sha256.New()
	if r.Meta.Deep(name) {
		h.Write([]byte("deep"))
	}
	for _, base := range bases {
		h.Write([]byte{0})
		h.Write([]byte(base))
	}
	return log.Digest(h.Sum(nil))
}

// MetaProblems are what is wrong with the _meta.json in force, given the documents that there are. broken
// says what is wrong with a file that was never good; "" if there is none.
func (s *Snapshot) MetaProblems(broken func(name string) string) []meta.Problem {
	return append(slices.Clone(s.rules.problems), s.rules.Meta.CheckEach(func(name string) string {
		if n := s.Node(name); n.Live() {
			if !n.own.object() {
				return meta.NoObject
			}
			return ""
		}
		return cmp.Or(broken(name), "does not exist")
	})...)
}
