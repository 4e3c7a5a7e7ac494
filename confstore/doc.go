// Package confstore keeps a directory of JSON documents and serves it as
// immutable snapshots.
//
// People change the directory with an editor, git or scp, programs change it
// with [Store.Set]; both ways lead to the same place: a new [Snapshot] behind
// [Store.Snapshot] and a [Batch] to whoever has called [Store.Subscribe]. A
// [Node] is one document of a snapshot, with what it inherits by _meta.json
// merged in, and is read without locks and without allocation.
//
// What a directory alone cannot keep is in a journal in Config.DataDir: versions
// that never fall, tombstones of removed documents, the last good contents of a
// file that is broken now, and the intent of a write, so that a kill or a power
// cut between two steps leaves the whole old document or the whole new one.
//
// One goroutine owns all change. It takes from four sources: the queue of Set
// (set.go), file events that have settled (watch.go, settle.go), scans (scan.go)
// and Reload. Whatever the source, the way of a change is: read or check, plan
// its version and whom it concerns (plan.go), journal it (journal.go), publish
// (publish.go). A newcomer reads that in this order, then node.go.
package confstore
