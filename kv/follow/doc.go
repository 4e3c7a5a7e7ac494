// Package follow has the followers of stores, which are of two kinds.
//
// Those of the first kind are told each change of some keys: in order, without gaps
// and without repetition. A [Cursor] is how far one has been told. It has no goroutine
// and belongs to one caller at a time, so event loops, workers, streams and tests can
// all use it. It gets changes in two ways: [Cursor.Offer] takes what a feed brought and
// never waits; [Cursor.Fetch] reads what the follower missed from the store, or the
// state if the changes are no longer kept, and may wait for a disk. [Cursor.Next]
// returns what the cursor has, one notice at a time, and never waits. A [Source] is the
// store as the cursors of one user share it. A [Recent] keeps the newest changes for all
// of them, so that only cursors that fall behind read back. [Topics] find the filters
// that an event matches.
//
// An [Exact] is all of that for followers that have a goroutine, as streams and models
// have: each [Follower] is woken when something matches, and takes or waits for its
// notices. Event loops, which must not wait, drive their cursors themselves.
//
// Those of the second kind are told the newest state of each name, joined: what changed
// often while they were busy they are told once. [Newest] is for those that have a
// goroutine. Event loops have a [Queue] each, which joins what is too much for them.
package follow
