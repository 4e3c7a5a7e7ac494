package confstore

import (
	"crypto/sha256"

	"confcenter/meta"
)

// entry is what the store's goroutine knows about one name.
type entry struct {
	doc *document // nil: a file that was never good

	// as in the journal
	seq     uint64
	floor   int32
	list    digest
	listSeq uint64 // of the change that gave it list; 0 if that was before the start
	unsaved bool   // the journal could not be written and has an older state

	// the file as it was last read
	onDisk bool
	sig    signature
	broken string
}

func (e *entry) known() bool { return e != nil && e.doc != nil }
func (e *entry) live() bool  { return e.known() && !e.doc.deleted }

// put is the journal's record of the entry's state.
func (e *entry) put(name string) record {
	r := record{kind: recordPut, seq: e.seq, served: e.doc.served, given: e.doc.given, deleted: e.doc.deleted, name: name}
	if !r.deleted {
		r.text = e.doc.text
	}
	return r
}

func (e *entry) listRecord(name string) record {
	return record{kind: recordList, floor: e.floor, list: e.list, name: name}
}

// records is the whole state of an entry.
func (e *entry) records(name string) []record {
	if e.floor == 0 && e.list == (digest{}) {
		return []record{e.put(name)}
	}
	return []record{e.put(name), e.listRecord(name)}
}

// size is about what the entry takes in a journal without garbage.
func (e *entry) size(name string) int64 {
	if !e.known() {
		return 0
	}
	return int64(96 + 2*len(name) + len(e.doc.text))
}

// rules is _meta.json in force, and who inherits from whom.
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

// listDigest changes whenever name's bases or the way to merge them do. It is zero
// without an entry.
func (r *rules) listDigest(name string) digest {
	bases, listed := r.meta.Bases(name)
	if !listed {
		return digest{}
	}
	h := sha256.New()
	if r.meta.Deep(name) {
		h.Write([]byte("deep"))
	}
	for _, base := range bases {
		h.Write([]byte{0})
		h.Write([]byte(base))
	}
	return digest(h.Sum(nil)[:len(digest{})])
}
