package confstore

import (
	"io/fs"
	"os/user"
	"path"
	"strconv"
	"time"

	"confcenter/access"
	"confcenter/confstore/snapshot"
	"confcenter/internal/atomicfile"
	"confcenter/internal/git"
)

// onDisk is the actor for edits of files of which no more is known.
var onDisk = &access.Actor{Origin: access.OnDisk}

// sign says of edits that were found on disk, by readings, that they are those of the files' owners. What
// git knows of them comes later, see package commits.
func (d *directory) sign(edits []snapshot.Edit, readings []reading) {
	if d.cfg.FS != atomicfile.OS() || len(edits) == 0 {
		return
	}
	infos := make(map[string]fs.FileInfo, len(readings))
	for i := range readings {
		infos[readings[i].name] = readings[i].info
	}
	owners, trees := map[uint32]*access.Actor{}, git.TreesOf(d.path)
	for i := range edits {
		e := &edits[i]
		if r := trees.Of(path.Dir(e.Name)); r != nil {
			e.State = d.states[r.Dir]
		}
		if e.Text == nil {
			continue // a file that is gone has no owner
		}
		uid, known := git.OwnerOf(infos[e.Name])
		if !known {
			continue
		}
		if owners[uid] == nil {
			owners[uid] = owner(uid)
		}
		e.Actor = owners[uid]
	}
}

// owner is the actor of edits of files of a user.
func owner(uid uint32) *access.Actor {
	id := strconv.FormatUint(uint64(uid), 10)
	name := "uid " + id
	if u, err := user.LookupId(id); err == nil && u.Username != "" {
		name = access.Fitted(u.Username, access.MaxAuthor)
	}
	return &access.Actor{Origin: access.OnDisk, Author: name}
}

// gitWorks is [git.Trees.Works] of the directory. It is asked before files are read, and takes note of
// the states of repositories by then.
func (d *directory) gitWorks(dirs map[string]struct{}) (works bool, last time.Time) {
	if d.cfg.FS == atomicfile.OS() {
		works, last, d.states = git.TreesOf(d.path).Works(dirs)
	}
	return works, last
}
