// Package confstore keeps a directory of JSON documents and serves it as
// immutable snapshots.
//
// People change the directory with an editor, git or scp, programs change it
// with [Store.Set]; both ways lead to the same place: a new [Snapshot] behind
// [Store.Snapshot] and a [Batch] to whoever has called [Store.Subscribe]. A
// [Node] is one document of a snapshot, with what it inherits by _meta.json
// merged in, and is read without locks and without allocation.
//
// A change passes four parts, and one goroutine owns them all:
//
//   - The intake finds it. Edits are heard of by file events that settle (watch.go,
//     settle.go, gather.go), found by scans (scan.go, walk.go) and read from the
//     directory (directory.go); requests wait in the writer's queue (set.go), and
//     those that wait together share the disk's time (group.go).
//   - The planner says what it comes to: the versions, and whom it concerns (plan.go),
//     whether a request is refused (judge.go), the next snapshot (apply.go). It is
//     pure.
//   - The recorder makes it durable in a [confcenter/confstore/ledger.Ledger], which
//     remembers what a directory alone cannot: versions that never fall, tombstones of
//     removed documents, the last good contents of a file that is broken now, and
//     writes that were begun, so that a kill or a power cut between two steps leaves
//     the whole old document or the whole new one (recorder.go, recall.go).
//   - The publisher puts the snapshot in place and tells the subscribers (publish.go).
//
// A newcomer reads them in this order, then node.go.
package confstore
