package snapshot

import "confcenter/access"

// Batch is one step from a snapshot to the next: all edits found together, one Set or one
// Change. All subscribers share it and must not change it.
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
	var visit func(i int)
	visit = func(i int) {
		if visited[i] {
			return
		}
		visited[i] = true
		for _, base := range changes[i].Node.bases {
			if at, listed := index[base]; listed {
				visit(at)
			}
		}
		ordered = append(ordered, changes[i])
	}
	for i := range changes {
		visit(i)
	}
	return ordered
}
