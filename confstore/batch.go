package confstore

import "confcenter/access"

// Batch is one step from a snapshot to the next: all edits found together, one Set or one
// Change. All
// subscribers share it and must not change it.
type Batch struct {
	Seq      uint64    // Snapshot.Seq()
	Snapshot *Snapshot // with the changes
	Prev     *Snapshot // without them
	// Changes has one item per document whose own or resolved form changed, a base
	// before those that inherit it, else by name. It is never empty.
	Changes []Change

	joined map[string]*access.Actor // the names of what was joined, and who changed them last; nil: Changes is complete
}

// Change is the change of one document in a Batch.
type Change struct {
	Name string
	// Node is the document now; never nil, but Known may be false.
	Node *Node
	// Prev is the document before, nil if there was none.
	Prev *Node
	// Own: its own contents were set, edited or deleted.
	Own bool
	// Actor is who changed the contents: the actor of the Set or, for an edit found on disk,
	// one whose origin is the disk. It is nil if Own is false or the Set had none.
	Actor *access.Actor
	// Bases are those of its bases whose own contents changed in this batch, weakest first.
	// The resolved version rises even if the resolved contents turn out the same.
	Bases []string
	// BasesListChanged: _meta.json gave it other bases or another way to merge.
	BasesListChanged bool
}

// basesFirst puts bases before their heirs; changes are sorted by name. Cycles are cut at
// any point.
func basesFirst(changes []Change) []Change {
	index := make(map[string]int, len(changes))
	for i, c := range changes {
		index[c.Name] = i
	}
	ordered := make([]Change, 0, len(changes))
	visited := make([]bool, len(changes))
	// It has a stack of its own, because chains of bases may be long.
	type step struct{ change, base int }
	var stack []step
	for i := range changes {
		stack = append(stack[:0], step{change: i})
		for len(stack) > 0 {
			top := &stack[len(stack)-1]
			c := &changes[top.change]
			if top.base == 0 && visited[top.change] {
				stack = stack[:len(stack)-1]
				continue
			}
			visited[top.change] = true
			if top.base < len(c.Node.bases) {
				base, listed := index[c.Node.bases[top.base]]
				top.base++
				if listed && !visited[base] {
					stack = append(stack, step{change: base})
				}
				continue
			}
			ordered = append(ordered, *c)
			stack = stack[:len(stack)-1]
		}
	}
	return ordered
}
