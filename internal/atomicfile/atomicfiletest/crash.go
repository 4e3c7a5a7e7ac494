package atomicfiletest

import (
	"maps"
	"slices"
)

// Crash returns the file system as it would be found if the machine stopped now.
// Everything that was fsynced is there. For everything else (the bytes of a file,
// an entry of a directory) keep decides whether it reached the disk: always true
// models a killed process, always false the harshest power cut. Locks are gone.
// The receiver stays usable, and later writes to it do not change the result.
func (m *Mem) Crash(keep func() bool) *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	after := NewMem(m.now)
	after.lastIno = m.lastIno
	c := crash{keep: keep, seen: make(map[*memNode]*memNode)}
	after.root = c.node(m.root)
	return after
}

type crash struct {
	keep func() bool
	seen map[*memNode]*memNode // one copy per inode, whatever names it has
}

func (c *crash) node(n *memNode) *memNode {
	if done, ok := c.seen[n]; ok {
		return done
	}
	out := &memNode{ino: n.ino, perm: n.perm, modified: n.modified, changed: n.changed}
	c.seen[n] = out
	if n.children == nil {
		out.data = c.bytes(n)
		out.synced = slices.Clone(out.data)
		return out
	}
	out.children = make(map[string]*memNode)
	names := maps.Clone(n.children)
	maps.Copy(names, n.syncedChildren)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		child := n.syncedChildren[name]
		if child != n.children[name] && c.keep() {
			child = n.children[name]
		}
		if child != nil {
			out.children[name] = c.node(child)
		}
	}
	out.syncedChildren = maps.Clone(out.children)
	return out
}

// bytes is all, none or, of an append, a torn half of what was not fsynced, or only its length.
func (c *crash) bytes(n *memNode) []byte {
	switch {
	case slices.Equal(n.data, n.synced), c.keep():
		return slices.Clone(n.data)
	case len(n.data) > len(n.synced) && c.keep():
		return slices.Clone(n.data[:(len(n.data)+len(n.synced))/2])
	case len(n.data) > len(n.synced) && c.keep():
		return append(slices.Clone(n.synced), make([]byte, len(n.data)-len(n.synced))...)
	}
	return slices.Clone(n.synced)
}
