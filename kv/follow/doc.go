// Package follow keeps track of how far somebody who follows a store has been told
// what happens to some of its keys: in order, without a gap, without repeating
// anything.
//
// A [Cursor] is one follower's position. It has no goroutine and belongs to one
// caller at a time, so that an event loop, a worker, a stream and a test can all
// stand on it. What happened comes to hand in two ways: [Cursor.Offer] takes what
// a feed brought and never waits; [Cursor.Fetch] reads back from the store what the
// follower missed, or the state if that is no longer kept, and may wait for a disk.
// [Cursor.Next] tells what is at hand, a notice at a time, and never waits. Who may
// wait calls [Cursor.Poll], which is all three.
//
// A [Source] is the store as the cursors of one user share it. A [Recent] keeps the
// newest changes for all of them, so that only those who fall behind read back.
package follow
