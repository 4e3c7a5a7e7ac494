// Package confstore keeps a directory of JSON documents and serves it as
// immutable snapshots.
//
// People change the directory with an editor, git or scp, programs change it with [Store.Set], or
// several documents at once with [Store.Change]; all ways lead to the same place: a new
// [snapshot.Snapshot] behind [Store.Snapshot] and a [snapshot.Batch] for every subscriber
// ([Store.Subscribe]). A [snapshot.Node] is one document of a snapshot, with what it inherits by
// _meta.json merged in, and is read without locks and without allocation.
//
// One goroutine owns the way of a change, and every change takes it, whether it was asked for or
// found on disk:
//
//   - It is found. Edits are noticed by file events ([watch.Watcher]) that settle (settle.go,
//     intake.go) or by scans (walk.go), and read from the directory (directory.go), with who owns them
//     (owner.go); requests wait in a queue (queue.go), and those that wait together share the
//     disk's time (group.go).
//   - It is planned: the versions, the affected documents and the next snapshot
//     ([snapshot.Planner]), and whether a request is refused (judge.go). This is pure.
//   - It is carried out, by writer.carryOut in writer.go, which reads from top to bottom. The
//     temporary files of requests are prepared. The change is committed to a [log.Log] in the state
//     store, which remembers what a directory cannot: every version with its exact bytes, who made
//     it and why, versions that never fall, tombstones of removed documents. Files are put in place
//     (placer.go). The publisher serves the snapshot and tells the subscribers (publish.go). Last,
//     files are handed over to be made durable in the background, and git is asked who made what
//     was found ([commits.Finder]).
//
// A start puts in place what a stop has kept from it, and tells that from people's edits (open.go,
// [place.Judge]). Those who follow contents by revision are told of what the log has, and what they
// missed is read back from there ([revisions.Store]).
//
// A newcomer reads them in this order. What a disk can do to them, and who hears of it, is in
// trouble.go.
//
// What must stay true:
//
//   - A snapshot never changes. Snapshots share the nodes in which they are the same, so a
//     change costs what it changes, and a read costs the same with ten files and with ten
//     thousand.
//   - Documents are kept, merged and cut as text, and are UTF-8 or broken. What is served is
//     the compact form of what is in the file, so reading it again changes nothing.
//   - Versions rise, per name and per document that inherits, across restarts too. Writers
//     cannot make them run more than two days ahead of the clock. What differs from the log at
//     a start gets at least the time of the start, which is later than the version it may have
//     been served with while the log could not be written, unless versions run ahead.
//   - A disk that fails or hangs ends nothing but writing, and a panic nothing but writing and
//     looking for edits: snapshots are served, and edits while they can be read and --data
//     does not hang. No caller waits for a disk without a limit. What the log has missed is
//     committed as soon as it can be.
//   - A write is: temporary files, commit in the log, renames, publication, reply. A stop at any
//     point leaves the old or the new, of all documents of a change: what is not in place by then
//     a start puts there. Writes that wait take each step together.
//   - The consequences of a change are computed without side effects; whether it happens is
//     decided by the disk.
//   - The store never rewrites people's files by itself. All access goes through [os.Root].
package confstore
