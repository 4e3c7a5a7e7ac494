package doclog

import (
	"fmt"
	"slices"
	"strings"

	"confcenter/kv"
)

// mostFaults is how many faults a Checker describes.
const mostFaults = 20

// Checker checks the entries of a log that nobody writes to, as they come by: that what they
// refer to is there, and is what it says. Entries come in any order, but the newest of a key last.
type Checker struct {
	docs     map[string]Document
	newest   map[string][2]Version // of each name, newest first; the first may be of a change that does not count
	chunks   map[Digest]struct{}
	missing  map[Digest]string // the version that needs each
	unplaced bool              // a change is not in doc/NAME yet
	faults   []string
	more     int // faults that are not described
	versions int
}

// NewChecker returns a Checker that has seen nothing.
func NewChecker() *Checker {
	return &Checker{docs: map[string]Document{}, newest: map[string][2]Version{}, chunks: map[Digest]struct{}{}, missing: map[Digest]string{}}
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
	switch {
	case e.NS == chunks:
		c.chunk(e)
	case e.Deleted():
		if name, isDoc := strings.CutPrefix(e.Key, docPrefix); e.NS == space && isDoc {
			delete(c.docs, name)
		}
	case e.NS == versions:
		var v Version
		if v, err = decodeVersion(e); err == nil {
			c.version(v)
		}
	case e.NS == space && e.Key == stateKey:
		var now state
		err = decode(e.Key, e.Value.Data, &now)
		c.unplaced = now.Parts > 0
	case e.NS == space && strings.HasPrefix(e.Key, docPrefix):
		var d Document
		if d, err = document(e); err == nil {
			c.docs[d.Name] = d
		}
	}
	if err != nil {
		c.fault("%v", err)
	}
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

func (c *Checker) version(v Version) {
	c.versions++
	key := versionKey(v.Name, v.N)
	for _, digest := range v.Chunks {
		if _, there := c.chunks[digest]; !there {
			c.missing[digest] = key
		}
	}
	if !v.Deleted && len(v.Chunks) == 0 && DigestOf(v.File) != v.Hash {
		c.fault("version %s: the file is not what was written", key)
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
}

// End returns what is wrong, and how many documents and versions there are.
func (c *Checker) End() (faults []string, documents, versions int) {
	for digest, key := range c.missing {
		c.fault("version %s: chunk %s is missing", key, digest)
	}
	for name, d := range c.docs {
		if c.unplaced {
			break // what is staged makes them right
		}
		two := c.newest[name]
		i := slices.IndexFunc(two[:], func(v Version) bool { return v.N == d.N })
		switch {
		case d.N == 0:
		case i < 0:
			c.fault("document %s: its newest version, %d, is missing", name, d.N)
		case two[i].Hash != d.Hash || two[i].Deleted != d.Deleted:
			c.fault("document %s is not its newest version, %d", name, d.N)
		}
	}
	slices.Sort(c.faults)
	if c.more > 0 {
		c.faults = append(c.faults, fmt.Sprintf("and %d more", c.more))
	}
	return c.faults, len(c.docs), c.versions
}

// Settled reports whether all changes are in doc/NAME.
func (c *Checker) Settled() bool { return !c.unplaced }

// Stays reports whether an entry may stay as it is when a store whose log is settled is taken back
// to an earlier revision: chunks are named by what they hold, and how far the log reaches may only
// rise.
func Stays(ns, key string) bool { return ns == chunks || ns == space && key == stateKey }
