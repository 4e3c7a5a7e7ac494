// Package disk is everything the embedded engine keeps on disk.
//
// The log is the truth: [Disk.Append] writes one group of transactions as one
// record and returns when it is durable. Everything else is derived from the log
// in the background, by the keeper: current values, older versions, leases and
// request tokens, in sorted tables that are added to the database whole. A crash
// at any moment leaves the tables as of one revision and the log behind it, from
// which [Open] goes on.
//
// Two retentions end what is kept: the log is contiguous above the one floor, and
// versions are complete above the other, but for keys with very many, which
// have a floor of their own. Whatever cannot be answered for certain is answered
// with codes.Compacted.
//
// A file beside the database, the mark, says how far acknowledged writes reach. A
// database that ends before it has lost something, and is refused.
//
// Three types do this, one on top of the other: the database, as it is open; the
// log with what is in it only, and the gate that refuses writes for want of space;
// the keeper. A [Disk] is the keeper's log as users of the package see it.
//
// A newcomer reads keys.go (what lies where), append.go (the way in),
// materialise.go (how tables are made), open.go (the way back), read.go.
package disk
