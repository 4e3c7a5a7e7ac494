package disk

import (
	"slices"
	"sort"

	"confcenter/kv"
	"confcenter/kvstore/replica"
)

// ring holds the newest changes, for readers that are nearly current.
type ring struct {
	limit   int64
	bytes   int64
	floor   kv.Revision // changes after it are here
	changes []kv.Change // oldest first
	head    int         // how many at the beginning of changes were dropped
}

// changeOverhead is roughly what a change costs beside its keys and values.
const changeOverhead = 64

func changeBytes(c *kv.Change) int64 {
	n := int64(changeOverhead)
	for i := range c.Events {
		e := &c.Events[i]
		n += changeOverhead + int64(e.Entry.Size())
		if e.Prev != nil {
			n += int64(e.Prev.Size())
		}
	}
	return n
}

// add takes the changes of a group that follows revision prev.
func (r *ring) add(prev kv.Revision, commits []replica.Commit) {
	if r.head == len(r.changes) {
		r.floor = prev
	}
	for i := range commits {
		r.changes = append(r.changes, commits[i].Change)
		r.bytes += changeBytes(&commits[i].Change)
	}
	for r.bytes > r.limit && r.head < len(r.changes) {
		oldest := &r.changes[r.head]
		r.bytes -= changeBytes(oldest)
		r.floor = oldest.Revision
		*oldest = kv.Change{}
		r.head++
	}
	if r.head > len(r.changes)/2 {
		r.changes = slices.Delete(r.changes, 0, r.head)
		r.head = 0
	}
}

// after returns the changes after a revision, as Disk.Changes does; ok is false if
// they are not all here.
func (r *ring) after(rev kv.Revision, maxBytes int) (changes []kv.Change, ok bool) {
	if rev < r.floor {
		return nil, false
	}
	kept := r.changes[r.head:]
	first := sort.Search(len(kept), func(i int) bool { return kept[i].Revision > rev })
	end := first
	for size := 0; end < len(kept) && !full(end-first, size, maxBytes); end++ {
		size += entryBytes(&kept[end])
	}
	if end == first {
		return nil, true
	}
	return slices.Clone(kept[first:end]), true
}

// maxChanges bounds an answer of changes that have hardly any bytes.
const maxChanges = 65_536

// full says that an answer of n changes, with size bytes of entries, is complete.
func full(n, size, maxBytes int) bool {
	return n > 0 && (size >= maxBytes || n >= maxChanges)
}

func entryBytes(c *kv.Change) (n int) {
	for i := range c.Events {
		n += c.Events[i].Entry.Size()
	}
	return n
}
