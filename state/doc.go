// Package state is what models of a cluster's state are built of: the small interface of a
// store that they need, and the table of what can be asked of a model.
//
// A model, as package flow is, is written against [Store] alone, and runs in the server on
// [Embedded], where it may write to the namespaces that are guarded for it. What can be asked of it
// is a list of [Operation]: the edges, which are the wire, HTTP, the command line and the Go client,
// follow from that list, and each adds nothing of its own.
package state
