package confstore

import (
	"errors"
	"io/fs"

	"confcenter/confstore/doclog"
	"confcenter/internal/atomicfile"
	"confcenter/kv"
)

// placer puts the files of committed versions in place. One that cannot be put there is served
// nonetheless, and tried again. Only the store's goroutine uses it.
type placer struct {
	// set at open
	dir    *directory
	syncer *syncer

	owed map[string]*owedFile // store's goroutine only: files that are not in place, by name
}

// owedFile is a version whose file has to be put in place.
type owedFile struct {
	version doclog.Version      // with its file
	pending *atomicfile.Pending // nil: not made yet, or not needed
	with    string              // the name of the file that it comes in place with, to which it is a link; "": it is a file
}

// inPlace notes that files are in place.
func (p *placer) inPlace(files ...placedFile) {
	for _, f := range files {
		p.forgive(f.name)
	}
	p.syncer.add(files, p.bound())
}

// forgive puts nothing in place of a file any more.
func (p *placer) forgive(name string) {
	if o := p.owed[name]; o != nil {
		o.discard()
		p.dir.problems.set(OfFile, name, "")
		delete(p.owed, name)
	}
}

// bound is the revision from which on files are not in place; 0: all are.
func (p *placer) bound() (first kv.Revision) {
	for _, o := range p.owed {
		if first == 0 || o.version.Revision < first {
			first = o.version.Revision
		}
	}
	return first
}

// place puts the files of versions in place, given what was there. Until all are, none of them counts
// as the last one that is missing. A file that was changed since it was read is someone's edit, and
// stays for retry to look at: overtaken. Those that are in place are for inPlace.
func (p *placer) place(list []*owedFile, before []reading) (placed []placedFile, overtaken bool) {
	for _, o := range list {
		p.owed[o.version.Name] = o
	}
	done := func(o *owedFile) {
		delete(p.owed, o.version.Name)
		placed = append(placed, placedFile{name: o.version.Name, rev: o.version.Revision})
	}
	for i, o := range list {
		switch {
		case o.with != "":
		case p.dir.changedSince(&before[i]):
			overtaken = true
		default:
			if err := p.put(o, before[i]); err != nil {
				p.trouble(o.version.Name, err)
				continue
			}
			p.dir.problems.set(OfFile, o.version.Name, "")
			done(o)
		}
	}
	for _, o := range list {
		if o.with != "" && p.owed[o.with] == nil {
			done(o)
		}
	}
	return placed, overtaken
}

// stale reports whether a file is not an edit, but what a version that is owed replaces.
func (p *placer) stale(r reading) bool {
	o := p.owed[r.name]
	return o != nil && r.raw == o.version.Replaces && r.missing == (o.version.Replaces == doclog.Digest{}) && !r.isDir
}

// meant is what a file is as soon as what is owed can be put in place.
func (p *placer) meant(r reading) reading {
	if p.stale(r) {
		v := &p.owed[r.name].version
		r.missing, r.fault, r.raw = v.Deleted, "", v.Hash
	}
	return r
}

// retry tries to put files in place. It returns the names of those that were changed meanwhile.
func (p *placer) retry() (edited []string) {
	for name, o := range p.owed {
		now := p.dir.read(name, true)
		p.dir.room.done([]reading{now})
		switch {
		case now.missing == o.version.Deleted && now.raw == o.version.Hash:
			p.inPlace(placedFile{name: name, rev: o.version.Revision})
		case p.stale(now):
			placed, _ := p.place([]*owedFile{o}, []reading{now})
			p.inPlace(placed...)
		default:
			p.forgive(name)
			edited = append(edited, name)
		}
	}
	return edited
}

// trouble reports why a file cannot be put in place.
func (p *placer) trouble(name string, err error) {
	p.dir.problems.set(OfFile, name, storageError(name, "cannot replace in the configuration directory", err).Error()+"; its new version is served, and the file is written when it can be")
}

func (o *owedFile) discard() {
	if o.pending != nil {
		_ = o.pending.Discard() // a start removes what is left
	}
}

// put makes the file what its version says, given what is there.
func (p *placer) put(o *owedFile, before reading) error {
	v := &o.version
	if v.Deleted {
		if err := p.dir.root.Remove(v.Name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	if o.pending == nil {
		var err error
		if o.pending, err = p.dir.prepare(v.Name, v.File, v.Given, before); err != nil {
			return err
		}
	}
	return o.pending.Rename()
}

// bytesOf are the bytes of the file that a node is served from: those on the disk, unless they
// have changed again.
func (p *placer) bytesOf(n *Node) []byte {
	if n.Deleted() {
		return nil
	}
	now := p.dir.read(n.name, true)
	p.dir.room.done([]reading{now})
	if now.raw == n.own.hash && now.data != nil {
		return now.data
	}
	return ownLayout.Append(nil, n.own.text)
}
