package disk

import (
	"slices"
	"sort"

	"confcenter/kv"
	"confcenter/kvstore"
)

// ring holds the newest groups as they were appended, for readers that are nearly up to
// date.
type ring struct {
	limit  int64
	bytes  int64
	floor  kv.Revision // changes after it are here
	groups []appended  // oldest first
}

// add takes a group.
func (r *ring) add(g appended) {
	g = g.withoutArchive()
	r.groups = append(r.groups, g)
	r.bytes += g.holds
	drop := 0
	for ; r.bytes > r.limit && drop < len(r.groups); drop++ {
		r.bytes -= r.groups[drop].holds
		r.floor = r.groups[drop].last()
		r.groups[drop] = appended{}
	}
	r.groups = r.groups[drop:] // append moves what is left, when there is no more room
}

// withoutArchive is the group as far as changes tell of it.
func (g appended) withoutArchive() appended {
	has := func(c kvstore.Commit) bool { return c.Archive != nil }
	if !slices.ContainsFunc(g.commits, has) {
		return g
	}
	commits := slices.Clone(g.commits)
	for i := range commits {
		for j := range commits[i].Archive {
			g.holds -= archiveCost(commits[i].Archive[j].Entry)
		}
		commits[i].Archive = nil
	}
	g.commits = commits
	return g
}

// after returns the changes after a revision, as Disk.Changes does; ok is false if some of
// them are not here.
func (r *ring) after(rev kv.Revision, maxBytes int) (changes []kv.Change, ok bool) {
	if rev < r.floor {
		return nil, false
	}
	size := 0
	first := sort.Search(len(r.groups), func(i int) bool { return r.groups[i].last() > rev })
	for _, g := range r.groups[first:] {
		skip := sort.Search(len(g.commits), func(i int) bool { return g.commits[i].Revision > rev })
		for i := skip; i < len(g.commits); i++ {
			if full(len(changes), size, maxBytes) {
				return changes, true
			}
			changes = append(changes, g.commits[i].Change)
			size += entryBytes(&g.commits[i].Change)
		}
	}
	return changes, true
}

// maxChanges bounds an answer of changes that have hardly any bytes.
const maxChanges = 65_536

// full reports whether an answer of n changes with size bytes of entries is complete.
func full(n, size, maxBytes int) bool {
	return n > 0 && (size >= maxBytes || n >= maxChanges)
}

// leastBytes is what a small entry counts in an answer: the work of reading it.
const leastBytes = 64

// entryBytes is what a change counts in an answer.
func entryBytes(c *kv.Change) (n int) {
	for i := range c.Events {
		n += max(leastBytes, c.Events[i].Entry.Size())
	}
	return n
}
