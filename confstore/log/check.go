package log

import (
	"fmt"
	"slices"
	"strings"

	"confcenter/kv"
)

// mostFaults is how many faults a Checker describes.
const mostFaults = 20

// Checker checks the entries of a log that no one writes to, as they come by: that what they
// refer to is there, and is what it says. Entries come in any order, but the newest of a key last.
type Checker struct {
	docs     map[string]Document   // by key
	newest   map[string][2]Version // of each name, newest first; the first may be of a change that does not count
	chunks   map[Digest]struct{}
	missing  map[Digest]string // the version that needs each
	unplaced bool              // a change of a build before is not in doc/NAME yet
	faults   []string
	more     int // faults that are not described

	// by key
	versions  map[string]made // which change made each
	completed map[string]struct{}
	changes   map[string]Made
	parts     map[string][]Touch
}

// made says which change made a version, and what it did.
type made struct {
	seq  uint64
	kind Kind
}

// NewChecker returns a Checker that has seen nothing.
func NewChecker() *Checker {
	return &Checker{docs: map[string]Document{}, newest: map[string][2]Version{}, chunks: map[Digest]struct{}{}, missing: map[Digest]string{},
		versions: map[string]made{}, changes: map[string]Made{}, parts: map[string][]Touch{}, completed: map[string]struct{}{}}
}

func (c *Checker) fault(format string, args ...any) {
	if len(c.faults) == mostFaults {
		c.more++
		return
	}
	c.faults = append(c.faults, fmt.Sprintf(format, args...))
}

// Entry takes the next entry; those of other namespaces do not matter.
func (c *Checker) Entry(e *kv.Entry) {
	var err error
	switch e.NS {
	case chunks:
		c.chunk(e)
	case versions:
		err = c.version(e)
	case changes:
		err = note(c.changes, e, decodeMade)
	case completed:
		err = note(c.completed, e, func(e *kv.Entry) (struct{}, error) {
			_, err := decoded[By](e)
			return struct{}{}, err
		})
	case touched:
		err = note(c.parts, e, decoded)
	case space:
		err = c.current(e)
	}
	if err != nil {
		c.fault("%v", err)
	}
}

// note has a map say what the newest entry of a key does.
func note[T any](m map[string]T, e *kv.Entry, read func(*kv.Entry) (T, error)) error {
	delete(m, e.Key)
	if e.Deleted() {
		return nil
	}
	what, err := read(e)
	if err == nil {
		m[e.Key] = what
	}
	return err
}

func decoded[T any](e *kv.Entry) (what T, err error) {
	err = decode(e.Key, e.Value.Data, &what)
	return what, err
}

// current takes an entry of what is known now.
func (c *Checker) current(e *kv.Entry) error {
	if strings.HasPrefix(e.Key, docPrefix) {
		return note(c.docs, e, document)
	}
	if e.Key != stateKey || e.Deleted() {
		return nil
	}
	now, err := decoded[state](e)
	c.unplaced = now.Parts > 0
	return err
}

func (c *Checker) chunk(e *kv.Entry) {
	var digest Digest
	if err := digest.UnmarshalText([]byte(e.Key)); err != nil {
		c.fault("chunk %q: %v", e.Key, err)
		return
	}
	switch {
	case e.Deleted():
		delete(c.chunks, digest)
		return
	case DigestOf(e.Value.Data) != digest:
		c.fault("chunk %s is not what its name says", e.Key)
	}
	c.chunks[digest] = struct{}{}
	delete(c.missing, digest)
}

func (c *Checker) version(e *kv.Entry) error {
	if e.Deleted() {
		delete(c.versions, e.Key)
		return nil
	}
	v, err := decodeVersion(e)
	if err != nil {
		return err
	}
	c.versions[e.Key] = made{v.Seq, v.Kind()}
	for _, digest := range v.Chunks {
		if _, there := c.chunks[digest]; !there {
			c.missing[digest] = e.Key
		}
	}
	if !v.Deleted && len(v.Chunks) == 0 && DigestOf(v.File) != v.Hash {
		c.fault("version %s: the file is not what was written", e.Key)
	}
	v.File, v.Chunks = nil, nil
	switch two := c.newest[v.Name]; {
	case v.N == two[0].N:
		c.newest[v.Name] = [2]Version{v, two[1]}
	case v.N > two[0].N:
		c.newest[v.Name] = [2]Version{v, two[0]}
	case v.N > two[1].N:
		c.newest[v.Name] = [2]Version{two[0], v}
	}
	return nil
}

// End returns what is wrong, and how many documents and versions there are.
func (c *Checker) End() (faults []string, documents, count int) {
	count = len(c.versions)
	for key := range c.completed {
		if _, there := c.versions[key[:strings.LastIndexByte(key, '/')]]; !there {
			c.fault("completion %s: there is no such version", key)
		}
	}
	for digest, key := range c.missing {
		c.fault("version %s: chunk %s is missing", key, digest)
	}
	if !c.unplaced { // else what is staged makes them right
		for _, d := range c.docs {
			c.document(d.Name, &d)
		}
		c.judgeChanges()
	}
	slices.Sort(c.faults)
	if c.more > 0 {
		c.faults = append(c.faults, fmt.Sprintf("and %d more", c.more))
	}
	return c.faults, len(c.docs), count
}

func (c *Checker) document(name string, d *Document) {
	two := c.newest[name]
	i := slices.IndexFunc(two[:], func(v Version) bool { return v.N == d.N })
	switch {
	case d.N == 0:
	case i < 0:
		c.fault("document %s: its newest version, %d, is missing", name, d.N)
	case two[i].Hash != d.Hash || two[i].Deleted != d.Deleted || two[i].Seq != d.Seq:
		c.fault("document %s is not its newest version, %d", name, d.N)
	}
}

// judgeChanges compares changes with the versions that they have made. Of a document the oldest
// versions may be gone, and a change of which none is left; versions that the document does not know
// are of a change that did not come about.
func (c *Checker) judgeChanges() {
	oldest := map[string]int64{}
	for key := range c.versions {
		if name, n, ok := splitVersionKey(key); ok && (oldest[name] == 0 || n < oldest[name]) {
			oldest[name] = n
		}
	}
	for _, m := range c.changes {
		seq := m.Seq
		touches := m.First
		if m.Parts > 0 {
			touches = nil
			for i := range m.Parts {
				touches = append(touches, c.parts[touchedKey(seq, i)]...)
			}
		}
		if len(touches) != m.Count {
			c.fault("change %d names %d documents of %d", seq, len(touches), m.Count)
			continue
		}
		for _, t := range touches {
			key := versionKey(t.Name, t.N)
			switch v, there := c.versions[key]; {
			case !there && t.N >= oldest[t.Name] && oldest[t.Name] > 0:
				c.fault("change %d: version %s, which it made, is missing", seq, key)
			case there && v != (made{seq, t.Kind}):
				c.fault("change %d: version %s is not what it made", seq, key)
			}
			delete(c.versions, key)
		}
	}
	for key := range c.versions {
		if name, n, ok := splitVersionKey(key); !ok || n <= c.docs[docPrefix+name].N {
			c.fault("version %s: no change has made it", key)
		}
	}
}

// Settled reports whether all changes are in doc/NAME.
func (c *Checker) Settled() bool { return !c.unplaced }

// Stays reports whether an entry may stay as it is when a store whose log is settled is taken back
// to an earlier revision: chunks are named by what they hold, and how far the log reaches may only
// rise.
func Stays(ns, key string) bool { return ns == chunks || ns == space && key == stateKey }
