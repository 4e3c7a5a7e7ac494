package confstore

import (
	"bytes"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"

	"confcenter/codes"
	"confcenter/confstore/log"
	"confcenter/confstore/snapshot"
	"confcenter/internal/atomicfile"
)

// maxLinks is how many symlinks a name may lead through, as on Linux.
const maxLinks = 40

// linkReader is what it takes to follow symlinks below a directory.
type linkReader interface {
	Lstat(name string) (fs.FileInfo, error)
	Readlink(name string) (string, error)
}

// way returns the entries of directories that a name leads through, none of which has a symlink in
// front of it: its own, and while that is a symlink the next. It ends with one that is none, or not
// there. It is nil of a name that leads out of root or in a circle.
func way(root linkReader, name string) (places []string) {
	at, rest := ".", strings.Split(name, "/")
	for links := 0; len(rest) > 0; {
		part := rest[0]
		switch rest = rest[1:]; part {
		case "", ".":
			continue
		case "..":
			if at == "." {
				return nil
			}
			at = path.Dir(at)
			continue
		}
		next := path.Join(at, part)
		if len(rest) == 0 {
			places = append(places, next)
		}
		if info, err := root.Lstat(next); err != nil || info.Mode()&fs.ModeSymlink == 0 {
			at = next
			continue
		}
		target, err := root.Readlink(next)
		if links++; err != nil || links > maxLinks || path.IsAbs(target) {
			return nil
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	if len(places) == 0 || places[len(places)-1] != at {
		places = append(places, at)
	}
	return places
}

// RoleFault is why a role is not served though its file can be: by another name its file could be
// changed by those who may not change roles. It is "" of a file that is a role's alone, and of
// documents that are no roles.
func RoleFault(root linkReader, name string) string {
	if !isRole(name) {
		return ""
	}
	for _, place := range way(root, name) {
		if place != name && nameFault(place) == "" {
			return "is a symlink to " + place + ", which can be changed by that name; put the role's own file in its place"
		}
	}
	return ""
}

// LinksToNothing is what is wrong with a symlink to what is not there; "" of anything else.
func LinksToNothing(root linkReader, name string) string {
	info, err := root.Lstat(name)
	if err != nil || info.Mode()&fs.ModeSymlink == 0 {
		return ""
	}
	places := way(root, name)
	if places == nil {
		return ""
	}
	if _, err = root.Lstat(places[len(places)-1]); !errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	return "is a symlink that leads to nothing: " + atomicfile.Cause(err)
}

// noteLink reports a symlink to what is not there, until it leads somewhere or is gone.
func (t *tree) noteLink(dir *directory, name string) {
	if _, linked := t.linked[name]; linked {
		dir.problems.Set(OfDirectory, name, LinksToNothing(dir.root, name))
	}
}

// hasLinks reports whether anything in the directory is reached through symlinks.
func (t *tree) hasLinks() bool { return len(t.linked)+len(t.linkedDirs) > 0 }

// otherNames are the names of documents, besides name itself, that lead to the entry of a directory
// that name leads to.
func (t *tree) otherNames(root atomicfile.Root, name string) (names []string) {
	if !t.hasLinks() {
		return nil
	}
	entry := way(root, name)
	if entry == nil {
		return nil
	}
	names = append(names, entry[0])
	for link := range t.linkedDirs {
		if places := way(root, link); places != nil && below(entry[0], places[len(places)-1]) {
			names = append(names, path.Join(link, strings.TrimPrefix(entry[0], places[len(places)-1]+"/")))
		}
	}
	for link, places := range t.linked {
		if slices.Contains(places, entry[0]) {
			names = append(names, link)
		}
	}
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(other string) bool {
		return other == name || nameFault(other) != "" || circular(root, other) || RoleFault(root, other) != ""
	})
}

// circular reports whether a name leads through a directory twice, so that the walk does not find it.
func circular(root atomicfile.Root, name string) bool {
	above, _ := (&walker{root: root}).above(name) // of a directory that is not there yet none
	for i, id := range above {
		if slices.Contains(above[:i], id) {
			return true
		}
	}
	return false
}

// alone reports whether a Set has to be carried out by itself, because other names have a part in it.
func (w *writer) alone(j *setJob) bool {
	name := j.reqs[0].Name
	return w.in.tree.linked[name] != nil || len(w.in.tree.otherNames(w.dir.root, name)) > 0
}

// follow adds the other names of the files that a request writes: they are documents that change with
// them.
func (w *writer) follow(s *step) error {
	if !w.in.tree.hasLinks() {
		return nil
	}
	asked := make(map[string]int, len(s.files)) // by name
	entries := make(map[string]int)             // of the files that are written
	for i := range s.files {
		f := &s.files[i]
		asked[f.req.Name] = i
		places := way(w.dir.root, f.req.Name)
		if f.req.keep || f.err != nil || places == nil {
			continue
		}
		if first, twice := entries[places[0]]; twice {
			if !bytes.Equal(f.req.Contents, s.files[first].req.Contents) {
				return codes.Errorf(codes.BadRequest, "%s and %s are one file, by a symlink; nothing was changed: name it once", shorten(s.files[first].req.Name), shorten(f.req.Name))
			}
			continue
		}
		entries[places[0]] = i
	}
	for i := range s.files { // a link to a file that is to hold the same may stay
		f := &s.files[i]
		if places := way(w.dir.root, f.req.Name); f.text != nil && len(places) > 1 && !f.req.keep {
			for _, place := range places[1:] {
				if to, ok := entries[place]; ok && bytes.Equal(f.req.Contents, s.files[to].req.Contents) {
					delete(entries, places[0])
				}
			}
		}
	}
	names := make(map[string]bool)
	for _, i := range entries {
		for _, name := range w.in.tree.otherNames(w.dir.root, s.files[i].req.Name) {
			names[name] = true
		}
	}
	for name := range names {
		for _, place := range way(w.dir.root, name) {
			to, ok := entries[place]
			if !ok {
				continue
			}
			if i, ok := asked[name]; !ok {
				req := *s.files[to].req
				req.Name, req.Base, req.HasIfMtime = name, nil, false
				s.files = append(s.files, fileSetting{req: &req, leads: to + 1})
			} else if i != to {
				s.files[i].leads = to + 1
			}
			break
		}
	}
	return nil
}

// judgeLink works out what becomes of a document whose file is written by another name, given the
// edit of that.
func (w *writer) judgeLink(p planner, f, file *fileSetting, as snapshot.Edit, more int) (ed snapshot.Edit, err error) {
	name, n := f.req.Name, p.Prev.Node(f.req.Name)
	if f.req.keep {
		if _, err := p.judge(f.req, nil, f.before, nil); err != nil { // its Base counts
			return ed, err
		}
	}
	f.text, f.data, f.mtime, f.result.Deleted = file.text, file.data, file.mtime, file.text == nil
	if n.Known() {
		f.result.Mtime = n.Mtime(false)
	}
	if !file.write || as.Text == nil && !n.Known() {
		return ed, nil
	}
	if err := w.in.full(name, more); err != nil {
		return ed, err
	}
	if err := w.cfg.MayChange(name, as.Text == nil, f.req.Actor); err != nil {
		return ed, err
	}
	ed = snapshot.Edit{Name: name, Text: as.Text, Given: as.Given, Quiet: snapshot.SameContents(n, as.Text) || as.Resealed, Resealed: as.Resealed, Actor: as.Actor, File: as.File, Hash: as.Hash, Replaces: f.before.raw}
	if ed.Quiet {
		ed.Given = n.GivenMtime()
	} else {
		if err := p.refuseVersion(name); err != nil {
			return ed, err
		}
		if err := w.cfg.Check(name, n.Text(), ed.Text, f.req.Actor); err != nil {
			return ed, err
		}
	}
	f.edited = true
	return ed, nil
}

// comesWith is the name of the file that comes in place for a version too, because a link leads to it and
// the same change has written it; "" if the version has a file of its own. same reports whether a document
// has the file of that version from the same change.
func (p *placer) comesWith(v *log.Version, same func(name string) bool) string {
	for _, place := range way(p.dir.root, v.Name) {
		if place != v.Name && same(place) {
			return place
		}
	}
	return ""
}
