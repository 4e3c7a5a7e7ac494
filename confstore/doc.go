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
//
// What must stay true:
//
//   - A snapshot never changes. Snapshots share the nodes in which they are the same, so a
//     change costs what it changes, and a read costs the same with ten files and with ten
//     thousand.
//   - Documents are kept, merged and cut as text, and are UTF-8 or broken. What is served is
//     the compact form of what is in the file, so reading it again changes nothing.
//   - Versions rise, per name and per document that inherits, across restarts too. Writers
//     cannot make them run more than a day ahead of the clock.
//   - A write is: temporary file, fsync, intent in the ledger, fsync, rename, fsync of the
//     directory, publication, reply. A stop at any point leaves the old or the new. Writes
//     that wait take each step together.
//   - What a change comes to is computed without side effects; whether it happens, the disk
//     decides.
//   - People's files are never rewritten by us. All access goes through [os.Root].
package confstore
