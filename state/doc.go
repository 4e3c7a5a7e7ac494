// Package state has the table of what can be asked of a model of a cluster's state. A model, as
// package flow is, is written against a small store (kv/embedded). What can be asked of it is a list
// of [Operation]: the edges, which are the wire, HTTP, the command line and the Go client, follow
// from that list, and each adds nothing of its own.
package state
