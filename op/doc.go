// Package op has what is known of an operation before it is done, no matter who asks for it and how: its
// row in a table of [Operation], how a question is read and an answer written by the tags of their structs,
// and the things that a question is about ([Thing]). The edges, which are the wire, HTTP, the command line
// and the Go client, follow from the row, and each adds nothing of its own. Rights, namespaces that pay,
// freezes and the audit follow from the things, so that each is decided in one place for all operations.
//
// A question is judged by the names in it, before anything is looked up. So whether something exists makes
// no difference to what is refused. What hangs on contents, such as what a document inherits from or whose
// a lease is, its store decides. The package knows no store and no transport.
package op
