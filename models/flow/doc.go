// Package flow keeps the state of a cluster of schedulers and workers on a [embedded.Store], in
// the layout of cloudflow: applications with their services, sessions, flows and nodes, who
// works on which of them, and what has happened to each.
//
// Everything is a key of its own that any client may read and watch: a member of a list is the
// key LIST.MEMBER with the member's status as its value, a field is MEMBER.FIELD; see [Key].
// A scope is a namespace; see [Namespace].
//
// What is written is written by the operations here, which keep it in order: what a list
// says of a member, its cstat and its state never differ, every change says who made it and
// when and leaves a line in the operation log, a task is claimed by one worker, and what is
// too large for one transaction appears, or goes, whole all the same: [Flow.Run] finishes or
// undoes what a caller began and did not live to finish.
//
// Begin with key.go, then flow.go and edit.go, then register.go.
package flow
