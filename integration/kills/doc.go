// Package kills ends the real binary in the middle of its work, again and again, and compares what is
// there afterwards with what was acknowledged. Each store has a test: documents, keys, the models of a
// cluster's state, the audit, Plum's keys, player storage and its landing; and a backup that is made
// under load has to be as of one revision.
//
// Each kills its server five times. With the build tag soak they take as many rounds as they can need to
// find what happens rarely, and say how many there were.
package kills
