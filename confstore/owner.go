package confstore

import (
	"os/user"
	"path"
	"strconv"
	"time"

	"confcenter/access"
	"confcenter/internal/atomicfile"
	"confcenter/internal/git"
)

// onDisk is the actor for edits of files of which no more is known.
var onDisk = &access.Actor{Origin: access.OnDisk}

// sign says of edits that were found on disk that they are those of the files' owners. What git
// knows of them comes later, see package commits.
func (d *directory) sign(edits []edit) {
	if d.cfg.FS != atomicfile.OS() || len(edits) == 0 {
		return
	}
	owners, trees := map[uint32]*access.Actor{}, git.TreesOf(d.path)
	for i := range edits {
		e := &edits[i]
		if r := trees.Of(path.Dir(e.name)); r != nil {
			e.state = d.states[r.Dir]
		}
		if e.info == nil {
			continue
		}
		uid, known := git.OwnerOf(e.info)
		if !known {
			continue
		}
		if owners[uid] == nil {
			owners[uid] = owner(uid)
		}
		e.actor = owners[uid]
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
